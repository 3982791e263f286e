"""The loop of a long-lived agent: mailbox, tasks, checkpoints as time passes, refreshes, drift."""
