"""An image: the frozen encoded form of a state, cut so that what stayed the same is shared with the image before.

Long lists (the conversation, a log) leave the state and become *strands*: their elements' encodings in chunks of 64
elements. What is left, with a placeholder for each strand, is the *skeleton*. Chunks end at element indexes, so one
more message changes the last chunk only, and every other chunk is the same object in both images.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import ormsgpack

from holdfast.errors import Corrupt, HoldfastError
from holdfast.history import codec

TAG: Final = 100  # the MessagePack extension that stands for a strand in a skeleton
CHUNK_ELEMENTS: Final = 64
STRAND_ELEMENTS_MIN: Final = 16
STRANDS_MAX: Final = 255

_DEPTH_MAX = 4
_KEYS_MAX = 64
_DICTS_MAX = 256  # so that a wide state never pays more for the search than for its encoding
_DIGEST_BYTES = 16

Path = tuple[str, ...]


class Chunk:
    """The concatenated encodings of up to 64 consecutive elements of a list."""

    __slots__ = ("_hash", "_seed", "body", "count")

    def __init__(self, body: bytes, count: int, before: Chunk | None = None) -> None:
        """`before` is what this chunk may have grown from; only its running hash is kept, never the chunk."""
        self.body = body
        self.count = count
        self._hash: blake2b | None = None
        self._seed: tuple[int, blake2b] | None = None
        if before is not None and before._hash is not None and body.startswith(before.body):
            self._seed = (len(before.body), before._hash)

    def digest(self) -> bytes:
        """A hash of the body. It costs what was added to `before`, if that one's digest was known already."""
        running = self._hash
        if running is None:
            if self._seed is None:
                running = blake2b(self.body, digest_size=_DIGEST_BYTES)
            else:
                length, seed = self._seed
                running = seed.copy()
                running.update(self.body[length:])
            self._hash = running  # never updated again: other threads and later chunks only copy it
            self._seed = None
        return running.digest()


class Strand:
    """One long list of a state: where it was found and its elements in chunks; all but the last hold 64."""

    __slots__ = ("chunks", "path", "size")

    def __init__(self, path: Path, chunks: tuple[Chunk, ...]) -> None:
        self.path = path
        self.chunks = chunks
        self.size = sum([len(chunk.body) for chunk in chunks])

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
            return _Search(like).image(state)
        except HoldfastError:
            # The encoder only saw a part of the state: the whole names the offender's full path.
            codec.encode(state, path="state")
            raise

    def decode(self) -> Any:
        """The state, exactly. Raises Corrupt if the image is not one of a state."""
        seen: set[int] = set()

        def hook(tag: int, payload: bytes) -> Any:
            if tag != TAG:
                return codec.ext_hook(tag, payload)
            index = payload[0] if len(payload) == 1 else STRANDS_MAX
            if index in seen or index >= len(self.strands):
                raise Corrupt("A state's skeleton names a list that is not there")
            seen.add(index)
            elements: list[Any] = []
            for chunk in self.strands[index].chunks:
                elements += codec.unpack_many(chunk.body, chunk.count)
            return elements

        state = codec.unpack_many(self.skeleton, 1, hook)[0]
        if len(seen) != len(self.strands):
            raise Corrupt("A state has a list that its skeleton does not name")
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


class _Search:
    """One walk through a state's dicts, which takes the long lists out."""

    def __init__(self, like: Image | None) -> None:
        self.known = {strand.path: strand.chunks for strand in like.strands} if like is not None else {}
        self.strands: list[Strand] = []
        self.copies: dict[int, dict[str, Any]] = {}
        self.dicts_left = _DICTS_MAX

    def image(self, state: Any) -> Image:
        rest = self.without_lists(state, ()) if type(state) is dict else state
        if rest is state:
            return Image(codec.pack(state), ())
        try:
            skeleton = ormsgpack.packb(rest, default=codec.default, option=codec.OPTIONS)
        except (TypeError, ValueError, HoldfastError):
            # Something in the rest needs the codec's slower way, which must not meet our placeholders.
            skeleton = self.assembled(rest)
        return Image(skeleton, tuple(self.strands))

    def without_lists(self, found: dict[Any, Any], path: Path) -> dict[Any, Any]:
        """The dict itself if no long list is within reach, else a copy that has placeholders in their stead."""
        if len(found) > _KEYS_MAX or len(path) >= _DEPTH_MAX or not self.dicts_left:
            return found
        self.dicts_left -= 1
        entries = list(found.items())
        worth = [entry for entry in entries if _is_worth_it(entry[1])]
        if not worth or not all(_is_plain(key) for key, _ in entries):
            return found
        changed = {}
        for key, value in worth:
            deeper = (*path, key)
            instead = self.without_lists(value, deeper) if type(value) is dict else self.placeholder(value, deeper)
            if instead is not value:
                changed[key] = instead
        if not changed:
            return found
        copy = dict(entries) | changed
        self.copies[id(copy)] = copy
        return copy

    def placeholder(self, elements: list[Any], path: Path) -> Any:
        if len(self.strands) == STRANDS_MAX:
            return elements
        chunks = _chunks(elements, self.known.get(path, ()))
        if not chunks:
            return elements
        self.strands.append(Strand(path, chunks))
        return ormsgpack.Ext(TAG, bytes([len(self.strands) - 1]))

    def assembled(self, value: Any) -> bytes:
        """What packb would make of the skeleton, if it could: our copies taken apart, the rest left to the codec."""
        if isinstance(value, ormsgpack.Ext):
            return ormsgpack.packb(value)
        if id(value) not in self.copies:
            return codec.pack(value)
        body = b"".join([codec.pack(key) + self.assembled(inner) for key, inner in value.items()])
        count = len(value)
        return (bytes([0x80 | count]) if count < 16 else b"\xde" + count.to_bytes(2, "big")) + body


def _chunks(elements: list[Any], known: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    chunks = []
    pack_many = codec.pack_many
    for index in range(0, len(elements), CHUNK_ELEMENTS):
        part = elements[index : index + CHUNK_ELEMENTS]
        if not part:
            break  # the list shrank under us
        body = pack_many(part)
        number = index // CHUNK_ELEMENTS
        before = known[number] if number < len(known) else None
        if before is not None and before.body == body:
            chunks.append(before)
        else:
            chunks.append(Chunk(body, len(part), before))
        if len(part) < CHUNK_ELEMENTS:
            break
    return tuple(chunks)


def _is_worth_it(value: Any) -> bool:
    return type(value) is dict or (type(value) is list and len(value) >= STRAND_ELEMENTS_MIN)


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
