"""The SQLite store: one file, many processes, every commit durable."""

from holdfast.storage.sqlite.store import SQLiteCheckpointStorage

__all__ = ["SQLiteCheckpointStorage"]
