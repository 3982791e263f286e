"""`Orchestrator`: many users' messages, each to the agent that it is for."""
