"""An agent whose next step a language model chooses."""
