"""What the library logs on the side, as `warning: …` on stderr: a damaged file that a listing left out, for one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from holdfast.history.preview import escape


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"warning: {escape(record.getMessage())}", file=sys.stderr)


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Shows them as long as a store is open."""
    logger, handler = logging.getLogger("holdfast"), _Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
