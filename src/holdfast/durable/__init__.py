"""How a run survives: the checkpoint manager and what it is made of."""
