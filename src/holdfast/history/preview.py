"""Previews of values: one line for a person, never more than so many columns, safe to print."""

from __future__ import annotations

from datetime import date, datetime, time
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from holdfast.history.sameness import Form, attributes, form_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEPTH_MAX = 5
_NESTED_TEXT_MAX = 48
_CONTEXT = 24  # characters shown before and after the place where two texts differ
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), dict: ("{", "}")}


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int, *, end: str = "…") -> str:
    """The text, or as much of its beginning as fits, and an ellipsis."""
    if len(text) <= width and columns(text) <= width:
        return text
    used, kept = columns(end), 0
    for char in text[:width]:
        used += columns(char)
        if used > width:
            break
        kept += 1
    return text[:kept] + end


def fit_path(path: str, width: int) -> str:
    """The path, or its beginning and its more telling end."""
    path = escape(path)
    if columns(path) <= width:
        return path
    tail = width - width // 3
    while columns(path[-tail:]) > width - width // 3:
        tail -= 1
    return fit(path, width // 3) + path[-tail:]


def escape(text: str) -> str:
    """Without anything that could move the cursor, colour the terminal, reverse the line or fail to be encoded."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _ESCAPES.get(c) or _code(c) for c in text)


def _code(char: str) -> str:
    point = ord(char)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def quote(text: str, mark: str = '"') -> str:
    """A text as a literal that stands on one line."""
    return mark + escape(text.replace("\\", "\\\\").replace(mark, f"\\{mark}")) + mark


def quote_within(text: str, width: int) -> str:
    """A quoted text; where it is too long, the ellipsis is inside the quotes."""
    mark = _best_mark(text[:width])
    quoted = quote(text[: width + 1], mark)
    return quoted if len(text) <= width and columns(quoted) <= width else fit(quoted[:-1] + "……", width, end=f"…{mark}")


def _best_mark(text: str) -> str:
    """Single quotes where that spares a reader the backslashes of quoted JSON."""
    return "'" if '"' in text and "'" not in text else '"'


def leaf_text(value: Any) -> str:
    """A value without parts, in full."""
    if type(value) is str:
        return quote(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (datetime, date, time)):
        return escape(value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat())
    return escape(repr(value))


def preview(value: Any, width: int, depth: int = 0) -> str:
    """One line about any value, cut where it gets too long or too deep."""
    form = form_of(value)
    if form is Form.LEAF:
        return _leaf_preview(value, width)
    if depth >= _DEPTH_MAX or width < 8:
        return "…"
    if form is Form.OBJECT:
        parts = attributes(value)
        texts = (f"{name}={preview(part, _inner(width), depth + 1)}" for name, part in parts.items())
        return _joined((f"{type(value).__name__}(", ")"), texts, len(parts), width)
    opening, closing = _BRACKETS.get(type(value)) or (f"{type(value).__name__}(", ")")
    if not value and type(value) is set:
        return "set()"
    if form is Form.MAPPING:
        texts = (f"{preview(k, 40, depth + 1)}: {preview(v, _inner(width), depth + 1)}" for k, v in value.items())
    else:
        texts = (preview(element, _inner(width), depth + 1) for element in value)
    if type(value) is tuple and len(value) == 1:
        closing = ",)"
    return _joined((opening, closing), texts, len(value), width)


def _inner(width: int) -> int:
    return min(width - 4, _NESTED_TEXT_MAX)


def _leaf_preview(value: Any, width: int) -> str:
    if type(value) is str:
        return quote_within(value, width)
    if isinstance(value, (bytes, bytearray)) and len(value) > 16:
        return fit(f"<{type(value).__name__}, {len(value):,} long, {bytes(value[:6]).hex(' ')} …>", width)
    if type(value) is int and value.bit_length() > 512:
        return f"<an integer of {value.bit_length():,} bits>"  # its digits take quadratic time, and Python refuses many
    return fit(leaf_text(value), width)


def _joined(brackets: tuple[str, str], texts: Iterable[str], count: int, width: int) -> str:
    room = width - columns("".join(brackets)) - len(f", … {count:,} more")
    shown: list[str] = []
    for text in islice(texts, count):
        if shown and columns(text) + 2 > room:
            shown.append(f"… {count - len(shown):,} more")
            break
        shown.append(text)
        room -= columns(text) + 2
    return fit(brackets[0] + ", ".join(shown) + brackets[1], width)


def both_in_full(old: str, new: str, width: int) -> tuple[str, str] | None:
    """Both texts, quoted, if each fits."""
    if max(len(old), len(new)) > width:
        return None
    mark = _best_mark(old + new)
    texts = quote(old, mark), quote(new, mark)
    return texts if max(map(columns, texts)) <= width else None


def around_difference(old: str, new: str, width: int) -> tuple[str, str]:
    """Both texts, quoted and cut round the first and last place where they differ."""
    if full := both_in_full(old, new, width):
        return full
    start, tail = _common_ends(old, new)
    differing = max(len(old), len(new)) - start - tail
    context = max(_CONTEXT, (width - differing) // 2 - 3)
    before = start - context if start > context + 4 else 0
    mark = _best_mark(old[before : before + width] + new[before : before + width])
    return tuple(_window(text, before, len(text) - tail + context, width, mark) for text in (old, new))  # type: ignore[return-value]


def _window(text: str, before: int, after: int, width: int, mark: str) -> str:
    shown = text[before : min(after if after + 4 < len(text) else len(text), before + width)]
    if before and " " in shown[:12]:
        shown = shown[shown.index(" ") :]  # a window begins with a whole word, on both sides the same
    body = ("…" if before else "") + shown.lstrip() + ("" if text.endswith(shown) else "…")
    quoted = quote(body, mark)
    return quoted if columns(quoted) <= width else fit(quoted, width, end=f"…{mark}")


def _common_ends(old: str, new: str) -> tuple[int, int]:
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    end = next((i for i in range(shorter - start) if old[-1 - i] != new[-1 - i]), shorter - start)
    return start, end
