"""What happened, pure: records, the live path, checkpoints, encodings and differences. No I/O, no clock."""
