"""Yes or no, as people write it."""

from __future__ import annotations

from typing import Final

_YES: Final = frozenset(
    "yes y yep yeah ok okay sure approve approved confirm confirmed go proceed ja si oui".split()  # noqa: SIM905
)
_NO: Final = frozenset("no n nope cancel reject rejected deny denied decline stop nein non".split())  # noqa: SIM905


def yes_or_no(text: str) -> bool | None:
    """What an answer means by its first word; None when it is neither.

    >>> yes_or_no("Yes, please"), yes_or_no("no!"), yes_or_no("how much is it?")
    (True, False, None)
    """
    words = text.casefold().split()
    first = words[0].strip(".,;:!") if words else ""
    return True if first in _YES else False if first in _NO else None
