"""Triggers: which messages start an agent of a class."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Trigger: TypeAlias = str | re.Pattern[str]
"""Words that a message must contain, in any case, or a pattern that must be found in it."""


def matches(trigger: Trigger, text: str) -> bool:
    """Whether a trigger is in a text; words only as whole ones.

    >>> matches("book", "Book a table"), matches("book", "my booking"), matches(re.compile("for [0-9]"), "for 4")
    (True, False, True)
    """
    return (_words(trigger) if isinstance(trigger, str) else trigger).search(text) is not None


@lru_cache(maxsize=1024)
def _words(trigger: str) -> re.Pattern[str]:
    words = r"\s+".join(re.escape(word) for word in trigger.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
