"""Bytes made to do harm, decoded under a bound on memory: what `test_hostile_input` starts.

    python -m tests.faults.hostile_bytes SEED ROUNDS [naive]

It prints one JSON object: how many were refused, how many decoded, and what ended in any other way. With `naive`, a
decoder that believes what it is told stands in for that of patches, and must be found out.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.history import codec, delta, patch
from holdfast.history.image import Image
from holdfast.history.lines import loads_line
from holdfast.history.varint import write_number
from holdfast.history.wire import from_wire

ROOM_BYTES = 192 << 20
"""What all of this may take beside what the process had when it began."""

MADE_BYTES_MAX = 1 << 20  # of what a difference or patch makes


def state(length: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"message {n} " * 5} for n in range(length)], "at": (1, {2, 3})}


BASE = Image.of(state(300))
NEXT = Image.of(state(320), like=BASE)
HEAP = bytes(range(256)) * 500
VALID = {
    "codec": codec.encode(state(20)),
    "delta": delta.encode(NEXT, BASE),
    "whole": delta.encode(NEXT, None),
    "segment": delta.seal([BASE, NEXT, Image.of(state(310))], None),
    "patch": patch.encode(HEAP + b"more", HEAP),
    "line": json.dumps({"type": "user_message", "at": "2026-01-01T00:00:00Z", "seq": 1, "content": "x"}).encode(),
}


def number(value: int) -> bytes:
    out = bytearray()
    write_number(value, out)
    return bytes(out)


def ext(tag: int, payload: bytes) -> bytes:
    return b"\xc9" + len(payload).to_bytes(4, "big") + bytes([tag]) + payload


def nested_exts(tag: int, depth: int) -> bytes:
    data = b"\x90"
    for _ in range(depth):
        data = ext(tag, b"\x91" + data)
    return data


def crafted() -> Iterator[tuple[str, bytes]]:
    """Each with the decoder that it is for."""
    most = b"\xff\xff\xff\xff"
    for head in (b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"):  # each declares 4 GB, or so many elements
        yield "codec", head + most
        yield "codec", head + most + b"\x01" * 1000
        yield "codec", b"\x92" + head + most + head + most
    for depth in (100, 1000, 10_000, 1_000_000):
        yield "codec", b"\x91" * depth
        yield "codec", b"\x81\xa1k" * depth + b"\xc0"
        yield "line", b'{"a":' + b"[" * depth + b"]" * depth + b"}"
        yield "line", b'{"a":' * depth + b"1" + b"}" * depth
    for tag in (*range(1, 23), 100):
        for depth in (10, 48, 49, 300):
            yield "codec", nested_exts(tag, depth)
        for payload in (b"", b"\xc0", b"\x90", b"\xa1x", b"1E+999999999999999999", b"0x" + b"f" * 100_000, b"\xff" * 9,
                        b"9" * 100_000, b"nan inf",
                        b"\x92\x01\xdd" + most, b"\x93\x00\xcf" + most * 2 + b"\x01"):  # fmt: skip
            yield "codec", ext(tag, payload)
    tera = number(1 << 40)
    for kind in range(0x10, 0x40):
        yield "whole", bytes([kind]) + tera + b"\x00" * 50
        yield "delta", bytes([kind]) + number(1 << 62) * 9
        yield "segment", bytes([kind, 64]) + b"\xff" * 8 + tera * 3
        yield "patch", bytes([kind]) + tera + b"\x00" * 50
    for zeros in (1 << 20, 1 << 26, 1 << 28):  # bombs: they declare less than they hold, or more than is allowed
        bomb = patch.encode(bytes(zeros), None)
        size = len(number(zeros))
        yield "patch", bomb
        yield "patch", bomb[:1] + number(1000) + bomb[1 + size :]
        yield "whole", bytes([0x11]) + number(1000) + b"\x01\x00\x00" + number(zeros) + b"\x00" + bomb[1 + size :]
    yield "line", b'{"type":"user_message","seq":' + b"9" * 5000 + b"}"
    yield "line", b'{"type":"user_message","seq":1e999}'
    yield "line", b'{"a":1,' * 1000
    yield "line", b"\xff\xfe{}"


def mutated(chance: random.Random) -> tuple[str, bytes]:
    what = chance.choice(sorted(VALID))
    data = bytearray(VALID[what])
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place = chance.randrange(max(1, len(data)))
        way = chance.randrange(5)
        if way == 0:
            data[place : place + 1] = bytes([chance.randrange(256)])
        elif way == 1:
            data[place : place + 1] = chance.choice((b"\xff" * 9, tera_bytes(), b"\xdd\xff\xff\xff\xff", b""))
        elif way == 2:
            data[place : place + chance.randrange(20)] = b""
        elif way == 3:
            data[place:place] = data[: chance.randrange(1, 50)]
        else:
            del data[max(1, place) :]
    return what, bytes(data)


def tera_bytes() -> bytes:
    return number(1 << 40)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "codec": codec.decode,
    "delta": lambda data: delta.decode(data, BASE, max_bytes=MADE_BYTES_MAX).decode(),
    "whole": lambda data: delta.decode(data, None, max_bytes=MADE_BYTES_MAX).decode(),
    "segment": lambda data: [one and one.decode() for one in delta.unseal_all(data, None, max_bytes=MADE_BYTES_MAX)],
    "patch": lambda data: patch.decode(data, HEAP, max_bytes=MADE_BYTES_MAX),
    "line": lambda data: from_wire(loads_line(data)),
}


def bounded() -> None:
    """Lets this process have no more memory than `ROOM_BYTES` beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is not None:
        most = pages * resource.getpagesize() + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    chance, rounds = random.Random(int(sys.argv[1])), int(sys.argv[2])
    inputs = [*crafted(), *(mutated(chance) for _ in range(rounds))]
    for what, data in VALID.items():
        DECODERS[what](data)
    if sys.argv[3:] == ["naive"]:
        DECODERS["patch"] = lambda data: bytearray(patch.extent(data, max_bytes=1 << 62))
    bounded()
    told: Counter[str] = Counter(crashed=0)
    broken = []
    for what, data in inputs:
        try:
            DECODERS[what](data)
        except HoldfastError:
            told["refused"] += 1
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            told["crashed"] += 1
            broken.append(f"{what} {data[:60]!r} ({len(data)}): {type(error).__name__}: {error}"[:300])
        else:
            told["decoded"] += 1
    sys.stdout.write(json.dumps({**told, "broken": broken[:20]}) + "\n")


if __name__ == "__main__":
    main()
