"""The version of Holdfast: this is the only place that states it."""

__version__ = "0.1.0"
