"""What programs printed: kept as what came since the call before, and cumulative on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.errors import InvalidImport
from holdfast.history.fold import live_path
from holdfast.history.records import Record, Rewind, RlmStart, RlmToolCall


def cumulative(records: Iterable[Record]) -> Iterator[Record]:
    """The records with each call's prints since its run began; kept so, they would grow with their square."""
    printed = _Printed()
    for record in records:
        if isinstance(record, RlmToolCall):
            yield record.evolve(print_output=printed.add(record.tool_call_id, record.print_output))
        else:
            yield record
        printed.follow(record)


def relative(records: Iterable[Record]) -> Iterator[Record]:
    """The reverse. Raises InvalidImport where a call's prints do not go on from those of the call before."""
    printed = _Printed()
    for record in records:
        made = record
        if isinstance(record, RlmToolCall):
            before = printed.of(record.tool_call_id)
            if not record.print_output.startswith(before):
                raise InvalidImport(
                    f"The printOutput of record {record.seq} does not go on from the call before",
                    seq=record.seq, tool_call_id=record.tool_call_id, path="printOutput",
                )  # fmt: skip
            made = record.evolve(print_output=record.print_output[len(before) :])
            printed.add(record.tool_call_id, made.print_output)
        yield made
        printed.follow(made)


class _Printed:
    """What each run has printed so far, on the path that the history is on now."""

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}
        self._seen: list[Record] = []

    def of(self, run: str) -> str:
        return self._runs.get(run, "")

    def add(self, run: str, text: str) -> str:
        if text:
            self._runs[run] = self.of(run) + text
        return self.of(run)

    def follow(self, record: Record) -> None:
        """Takes in the record itself: a run begins with nothing, and a rewind goes back to what was printed then."""
        self._seen.append(record)
        if isinstance(record, RlmStart):
            self._runs[record.tool_call_id] = ""
        elif isinstance(record, Rewind):
            self._runs.clear()
            for kept in live_path(self._seen):
                if isinstance(kept, RlmStart):
                    self._runs[kept.tool_call_id] = ""
                elif isinstance(kept, RlmToolCall):
                    self.add(kept.tool_call_id, kept.print_output)
