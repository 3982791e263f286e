"""Measures Holdfast beside other ways of doing the same, in one run and on one disk: `python -m benchmarks`."""
