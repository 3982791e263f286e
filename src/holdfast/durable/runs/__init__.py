"""Runs: Python that a model wrote, executed so that it survives the death of its process."""
