"""Secrets: the values that a workflow takes from the environment, kept out of everything that is stored."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.errors import InvalidArgument
from holdfast.history import codec

LENGTH_MIN: Final = 8
"""Shorter values are left alone: `1` or `eu` is no secret, and stands in many a text by chance."""


class Secrets:
    """Replaces the values of these variables by `[env:NAME]`, wherever a step gives them back.

    This is done when a result comes in, not when it is stored: a run that was interrupted goes on with the same
    results as one that was not.
    """

    def __init__(self, names: Iterable[str], environment: Mapping[str, str] | None = None) -> None:
        known = os.environ if environment is None else environment
        found = {known[name]: name for name in sorted(names) if len(known.get(name, "")) >= LENGTH_MIN}
        self._names = dict(sorted(found.items(), key=lambda item: -len(item[0])))  # the longest first

    def text(self, text: str) -> str:
        for value, name in self._names.items():
            text = text.replace(value, f"[env:{name}]")
        return text

    def kept(self, value: Any, path: str) -> Any:
        """The value as it is stored: without the secrets, a copy that nobody else can change.

        What can't be stored is an `Unstorable`, a secret that can't be taken out an `InvalidArgument`.
        """
        packed = codec.encode(value, path=path)
        if not self._has_one(packed):
            return codec.decode(packed)
        packed = codec.encode(self._cleaned(codec.decode(packed)), path=path)
        for secret, name in self._names.items():
            if secret.encode("utf-8", "surrogatepass") in packed:
                raise InvalidArgument(f"{path} has the value of ${{env:{name}}} where it can't be taken out", path=path)
        return codec.decode(packed)

    def _has_one(self, packed: bytes) -> bool:
        return any(secret.encode("utf-8", "surrogatepass") in packed for secret in self._names)

    def _cleaned(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if type(value) is bytes:
            for secret, name in self._names.items():
                value = value.replace(secret.encode("utf-8", "surrogatepass"), f"[env:{name}]".encode())
            return value
        if type(value) is dict:
            return {self._cleaned(key): self._cleaned(inner) for key, inner in value.items()}
        if type(value) in (list, tuple, set, frozenset):
            return type(value)(self._cleaned(inner) for inner in value)
        return value
