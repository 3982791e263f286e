"""The states of a store's agents: each a delta on the one before, 64 of them sealed into a segment.

An agent's states form one line, in the order of their commits, whatever the checkpoints' parents are: a branch builds
on what was stored last just as well. The newest ones lie open, beside their checkpoints; `SEGMENT_STATES` of them
are sealed into one row that holds each of them as a cut of the last. A segment builds on the last state of the
segment before, or on nothing (a keyframe).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.history import codec, delta, zstd
from holdfast.storage.imagecache import ImageCache
from holdfast.storage.sqlite.schema import agent_of, seq_of, span

if TYPE_CHECKING:
    from holdfast.history.image import Image
    from holdfast.storage.sqlite.cells import Cells
    from holdfast.storage.sqlite.database import Database

SEGMENT_STATES: Final = 64
SEGMENT_BYTES: Final = 1 << 20  # of deltas: whoever reads one state of a segment reads them all

_SEGMENT_COLUMNS: Final = "key, base, dead, body"
_KEYFRAME_BYTES_MIN: Final = 4096
_DEAD_MIN: Final = 16  # a segment that empties is rewritten twice on the way, not each time that it is half as full


class Segment:
    """A segment's row, opened."""

    __slots__ = ("base", "body", "dead", "key", "seqs")

    def __init__(self, key: int, base: int | None, dead: int, data: bytes) -> None:
        length = int.from_bytes(data[:4], "big")
        self.key = key
        self.base = base
        self.dead = dead
        self.seqs: list[int] = codec.decode(data[4 : 4 + length])
        self.body = data[4 + length :]


class _Part:
    """States on their way into one segment."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.images: list[Image] = []
        self.dead = 0
        self.size = 0  # of the deltas
        self.made = 0  # by whoever reads it

    def add(self, key: int, image: Image, size: int, *, live: bool) -> None:
        self.keys.append(key)
        self.images.append(image)
        self.dead += not live
        self.size += size
        self.made += image.size


class States:
    """Reads and writes states through one connection; whoever calls holds the transaction."""

    def __init__(self, db: Database, cells: Cells, *, ends: ImageCache | None = None) -> None:
        """`ends` remembers the last states of segments, for whoever loads many; what a key holds never changes."""
        self.db = db
        self.cells = cells
        self.newest = ImageCache()  # what the next delta builds on
        self.ends = ends if ends is not None else ImageCache(0)
        self._packer = zstd.Packer()

    # --- reading

    def load(self, key: int) -> Image:
        """The state stored at this key. Raises Corrupt, or KeyError if there is none."""
        cached = self.newest.get(key)
        if cached is not None:
            return cached
        segment = self.segment_of(key)
        if segment is None:
            return self._load_open(key)
        base = self._last_of(segment.base)
        try:
            return delta.unseal(segment.body, segment.seqs.index(seq_of(key)), base)
        except ValueError:
            raise KeyError(key) from None

    def segment_of(self, key: int) -> Segment | None:
        """The segment that holds this key's state: the first one that ends at it or after it."""
        row = self.db.execute(
            f"SELECT {_SEGMENT_COLUMNS} FROM segments WHERE key >= ? AND key <= ? ORDER BY key LIMIT 1",
            (key, span(agent_of(key))[1]),
        ).fetchone()
        return None if row is None else self.opened(row)

    def opened(self, row: tuple[int, int | None, int, bytes]) -> Segment:
        key, base, dead, body = row
        return Segment(key, base, dead, self.cells.unpack_bytes(b"segment", key, base, body))

    def _last_of(self, key: int | None) -> Image | None:
        """The state at this key, which ends a segment or begins a fork; walks back to a keyframe, then forward."""
        if key is None:
            return None
        chain: list[Segment] = []
        image: Image | None = None
        while key is not None:
            image = self.newest.get(key) or self.ends.get(key)
            if image is not None:
                break
            segment = self.segment_of(key)
            if segment is None or segment.key != key:
                image = self.load(key)  # a fork's base: anywhere in another agent's line
                break
            chain.append(segment)
            key = segment.base
        for segment in reversed(chain):
            image = delta.unseal(segment.body, len(segment.seqs) - 1, image)
            self.ends.put(segment.key, image)
        return image

    def _load_open(self, key: int) -> Image:
        first, _ = span(agent_of(key))
        row = self.db.execute("SELECT max(key) FROM segments WHERE key BETWEEN ? AND ?", (first, key)).fetchone()
        after = first if row is None or row[0] is None else row[0]
        deltas: list[bytes] = []
        for at, cell in self.db.execute(
            "SELECT key, state FROM checkpoints WHERE key > ? AND key <= ? AND state IS NOT NULL ORDER BY key DESC",
            (after, key),
        ):
            if not deltas and at != key:
                raise KeyError(key)
            deltas.append(self.cells.unpack_bytes(b"state", at, None, cell))
            if not delta.needs_base(deltas[-1]):  # it stands alone: what lies before it does not matter
                return delta.decode_chain(reversed(deltas))
        if not deltas:
            raise KeyError(key)
        base = self._last_of(after if after != first else self.fork_base(agent_of(key)))
        return delta.decode_chain(reversed(deltas), base)

    def fork_base(self, agent: int) -> int | None:
        """What the first state of a fork builds on, while it does."""
        row = self.db.execute("SELECT base FROM forks WHERE key = ?", (agent,)).fetchone()
        return None if row is None else row[0]

    # --- writing

    def encode(self, newest_key: int | None, image: Image) -> bytes:
        """The delta of a new state on the agent's newest one (or on a fork's base)."""
        return delta.encode(image, self._base_image(newest_key), self._packer)

    def _base_image(self, newest_key: int | None) -> Image | None:
        if newest_key is None:
            return None
        try:
            return self.load(newest_key)
        except (KeyError, Corrupt):
            return None  # a damaged state must not keep the agent from being saved: the new one stands alone

    def seal_open(self, agent: int) -> None:
        """Moves the agent's open states into a new segment; deleted ones that nothing builds on are left out."""
        previous = self._last_segment_key(agent)
        after = previous if previous is not None else span(agent)[0]
        rows = self._open_rows(agent, after)
        if not rows:
            return
        base_key = previous if previous is not None else self.fork_base(agent)
        base = image = self._last_of(base_key)
        needed = self._fork_bases(after, span(agent)[1]) | {rows[-1][0]}
        part = _Part()
        for key, live, cell in rows:
            image = delta.decode(self.cells.unpack_bytes(b"state", key, None, cell), image)
            if live or key in needed:
                if part.keys and part.made + image.size > delta.MAX_BYTES:
                    base_key, base = self._write_part(part, base_key, base)
                    part = _Part()
                part.add(key, image, len(cell), live=live)
            if part.size > SEGMENT_BYTES:
                base_key, base = self._write_part(part, base_key, base)
                part = _Part()
        if part.keys:
            self._write_part(part, base_key, base)
        self._close_rows((after, span(agent)[1]))

    def _write_part(self, part: _Part, base_key: int | None, base: Image | None) -> tuple[int, Image]:
        self._write_segment(part.keys, part.images, base_key, base, dead=part.dead)
        return part.keys[-1], part.images[-1]

    def _close_rows(self, bounds: tuple[int, int]) -> None:
        """Takes the states out of these rows. Written anew, as shrunken rows leave pages half empty."""
        rows = self.db.execute(
            "SELECT key, user, commit_number, kind, head FROM checkpoints"
            " WHERE key > ? AND key <= ? AND head IS NOT NULL ORDER BY key",
            bounds,
        ).fetchall()
        self.db.execute("DELETE FROM checkpoints WHERE key > ? AND key <= ?", bounds)
        self.db.executemany(
            "INSERT INTO checkpoints (key, user, commit_number, kind, head) VALUES (?, ?, ?, ?, ?)", rows
        )

    def delete(self, key: int) -> bool:
        """Takes a checkpoint's row away. True when its segment is half dead now, and worth rewriting.

        An open state stays until it is sealed: later ones may build on it.
        """
        [(is_open,)] = self.db.execute("SELECT state IS NOT NULL FROM checkpoints WHERE key = ?", (key,)).fetchall()
        if is_open:
            self.db.execute("UPDATE checkpoints SET head = NULL WHERE key = ?", (key,))
            return False
        self.db.execute("DELETE FROM checkpoints WHERE key = ?", (key,))
        row = self.db.execute(
            "UPDATE segments SET dead = dead + 1 WHERE key = (SELECT min(key) FROM segments WHERE key >= ?)"
            " RETURNING dead = versions OR (dead * 2 >= versions AND dead >= ?)",
            (key, _DEAD_MIN),
        ).fetchall()
        return bool(row and row[0][0])

    def release(self, agent: int) -> None:
        """Makes the forks of this agent's states stand alone, because those states are about to go."""
        first, last = span(agent)
        for (fork,) in self.db.execute("SELECT key FROM forks WHERE base BETWEEN ? AND ?", (first, last)).fetchall():
            self._stand_alone(fork)
        self.db.execute("DELETE FROM forks WHERE key = ?", (agent,))

    def compact(self, agent: int) -> tuple[int, int]:
        """Rewrites what deletions left behind, so that deleted states are gone and their space is free.

        Returns the number of open states and the position of the newest state, as they are now.
        """
        for (key,) in self.db.execute(
            "SELECT key FROM segments WHERE key BETWEEN ? AND ? AND dead > 0 ORDER BY key", span(agent)
        ).fetchall():
            self._compact_segment(agent, key)
        return self._compact_open(agent)

    def _compact_segment(self, agent: int, key: int) -> None:
        segment = self.segment_of(key)
        if segment is None or segment.key != key:
            return
        base = self._last_of(segment.base)
        keys = [span(agent)[0] | seq for seq in segment.seqs]
        images = [image for image in delta.unseal_all(segment.body, base) if image is not None]
        live = self._live(keys)
        for dead in set(keys) - live:
            self._release_forks_of(dead)
        kept = [(k, image) for k, image in zip(keys, images, strict=True) if k in live]
        follower = self._follower(agent, segment, images[-1])
        self.db.execute("DELETE FROM segments WHERE key = ?", (key,))
        new_key, new_base = segment.base, base
        if kept:
            self._write_segment([k for k, _ in kept], [image for _, image in kept], segment.base, base, dead=0)
            new_key, new_base = kept[-1]
        if new_key != key:
            self._rebase(agent, follower, new_key, new_base)

    def _follower(
        self, agent: int, segment: Segment, last: Image
    ) -> tuple[Segment, list[Image]] | tuple[int, Image] | None:
        """What builds on this segment's last state: the next segment, or the first open state."""
        end = span(agent)[1]
        row = self.db.execute(
            f"SELECT {_SEGMENT_COLUMNS} FROM segments WHERE key > ? AND key <= ? ORDER BY key LIMIT 1",
            (segment.key, end),
        ).fetchone()
        if row is not None:
            following = self.opened(row)
            if following.base != segment.key:
                return None
            return following, [image for image in delta.unseal_all(following.body, last) if image is not None]
        for key, _, cell in self._open_rows(agent, segment.key)[:1]:
            return key, delta.decode(self.cells.unpack_bytes(b"state", key, None, cell), last)
        return None

    def _rebase(
        self,
        agent: int,
        follower: tuple[Segment, list[Image]] | tuple[int, Image] | None,
        base_key: int | None,
        base: Image | None,
    ) -> None:
        if follower is None:
            return
        if isinstance(follower[0], Segment):
            segment, images = follower
            self.db.execute("DELETE FROM segments WHERE key = ?", (segment.key,))
            keys = [span(agent)[0] | seq for seq in segment.seqs]
            self._write_segment(keys, images, base_key, base, dead=segment.dead)
        else:
            self._put_open(follower[0], follower[1], base)

    def _compact_open(self, agent: int) -> tuple[int, int]:
        previous = self._last_segment_key(agent)
        after = previous if previous is not None else span(agent)[0]
        rows = self._open_rows(agent, after)
        kept = [row for row in rows if row[1]]
        if len(kept) < len(rows):
            image = base = self._last_of(previous if previous is not None else self.fork_base(agent))
            images = dict(zip([row[0] for row in rows], self._open_images(rows, base), strict=True))
            for key, live, _ in rows:
                if not live:
                    self._release_forks_of(key)
                    self.db.execute("DELETE FROM checkpoints WHERE key = ?", (key,))
                    self.newest.drop(key)
                else:
                    self._put_open(key, images[key], image)
                    image = images[key]
        newest = kept[-1][0] if kept else previous
        return len(kept), seq_of(newest) if newest is not None else 0

    # --- small parts

    def _last_segment_key(self, agent: int) -> int | None:
        row = self.db.execute("SELECT max(key) FROM segments WHERE key BETWEEN ? AND ?", span(agent)).fetchone()
        return None if row is None else row[0]

    def _open_rows(self, agent: int, after: int) -> list[tuple[int, bool, bytes]]:
        """The open states after a key: key, whether the checkpoint lives, the cell."""
        return self.db.execute(
            "SELECT key, head IS NOT NULL, state FROM checkpoints WHERE key > ? AND key <= ? AND state IS NOT NULL"
            " ORDER BY key",
            (after, span(agent)[1]),
        ).fetchall()

    def _open_images(self, rows: list[tuple[int, bool, bytes]], base: Image | None) -> list[Image]:
        images = []
        image = base
        for key, _, cell in rows:
            image = delta.decode(self.cells.unpack_bytes(b"state", key, None, cell), image)
            images.append(image)
        return images

    def _put_open(self, key: int, image: Image, base: Image | None) -> None:
        cell = self.cells.pack_bytes(b"state", key, None, delta.encode(image, base))
        self.db.execute("UPDATE checkpoints SET state = ? WHERE key = ?", (cell, key))

    def _live(self, keys: list[int]) -> set[int]:
        return {
            key
            for (key,) in self.db.execute(
                "SELECT key FROM checkpoints WHERE key BETWEEN ? AND ? AND head IS NOT NULL", (keys[0], keys[-1])
            )
        }

    def _fork_bases(self, after: int, last: int) -> set[int]:
        return {
            base for (base,) in self.db.execute("SELECT base FROM forks WHERE base > ? AND base <= ?", (after, last))
        }

    def _release_forks_of(self, key: int) -> None:
        for (fork,) in self.db.execute("SELECT key FROM forks WHERE base = ?", (key,)).fetchall():
            self._stand_alone(fork)

    def _stand_alone(self, fork: int) -> None:
        """Encodes a fork's first states anew, without the state of another agent that they built on."""
        base = self._last_of(self.fork_base(fork))
        row = self.db.execute(
            f"SELECT {_SEGMENT_COLUMNS} FROM segments WHERE key BETWEEN ? AND ? ORDER BY key LIMIT 1", span(fork)
        ).fetchone()
        if row is not None:
            segment = self.opened(row)
            images = [image for image in delta.unseal_all(segment.body, base) if image is not None]
            self._rebase(fork, (segment, images), None, None)
        else:
            for key, _, cell in self._open_rows(fork, span(fork)[0])[:1]:
                self._put_open(key, delta.decode(self.cells.unpack_bytes(b"state", key, None, cell), base), None)
        self.db.execute("DELETE FROM forks WHERE key = ?", (fork,))

    def _write_segment(
        self, keys: list[int], images: list[Image], base_key: int | None, base: Image | None, *, dead: int
    ) -> None:
        """One segment on its base, or on nothing when the way back to a keyframe has become longer than the state."""
        body = delta.seal(images, base)
        if base_key is not None:
            way_back = self._way_back(base_key) + len(body)
            if way_back > max(images[-1].size, _KEYFRAME_BYTES_MIN):
                whole = delta.seal(images, None)
                if len(whole) < way_back:
                    body, base_key = whole, None
        if not delta.needs_base(body):
            base_key = None
        seqs = codec.pack([seq_of(key) for key in keys])
        data = len(seqs).to_bytes(4, "big") + seqs + body
        self.db.execute(
            "INSERT INTO segments (key, base, versions, dead, body) VALUES (?, ?, ?, ?, ?)",
            (keys[-1], base_key, len(keys), dead, self.cells.pack_bytes(b"segment", keys[-1], base_key, data)),
        )

    def _way_back(self, key: int | None) -> int:
        """The bytes that a load reads before this key's state: every segment back to the keyframe."""
        size = 0
        while key is not None:
            row = self.db.execute("SELECT base, length(body) FROM segments WHERE key = ?", (key,)).fetchone()
            if row is None:
                break
            key, length = row
            size += length
        return size
