"""Real sandboxes, for claims about what a program sees and hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_monty import Monty, MontyComplete


@contextmanager
def sandbox() -> Iterator[Callable[..., Any]]:
    """A function that runs a program, with one answer for every call that it makes, and returns its output."""
    with Monty(max_processes=1) as pool:

        def run(code: str, answer: Any = None, **options: Any) -> Any:
            with pool.checkout(**options) as session:
                here = session.feed_start(code)
                while not isinstance(here, MontyComplete):
                    here = here.resume(answer)
                return here.output

        yield run


def output(code: str, answer: Any = None, **options: Any) -> Any:
    """The output of one program."""
    with sandbox() as run:
        return run(code, answer, **options)
