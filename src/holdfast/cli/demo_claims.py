"""The claims of `holdfast demo`: each is held against what was seen, and one that does not hold ends it."""

from __future__ import annotations

from holdfast.errors import HoldfastError


class Unproven(HoldfastError):
    """Something that the demo claims did not show; the command ends with code 1."""

    default_hint = "That must not be: please report it, with what is shown above."


def prove(shown: bool, otherwise: str) -> None:  # noqa: FBT001 - a claim is a condition
    if not shown:
        raise Unproven(otherwise)
