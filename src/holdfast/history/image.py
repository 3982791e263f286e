"""An image: the frozen encoded form of a state, cut so that what stayed the same is shared with the image before.

Long lists (the conversation, a log) leave the state and become *strands*: their elements' encodings in chunks of 64
elements. What is left, with a placeholder for each strand, is the *skeleton*. Chunks end at element indexes, so one
more message changes the last chunk only, and every other chunk is the same object in both images.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any, Final

import ormsgpack

from holdfast.errors import Corrupt, HoldfastError
from holdfast.history import codec

TAG: Final = 100  # the MessagePack extension that stands for a strand in a skeleton
CHUNK_ELEMENTS: Final = 64
STRAND_ELEMENTS_MIN: Final = 16
STRANDS_MAX: Final = 64  # each costs a few microseconds, so many short lists are left in the skeleton

_DEPTH_MAX = 4
_KEYS_MAX = 64
_SEARCHED_KEYS_MAX = 1024  # so that the search through a wide state costs little beside its encoding
_DIGEST_BYTES = 16
_SHORT_LIST = 16  # MessagePack's header of a list is one byte below this and three bytes for any chunk above

Path = tuple[str, ...]


class Chunk:
    """The concatenated encodings of up to 64 consecutive elements of a list."""

    __slots__ = ("body", "count", "hashed", "running", "seed")

    def __init__(self, body: bytes, count: int, before: Chunk | None = None) -> None:
        """`before` is what this chunk may have grown from; only its running hash is kept, never the chunk."""
        self.body = body
        self.count = count
        self.hashed: bytes | None = None
        self.running: blake2b | None = None  # of a chunk that may still grow
        self.seed: tuple[int, blake2b] | None = None
        if before is not None and before.running is not None and body.startswith(before.body):
            self.seed = (len(before.body), before.running)

    def digest(self) -> bytes:
        """A hash of the body. It costs what was added to `before`, if that one's digest was known already."""
        if self.hashed is None:
            # Another thread may do the same at the same time: what is read once here is never changed again.
            length, seed = self.seed or (0, blake2b(digest_size=_DIGEST_BYTES))
            running = seed.copy()
            running.update(self.body[length:])
            self.seed = None
            if self.count < CHUNK_ELEMENTS:
                self.running = running
            self.hashed = running.digest()
        return self.hashed


class Strand:
    """One long list of a state: where it was found and its elements in chunks; all but the last hold 64."""

    __slots__ = ("chunks", "path", "size")

    def __init__(self, path: Path, chunks: tuple[Chunk, ...], size: int | None = None) -> None:
        self.path = path
        self.chunks = chunks
        self.size = sum([len(chunk.body) for chunk in chunks]) if size is None else size

    def __len__(self) -> int:
        return CHUNK_ELEMENTS * (len(self.chunks) - 1) + self.chunks[-1].count

    def __repr__(self) -> str:
        return f"<Strand {'.'.join(self.path)}: {len(self)} elements, {self.size} bytes>"


class Image:
    """The encoded form of a state. It never changes, and two images are equal if their digests are."""

    __slots__ = ("_digest", "size", "skeleton", "strands")

    def __init__(self, skeleton: bytes, strands: tuple[Strand, ...]) -> None:
        self.skeleton = skeleton
        self.strands = strands
        self.size = len(skeleton) + sum([strand.size for strand in strands])
        self._digest: bytes | None = None

    @classmethod
    def of(cls, state: Any, like: Image | None = None) -> Image:
        """The image of a state as it is now; where it says the same as `like`, it shares `like`'s chunks.

        Everything is really encoded and compared, so a change in place of an old element is seen.
        """
        try:
            taking = _Taking(state) if type(state) is dict else None
            if taking is None or not taking.lists:
                return cls(codec.pack(state), ())
            return taking.image({strand.path: strand.chunks for strand in like.strands} if like else {})
        except HoldfastError:
            # The encoder only saw a part of the state: the whole names the offender's full path.
            codec.encode(state, path="state")
            raise

    def decode(self) -> Any:
        """The state, exactly. Raises Corrupt if the image is not one of a state."""
        lists: list[list[Any]] = [[] for _ in self.strands]
        named: set[int] = set()

        def hook(tag: int, payload: bytes) -> Any:
            if tag != TAG:
                return codec.ext_hook(tag, payload)
            (index,) = payload
            if index in named:
                raise Corrupt("A state's skeleton names a list twice")
            named.add(index)
            return lists[index]

        state = codec.unpack_many(self.skeleton, 1, hook)[0]
        if len(named) != len(lists):
            raise Corrupt("A state has a list that its skeleton does not name")
        # The lists are filled only now, because an error inside a hook would lose what it says.
        for elements, strand in zip(lists, self.strands, strict=True):
            for chunk in strand.chunks:
                elements.extend(codec.unpack_many(chunk.body, chunk.count))
        return state

    @property
    def digest(self) -> bytes:
        """16 bytes that depend on the encoded state and nothing else. One more message costs that message only."""
        if self._digest is None:
            whole = blake2b(len(self.skeleton).to_bytes(8, "big"), digest_size=_DIGEST_BYTES)
            whole.update(self.skeleton)
            for strand in self.strands:
                head = codec.pack([list(strand.path), len(strand)])
                whole.update(len(head).to_bytes(4, "big") + head)
                whole.update(b"".join([chunk.digest() for chunk in strand.chunks]))
            self._digest = whole.digest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return self is other or (self.size == other.size and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Image of {self.size} bytes, {len(self.strands)} strands>"


class _Taking:
    """One taking of an image: the long lists leave copies of the dicts that they are in."""

    def __init__(self, state: dict[Any, Any]) -> None:
        self.dicts: dict[Path, dict[Any, Any]] = {}
        self.lists: list[tuple[Path, list[Any]]] = []
        self.copies: dict[Path, dict[Any, Any]] = {}
        self._search(state)

    def _search(self, state: dict[Any, Any]) -> None:
        """Find the lists, those nearest to the top first, so that what lies deeper and wider can't hide them."""
        waiting: deque[tuple[Path, dict[Any, Any]]] = deque([((), state)])
        keys_left = _SEARCHED_KEYS_MAX
        while waiting:
            path, found = waiting.popleft()
            if len(found) > min(_KEYS_MAX, keys_left):
                continue
            keys_left -= len(found)
            worth = [
                (key, value)
                for key, value in found.items()
                if (kind := type(value)) is dict or (kind is list and len(value) >= STRAND_ELEMENTS_MIN)
            ]
            if not worth or not all(map(_is_plain, found)):
                continue
            self.dicts[path] = found
            for key, value in worth:
                deeper = (*path, key)
                if type(value) is list:
                    self.lists.append((deeper, value))
                elif len(deeper) < _DEPTH_MAX:
                    waiting.append((deeper, value))

    def image(self, known: dict[Path, tuple[Chunk, ...]]) -> Image:
        strands: list[Strand] = []
        for path, elements in self.lists[:STRANDS_MAX]:
            chunks = _chunks(elements, known.get(path, ()))
            if chunks:
                self._copy(path[:-1])[path[-1]] = ormsgpack.Ext(TAG, bytes([len(strands)]))
                strands.append(Strand(path, chunks))
        rest = self._copy(())
        try:
            skeleton = ormsgpack.packb(rest, default=codec.default, option=codec.OPTIONS)
        except TypeError:
            # Something in the rest needs the codec's slower way, which must not meet our placeholders.
            skeleton = ormsgpack.packb(self._encoded((), rest))
        return Image(skeleton, tuple(strands))

    def _copy(self, path: Path) -> dict[Any, Any]:
        copy = self.copies.get(path)
        if copy is None:
            copy = self.copies[path] = dict(self.dicts[path])
            if path:
                self._copy(path[:-1])[path[-1]] = copy
        return copy

    def _encoded(self, path: Path, copy: dict[Any, Any]) -> dict[Any, Any]:
        """Our copies and placeholders as they are, and everything else as the codec encodes it."""
        parts: dict[Any, Any] = {}
        for key, value in copy.items():
            inner = self.copies.get((*path, key))
            if inner is not None:
                parts[key] = self._encoded((*path, key), inner)
            else:
                parts[key] = value if isinstance(value, ormsgpack.Ext) else ormsgpack.Fragment(codec.pack(value))
        return parts


def _chunks(elements: list[Any], known: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    chunks = []
    for number, index in enumerate(range(0, len(elements), CHUNK_ELEMENTS)):
        part = elements[index : index + CHUNK_ELEMENTS]
        if not part:
            break  # the list shrank under us
        packed = codec.pack(part)
        header = 1 if len(part) < _SHORT_LIST else 3
        before = known[number] if number < len(known) else None
        if before is not None and len(packed) == len(before.body) + header and packed.endswith(before.body):
            chunks.append(before)
        else:
            chunks.append(Chunk(packed[header:], len(part), before))
        if len(part) < CHUNK_ELEMENTS:
            break
    return tuple(chunks)


def _is_plain(key: Any) -> bool:
    """Whether a key is a str that UTF-8 can carry; a dict with any other is the codec's matter as a whole."""
    if type(key) is not str:
        return False
    if key.isascii():
        return True
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
