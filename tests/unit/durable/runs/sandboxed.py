"""Real sandboxes, for claims about what a program sees and hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_monty import Monty, MontyComplete, NameLookupSnapshot


@contextmanager
def sandbox() -> Iterator[Callable[..., Any]]:
    """A function that runs a program, with one answer for every call that it makes, and returns its output."""
    with Monty(max_processes=1) as pool:

        def run(code: str, answer: Any = None, **options: Any) -> Any:
            with pool.checkout(**options) as session:
                here = session.feed_start(code)
                while not isinstance(here, MontyComplete):
                    looked_up = isinstance(here, NameLookupSnapshot)
                    here = here.resume(value=_function(here.variable_name)) if looked_up else here.resume(answer)
                return here.output

        yield run


def _function(name: str) -> Callable[..., None]:
    def function() -> None:
        """Never called: the sandbox calls by name."""

    function.__name__ = name
    return function


def output(code: str, answer: Any = None, **options: Any) -> Any:
    """The output of one program."""
    with sandbox() as run:
        return run(code, answer, **options)
