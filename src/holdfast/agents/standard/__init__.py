"""`StandardAgent`: an agent that asks for what it needs, has it approved, and does its work."""
