"""Prints: short texts that are the same for what is the same to an agent, and say nothing of its content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from holdfast.drift.masking import masked
from holdfast.drift.protocol import Event
from holdfast.errors import HoldfastError
from holdfast.history.jsonform import to_json

_PLACE: Final = re.compile(r"\b(lines?|columns?|col|row|char|position|offset)[ :]+\d+", re.IGNORECASE)
_PARTS: Final = re.compile(r"[=:,'\"(){}]+")
_DIGIT: Final = re.compile(r"\d")
_BETWEEN: Final = re.compile(r"(\W+)")
_TOKEN: Final = re.compile(r"\w+")
_LONG_NUMBER: Final = re.compile(r"\d{4,}")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]+")
_ECHO_MIN: Final = 3
_DEPTH_MAX: Final = 4
_ECHOES_MAX: Final = 100
_FEW_MAX: Final = 120
_ERROR_MAX: Final = 200
_IDLE: Final = re.compile(r"\W*|:\s+[^\n;&|><]*")
_MAYBE_IDLE: Final = re.compile(r"^[^{\[]|\"[^\w\"]*\"[,}\s]|: ?\"[^\w\"]*:?\s")  # cheaper than to read the JSON
_IDLE_MAX: Final = 200
_SUCCESS: Final = re.compile(r"\bsuccess(?:ful|fully)?\b", re.IGNORECASE)
_BEGINS_AS_ERROR: Final = re.compile(r"[\W\d]*(?:\w*error\b|traceback\b|fatal\b|exit code [1-9])", re.IGNORECASE)
_FAILURE: Final = re.compile(r"(?<!_)(?:error|fail|exception|traceback|denied|invalid|cannot|unable)", re.IGNORECASE)
_WORD: Final = re.compile(r"\w")


def call_print(event: Event) -> str:
    """The same for the same action with the same arguments, whatever the order of keys and the white space."""
    return _hashed(f"{event.action}\0{type(event.arguments).__name__}\0{' '.join(text_of(event.arguments).split())}")


def outcome_print(event: Event) -> str:
    """The same for outcomes that differ in nothing but what is volatile; whether it failed counts, too."""
    text = masked(text_of(event.outcome))
    return _hashed(text if event.error is None else f"{text}\0{masked(event.error)}")


def mistake_print(event: Event) -> str:
    """The same for one mistake made again with other arguments, because what the error repeats of them is masked.

    Empty when there was no error, or one that says nothing or success: some programs guess what an error is. An outcome
    that begins like an error is one.
    """
    text = event.error
    if text is None:
        if not isinstance(event.outcome, str) or _BEGINS_AS_ERROR.match(event.outcome) is None:
            return ""
        text = event.outcome
    if len(text) > 2 * _ERROR_MAX:
        text = f"{text[:_ERROR_MAX]} {text[-_ERROR_MAX:]}"
    for echo in sorted(set(islice(_echoes(event.arguments), _ECHOES_MAX)), key=len, reverse=True):
        text = text.replace(echo, "~")
    if _WORD.search(text) is None or (_SUCCESS.search(text) and not _FAILURE.search(text)):
        return ""
    text = _LONG_NUMBER.sub("~", _PLACE.sub(r"\1 ~", masked(text)))
    words = _words(event.arguments)
    text = "".join(["~" if part in words else part for part in _BETWEEN.split(text)])
    return _hashed(f"{event.action}\0{text}")


def does_nothing(event: Event) -> bool:
    """Whether there is nothing in the arguments that could be carried out: no word, or a shell's null command."""
    if isinstance(event.arguments, str) and (
        len(event.arguments) > _IDLE_MAX or not _MAYBE_IDLE.search(event.arguments)
    ):
        return False
    texts = list(islice(_strings(event.arguments), 8))
    if not texts or len(texts[0]) > _IDLE_MAX:
        return False
    return bool(texts[0] and _IDLE.fullmatch(texts[0].strip())) or not any(map(_WORD.search, texts))


def text_of(value: Any) -> str:
    """A value as one text: JSON with sorted keys, whatever it is made of."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):  # keys of several kinds, a ring, or deeper than JSON goes
        return _shown(value)


def _plain(value: Any) -> Any:
    try:
        return to_json(value, path="")
    except HoldfastError:  # a live object: what it shows of itself must do
        return _shown(value)


def _shown(value: Any) -> str:
    try:
        return _ADDRESS.sub("0x", repr(value))
    except (ValueError, RecursionError):  # a number of more digits than Python writes, or deeper than it goes
        return type(value).__name__


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _echoes(arguments: Any) -> Iterator[str]:
    """What an error may repeat of the arguments: their texts, and words in them that look like names of things."""
    for text in _strings(arguments):
        if len(text) >= _ECHO_MIN:
            yield text
        ends = text if len(text) <= 2 * _ERROR_MAX else f"{text[:_ERROR_MAX]} {text[-_ERROR_MAX:]}"
        for word in ends.split():
            name = word.strip("\"'`,;:()[]{}")
            if len(name) >= _ECHO_MIN and not name.isalpha():
                yield name
                yield from (part for part in _PARTS.split(name) if len(part) >= _ECHO_MIN)


def _words(arguments: Any) -> frozenset[str]:
    """The numbers in the arguments, and all words if they are few: what an error may repeat word by word."""
    text = arguments if isinstance(arguments, str) else text_of(arguments)
    if len(text) <= _FEW_MAX:
        return frozenset(word for word in _TOKEN.findall(text) if len(word) >= _ECHO_MIN or _DIGIT.search(word))
    ends = text if len(text) <= 2 * _ERROR_MAX else f"{text[:_ERROR_MAX]} {text[-_ERROR_MAX:]}"
    return frozenset(filter(str.isdigit, _TOKEN.findall(ends)))


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a value, in order; one that is JSON by itself is read."""
    if isinstance(value, str):
        if depth == 0 and value[:1] in ("{", "["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                yield value
            else:
                yield from _strings(value, 1)
        else:
            yield value
    elif isinstance(value, Mapping | list | tuple) and depth < _DEPTH_MAX:
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item, depth + 1)
