"""Who runs: agents that talk, what routes messages to them, loops and workflows."""
