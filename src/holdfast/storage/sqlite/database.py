"""What we use of an apsw connection, with rows typed by those who know the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class Answer(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection. SQLite's columns can hold anything, so apsw types each value as a union that says nothing."""

    @property
    def filename(self) -> str: ...

    def execute(self, statements: str, bindings: Any = None, /) -> Answer: ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], /) -> Any: ...

    def total_changes(self) -> int: ...

    def get_autocommit(self) -> bool: ...

    def close(self) -> None: ...
