"""Workflows: steps in a YAML file, done by agents, each kept when it ends."""
