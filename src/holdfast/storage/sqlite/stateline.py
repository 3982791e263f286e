"""An agent's states walked once from the first to the last, damaged ones included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt
from holdfast.history import delta
from holdfast.storage.sqlite.findings import SENSELESS
from holdfast.storage.sqlite.schema import seq_of, span

if TYPE_CHECKING:
    from holdfast.history.image import Image
    from holdfast.storage.sqlite.states import Segment, States


@dataclass(frozen=True, slots=True)
class Stretch:
    """The states from behind one key up to another: a segment's, or one open state."""

    after: int
    last: int
    images: Mapping[int, Image]  # by position
    reason: str = ""  # why they can't be read, when they can't
    segment: Segment | None = None


def stretches(states: States, agent: int) -> Iterator[Stretch]:
    """Every segment and open state in order. Each is decoded once, on the image before it that is at hand."""
    after, end = span(agent)
    line = _Line(states, agent)
    keys = states.db.execute("SELECT key FROM segments WHERE key BETWEEN ? AND ? ORDER BY key", (after, end)).fetchall()
    for (key,) in keys:
        yield line.segment(after, key)
        after = key
    line.begin_open(after)
    for (key,) in states.db.execute(
        "SELECT key FROM checkpoints WHERE key > ? AND key <= ? AND state IS NOT NULL ORDER BY key", (after, end)
    ).fetchall():
        yield line.open_state(after, key)
        after = key


class _Line:
    """Walks along one agent's states and keeps the image that the next one most likely builds on."""

    def __init__(self, states: States, agent: int) -> None:
        self.states = states
        self.agent = agent
        self.key: int | None = None  # of the image at hand
        self.image: Image | None = None
        self.reason = ""  # why there is no image at hand where there should be one

    def segment(self, after: int, key: int) -> Stretch:
        try:
            row = self.states.db.execute("SELECT key, base, dead, body FROM segments WHERE key = ?", (key,)).fetchone()
            segment = self.states.opened(row)
            images = delta.unseal_all(segment.body, self._base(segment))
            by_seq = {seq: image for seq, image in zip(segment.seqs, images, strict=True) if image is not None}
        except (Corrupt, *SENSELESS) as error:
            self._lost(key, f"the segment that ends at position {seq_of(key)}: {error}")
            return Stretch(after, key, {}, f"its segment, which ends at position {seq_of(key)}, can't be read: {error}")
        self.key, self.image, self.reason = key, images[-1], ""
        return Stretch(after, key, by_seq, segment=segment)

    def _base(self, segment: Segment) -> Image | None:
        if not delta.needs_base(segment.body):
            return None
        if segment.base == self.key:
            return self._at_hand()
        return None if segment.base is None else self.states.load(segment.base)

    def _at_hand(self) -> Image | None:
        if self.reason:
            raise Corrupt(f"it builds on what is damaged, {self.reason}")
        return self.image

    def begin_open(self, after: int) -> None:
        """The first open state builds on the last segment, or on what the agent was forked from."""
        if after != span(self.agent)[0]:
            return
        base = self.states.fork_base(self.agent)
        if base is None:
            return
        try:
            self.image = self.states.load(base)
        except (Corrupt, *SENSELESS) as error:
            self._lost(base, f"the state that the agent was forked from: {error}")

    def open_state(self, after: int, key: int) -> Stretch:
        try:
            [(cell,)] = self.states.db.execute("SELECT state FROM checkpoints WHERE key = ?", (key,)).fetchall()
            data = self.states.cells.unpack_bytes(b"state", key, None, cell)
            image = delta.decode(data, self._at_hand() if delta.needs_base(data) else None)
        except (Corrupt, *SENSELESS) as error:
            self._lost(key, f"the state at position {seq_of(key)}")
            return Stretch(after, key, {}, str(error))
        self.key, self.image, self.reason = key, image, ""
        return Stretch(after, key, {seq_of(key): image})

    def _lost(self, key: int, reason: str) -> None:
        self.key, self.image, self.reason = key, None, reason
