"""The text of a diff: what `print(diff)` shows a person at a terminal."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from holdfast.history.alignment import common
from holdfast.history.messages import message_text
from holdfast.history.place import key_text
from holdfast.history.preview import (
    around_difference,
    both_in_full,
    columns,
    escape,
    fit,
    fit_path,
    preview,
    quote_within,
)
from holdfast.history.sameness import Form, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.diff import Change, ChangeKind, CheckpointDiff

_WIDTH = 100
_PATH_WIDTH = 56
_GROUP_MAX, _GROUP_HEAD, _GROUP_TAIL = 40, 30, 5
_REGION_MAX = 4
_MARKS: dict[ChangeKind, str] = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


def diff_text(diff: CheckpointDiff) -> str:
    """A header, then the changes grouped by field, within 100 columns."""
    lines = list(_header(diff))
    for _, group in groupby(diff.changes, key=lambda change: (change.new_parts or change.old_parts or ("",))[0]):
        lines += ["", *_group(list(group))]
    return "\n".join(lines)


def _header(diff: CheckpointDiff) -> Iterator[str]:
    sides = (diff.first, diff.second)
    kind_width = max(len(str(side.kind)) for side in sides)
    for mark, side in zip(("---", "+++"), sides, strict=True):
        line = (
            f"{mark} {fit(escape(side.id), 40)}  {_moment(side.timestamp)}  {side.kind!s:<{kind_width}}  {side.status}"
        )
        yield fit(escape(line), _WIDTH)
    told = f"{_agents(*sides)}{_elapsed(diff.first.timestamp, diff.second.timestamp)}"
    yield fit(escape(f"{told}: {_counted(diff.changes) or 'nothing changed'}"), _WIDTH)


def _agents(first: Checkpoint, second: Checkpoint) -> str:
    if first.agent_id != second.agent_id:
        return f"Different agents, {_agent(first)} → {_agent(second)}"
    if first.agent_type != second.agent_type:
        return f"Agent {fit(first.agent_id, 36)} ({fit(first.agent_type, 24)} → {fit(second.agent_type, 24)})"
    return f"Agent {_agent(first)}"


def _agent(checkpoint: Checkpoint) -> str:
    kind = f" ({fit(checkpoint.agent_type, 24)})" if checkpoint.agent_type else ""
    return fit(checkpoint.agent_id, 36) + kind


def _moment(at: datetime) -> str:
    text = at.isoformat(sep=" ", timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _elapsed(first: datetime, second: datetime) -> str:
    if (first.tzinfo is None) != (second.tzinfo is None) or first == second:
        return ""
    direction = "later" if second > first else "earlier"
    return f", {_duration(abs(second - first))} {direction}"


def _duration(delta: timedelta) -> str:
    minutes, seconds = divmod(delta.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    units = ((delta.days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join([f"{number:,} {unit}" for number, unit in units if number][:2]) or "less than 1 s"


def _counted(changes: Sequence[Change]) -> str:
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in _MARKS if counts[kind])


def _group(changes: list[Change]) -> Iterator[str]:
    """One line or a few per change; of very many the first and the last."""
    head = changes if len(changes) <= _GROUP_MAX else changes[:_GROUP_HEAD]
    tail = changes[len(head) :][-_GROUP_TAIL:]
    left_out = changes[len(head) : len(changes) - len(tail)]
    for change in head:
        yield from _lines(change)
    if left_out:
        yield f"  … {len(left_out):,} more here ({_counted(left_out)}); diff.changes has them all"
    for change in tail:
        yield from _lines(change)


def _lines(change: Change) -> Iterator[str]:
    head = f"{_MARKS[change.kind]} {fit_path(_shown_path(change), _PATH_WIDTH)}"
    if change.path == "status":
        yield f"{head}: {fit(escape(change.old), 40)} → {fit(escape(change.new), 40)}"
        return
    if change.kind == "changed":
        yield from _changed(head, change.old, change.new)
        return
    if change.kind == "moved":
        head += f" (was [{(change.old_parts or ('?',))[-1]}])"
    value = change.old if change.kind == "removed" else change.new
    width = _WIDTH - columns(head)
    message = message_text(value, width - 1)
    yield f"{head} {message}" if message else f"{head}: {preview(value, width - 2)}"


def _shown_path(change: Change) -> str:
    """The path; without the element of a set, which is shown as the value."""
    parts = change.old_parts if change.kind == "removed" else change.new_parts
    return change.path.removesuffix(f"{{{key_text(parts[-1])}}}") if parts else change.path


def _changed(head: str, old: Any, new: Any) -> Iterator[str]:
    if type(old) is str and type(new) is str:
        if "\n" in old or "\n" in new:
            yield from _changed_lines(head, old, new)
            return
        room = (_WIDTH - columns(head) - 5) // 2
        texts = both_in_full(old, new, room) or around_difference(old, new, _WIDTH - 6)
    else:
        texts = _told_apart(old, new, _WIDTH - 6)
    line = f"{head}: {texts[0]} → {texts[1]}"
    if columns(line) <= _WIDTH:
        yield line
    else:
        yield from (f"{head}:", f"    - {texts[0]}", f"    + {texts[1]}")


def _told_apart(old: Any, new: Any, width: int) -> tuple[str, str]:
    """Previews that never look the same although the values differ."""
    texts = preview(old, width - 24), preview(new, width - 24)
    if texts[0] != texts[1]:
        return texts
    if type(old) is not type(new):
        return f"{texts[0]} ({type(old).__name__})", f"{texts[1]} ({type(new).__name__})"
    if isinstance(old, (bytes, bytearray)):
        at = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(old))
        return (
            f"{texts[0]} at {at:,}: {old[at : at + 3].hex(' ')}",
            f"{texts[1]} at {at:,}: {new[at : at + 3].hex(' ')}",
        )
    if form_of(old) is Form.LEAF:
        return around_difference(repr(old), repr(new), width)
    return texts[0], f"{texts[1]} (differs inside)"


def _changed_lines(head: str, old: str, new: str) -> Iterator[str]:
    """The first region of lines that differs, as a small excerpt."""
    old_lines, new_lines = old.split("\n"), new.split("\n")
    numbers: dict[str, int] = {}
    old_numbers, new_numbers = (
        [numbers.setdefault(line, len(numbers)) for line in side] for side in (old_lines, new_lines)
    )
    regions = list(_regions(common(old_numbers, new_numbers), len(old_lines), len(new_lines)))
    (old_start, old_end), (new_start, new_end) = regions[0]
    others = len(regions) - 1
    more = f" (and {others:,} more place{'s' if others > 1 else ''})" if others else ""
    yield f"{head}, line {min(old_start, new_start) + 1:,}{more}:"
    gone, come = old_lines[old_start:old_end], new_lines[new_start:new_end]
    if len(gone) == len(come) == 1:
        texts = around_difference(gone[0], come[0], _WIDTH - 6)
        yield from (f"    - {texts[0]}", f"    + {texts[1]}")
        return
    yield from _excerpt("-", gone)
    yield from _excerpt("+", come)


def _regions(kept: list[tuple[int, int]], old_length: int, new_length: int) -> Iterator[tuple[tuple[int, int], ...]]:
    old_next = new_next = 0
    for i, j in [*kept, (old_length, new_length)]:
        if i > old_next or j > new_next:
            yield (old_next, i), (new_next, j)
        old_next, new_next = i + 1, j + 1


def _excerpt(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines[:_REGION_MAX]:
        yield f"    {mark} {quote_within(line, _WIDTH - 6)}"
    if len(lines) > _REGION_MAX:
        yield f"    {mark} … {len(lines) - _REGION_MAX:,} more lines"
