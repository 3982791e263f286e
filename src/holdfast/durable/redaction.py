"""Redaction: secrets are taken out before anything is stored, and the record says where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.history.records import AssistantMessage, Record, RlmToolCall

SECRET_KEYS: Final = re.compile(
    r"(?i)(^|[_\-.]|\b)(pass(word|wd|phrase)?|secret|token|api[_\-]?key|apikey|auth(orization)?|credentials?|"
    r"private[_\-]?key|access[_\-]?key|client[_\-]?secret|session[_\-]?id|cookie|bearer)($|[_\-.]|\b)"
)
"""Names of arguments whose values are secrets."""

SECRET_TEXTS: Final = (
    re.compile(r"\bsk-[A-Za-z0-9_\-]{16,}"),  # OpenAI, Anthropic and others alike
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    re.compile(r"\bxox[abprs]-[A-Za-z0-9\-]{10,}"),
    re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_\-]{30,}"),
    re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}"),  # a JSON web token
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"(?i)\bbearer\s+[A-Za-z0-9_\-.=]{16,}"),
)
"""What a secret looks like wherever it stands."""

MARK: Final = "[redacted]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Redactor:
    """Replaces the values of secret keys, and texts that look like secrets, by `[redacted]`.

    >>> Redactor()({"user": "ada", "api_key": "k-123", "note": "use sk-abcdefghijklmnop0123"}, "arguments")
    ({'user': 'ada', 'api_key': '[redacted]', 'note': 'use [redacted]'}, ['arguments.api_key', 'arguments.note'])
    """

    keys: re.Pattern[str] = SECRET_KEYS
    texts: tuple[re.Pattern[str], ...] = SECRET_TEXTS

    def __call__(self, value: Any, path: str = "state") -> tuple[Any, list[str]]:
        """The value without its secrets, sharing what did not change, and the paths of what was taken out."""
        found: list[str] = []
        return self._clean(value, path, found), found

    def _clean(self, value: Any, path: str, found: list[str]) -> Any:
        if isinstance(value, str):
            return self._clean_text(value, path, found)
        if type(value) is dict:
            cleaned = {key: self._clean_item(key, inner, f"{path}.{key}", found) for key, inner in value.items()}
            return cleaned if any(cleaned[key] is not value[key] for key in value) else value
        if type(value) in (list, tuple):
            items = [self._clean(inner, f"{path}[{index}]", found) for index, inner in enumerate(value)]
            changed = any(new is not old for new, old in zip(items, value, strict=True))
            return type(value)(items) if changed else value
        return value

    def _clean_item(self, key: Any, value: Any, path: str, found: list[str]) -> Any:
        is_secret = isinstance(key, str) and self.keys.search(key) is not None
        if is_secret and isinstance(value, str | bytes | int | float) and value not in ("", MARK, True, False):
            found.append(path)
            return MARK
        return self._clean(value, path, found)

    def _clean_text(self, text: str, path: str, found: list[str]) -> str:
        cleaned = text
        for pattern in self.texts:
            cleaned = pattern.sub(MARK, cleaned)
        if cleaned != text:
            found.append(path)
            return cleaned
        return text


Redact = Callable[[Any, str], tuple[Any, list[str]]]
"""A value and its path in; the value without secrets and the paths of what was taken out."""


def redacted_records(records: Iterable[Record], redact: Redact | None) -> tuple[Record, ...]:
    """The records with their tool arguments redacted, each telling what was taken out."""
    return tuple(record if redact is None else _redacted(record, redact) for record in records)


def _redacted(record: Record, redact: Redact) -> Record:
    if isinstance(record, RlmToolCall):
        arguments, found = redact(record.tool_args, "toolArgs")
        return record.evolve(tool_args=arguments, redacted=found) if found else record
    if isinstance(record, AssistantMessage):
        calls, found = [], []
        for index, call in enumerate(record.tool_calls):
            arguments, paths = redact(call.get("arguments"), f"toolCalls[{index}].arguments")
            calls.append({**call, "arguments": arguments} if paths else call)
            found += paths
        return record.evolve(tool_calls=calls, redacted=found) if found else record
    return record
