"""Drift: from what an agent does, whether it still gets anywhere. Pure: no clock, no I/O."""
