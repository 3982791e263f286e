"""Bytes made to do harm, decoded under a bound on memory: what `test_hostile_input` starts.

    python -m tests.faults.hostile_bytes SEED ROUNDS [naive]
    python -m tests.faults.hostile_bytes bombs NAMES [naive]
    python -m tests.faults.hostile_bytes files FOLDER

It prints one JSON object: how many were refused, how many decoded, and what ended in any other way. With `naive`, a
decoder that believes what it is told stands in for that of patches, and must be found out.

`bombs` are a few that make as much as a decoder makes at all, with nothing but its own limits, and room for what the
guarantees say of that: `BOMB_TIMES` times as much. `files` are imports and workflows, which the command line reads, and
then answers for.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from holdfast.agents.workflow.reading import definition
from holdfast.durable.transfer import parse_lines
from holdfast.errors import Corrupt, HoldfastError
from holdfast.history import codec, delta, patch, zstd
from holdfast.history.image import Image
from holdfast.history.lines import loads_line
from holdfast.history.varint import write_number
from holdfast.history.wire import from_wire

ROOM_BYTES = 192 << 20
"""What all of this may take beside what the process had when it began."""

SECONDS_MAX = 30  # of computing, for one input

MADE_BYTES_MAX = 1 << 20  # of what a difference or patch makes
BOMB_TIMES = 3
BOMB_SPARE_BYTES = 32 << 20


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
    for make in IMPORTS.values():
        yield "lines", make().encode()
    for make in WORKFLOWS.values():
        yield "workflow", make().encode()
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


def whole(data: bytes) -> Any:
    return delta.decode(data, None).decode()


MOST = patch.MAX_BYTES
BOMBS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], Any]]] = {
    "patch": (lambda: patch.encode(bytes(MOST), None), lambda data: patch.decode(data, None)),
    "patch that holds more": (
        lambda: bytes([0x31]) + number(MOST) + zstd.compress(bytes(2 * MOST)),
        lambda data: refused(lambda: patch.decode(data, None)),
    ),
    "patch on a base": (
        lambda: patch.encode(bytes(MOST), b"\1" * (MOST // 4)),
        lambda data: patch.decode(data, b"\1" * (MOST // 4)),
    ),
    "one value": (lambda: delta.encode(Image.of({"value": bytes(MOST - 100)}), None), whole),
    "one list": (lambda: delta.encode(Image.of({"list": [bytes(MOST // 256 - 100)] * 256}), None), whole),
    "one version": (
        lambda: delta.seal([Image.of({"value": bytes(MOST - 100)})], None),
        lambda data: delta.unseal(data, 0, None).decode(),
    ),
    "two versions": (
        lambda: delta.seal([Image.of({"value": bytes([n]) * (MOST // 2 - 100)}) for n in range(2)], None),
        lambda data: delta.unseal_all(data, None),
    ),
}
"""Some KB each, which make as much as a decoder makes at all, and what decodes them."""


def refused(decode: Callable[[], Any]) -> None:
    with suppress(Corrupt):
        decode()
        raise AssertionError("what holds more than it declares was decoded")


def in_a_child(work: Callable[[], bytes]) -> bytes:
    """What the work gives, done in a process whose memory nobody has used before."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(work())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


def explode(names: Collection[str], *, naive: bool) -> None:
    """Decodes each bomb in a process that has room for what the guarantees promise, and no more."""
    if naive:
        zstd._in_pieces = lambda frame, size, prefix: [zstd._at_once(frame, size, prefix)]

    def decoded(data: bytes, decode: Callable[[bytes], Any]) -> bytes:
        bounded(BOMB_TIMES * MOST + BOMB_SPARE_BYTES)
        try:
            decode(data)
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            return f"{type(error).__name__}: {error}".encode()
        return b""

    broken = {}
    sizes = []
    for name, (make, decode) in BOMBS.items():
        if names and name not in names:
            continue
        data = in_a_child(make)
        sizes.append(len(data))
        found = in_a_child(lambda data=data, decode=decode: decoded(data, decode))
        if found:
            broken[name] = found.decode()
    sys.stdout.write(json.dumps({"broken": broken, "largest": max(sizes), "bombs": len(sizes)}) + "\n")


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "codec": codec.decode,
    "delta": lambda data: delta.decode(data, BASE, max_bytes=MADE_BYTES_MAX).decode(),
    "whole": lambda data: delta.decode(data, None, max_bytes=MADE_BYTES_MAX).decode(),
    "segment": lambda data: [one and one.decode() for one in delta.unseal_all(data, None, max_bytes=MADE_BYTES_MAX)],
    "patch": lambda data: patch.decode(data, HEAP, max_bytes=MADE_BYTES_MAX),
    "line": lambda data: from_wire(loads_line(data)),
    "lines": lambda data: parse_lines(data.splitlines()),
    "workflow": lambda data: definition(data, "workflow.yaml"),
}


def bounded(room_bytes: int) -> None:
    """Lets this process have no more memory than so much beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is not None:
        most = pages * resource.getpagesize() + room_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def hurry() -> None:
    """From now on the process may compute for so long; in what never ends, it is killed, and that is noticed."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)


# --- files for the command line

AT = '{"type":"user_message","at":"2026-01-01T00:00:00Z","seq":%d,"content":%s}'
IMPORTS: dict[str, Callable[[], str]] = {
    "a huge number": lambda: AT % (1, '{"$int":"0x' + "f" * 1_000_000 + '"}'),
    "huge digits": lambda: AT % (1, "9" * 1_000_000),
    "a huge decimal": lambda: AT % (1, '{"$decimal":"1E+999999999"}'),
    "a huge fraction": lambda: AT % (1, "1e999999999"),
    "a huge range": lambda: AT % (1, '{"$range":[0,' + "9" * 40 + ",1]}"),
    "as deep as can be": lambda: AT % (1, "[" * 500 + "]" * 500),
    "deeper": lambda: AT % (1, "[" * 100_000 + "]" * 100_000),
    "deep sets": lambda: AT % (1, '{"$set":[' * 200 + "]}" * 200),
    "many empty lists": lambda: AT % (1, "[" + "[]," * 200_000 + "[]]"),
    "one long text": lambda: AT % (1, '"' + "x" * 5_000_000 + '"'),
    "nothing but escapes": lambda: AT % (1, '"' + "\\ud800" * 200_000 + '"'),
    "many records": lambda: "\n".join(AT % (seq, '""') for seq in range(1, 5_001)),
    "a huge place": lambda: AT % (10**30, '"x"'),
}
LAUGHS = "\n".join([
    "a0: &a0 [x, x, x, x, x, x, x, x, x]",
    *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
])  # fmt: skip
WORKFLOWS: dict[str, Callable[[], str]] = {
    "aliases of aliases": lambda: LAUGHS,
    "an alias of itself": lambda: "a: &a [*a]",
    "deep brackets": lambda: "a: " + "[" * 5_000,
    "deep lines": lambda: "\n".join(" " * n + "a:" for n in range(1_000)),
    "many keys": lambda: "\n".join(f"k{n}: 1" for n in range(60_000)),
    "a huge number": lambda: "a: " + "9" * 900_000,
    "a huge exponent": lambda: "a: 1e" + "9" * 100_000,
    "too much": lambda: "a: " + "x" * 2_000_000,
    "a tag": lambda: "a: !!python/object/apply:os.system [ls]",
    "steps and more steps": lambda: "steps:\n" + "- {name: a, agent: b, needs: [a]}\n" * 20_000,
}
FILES_ROOM_BYTES = 512 << 20  # threads, and SQLite's caches, beside what the files need


def read_files(folder: Path) -> None:
    """Gives each file to the command line, and asks for what it imported in every way."""
    from holdfast.cli.app import main as command_line

    store = str(folder / "store.db")
    broken: list[str] = []
    codes: Counter[str] = Counter()

    def ask(name: str, *words: str) -> int:
        hurry()
        out, said = StringIO(), StringIO()
        try:
            with redirect_stdout(out), redirect_stderr(said):
                code = command_line(["--store", store, *words])
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            broken.append(f"{name}, {words[0]}: {type(error).__name__}: {error}"[:300])
            return -1
        if code not in range(7) or (code and not out.getvalue() and "error:" not in said.getvalue()):
            broken.append(f"{name}, {words[0]}: exit {code} {said.getvalue()[:100]}")
        codes[f"exit {code}"] += 1
        return code

    ask("nothing", "agents")
    bounded(FILES_ROOM_BYTES)
    for number, (name, make) in enumerate(IMPORTS.items()):
        file, agent = folder / f"{number}.jsonl", f"agent-{number}"
        file.write_text(make())
        ask(name, "drift", str(file))
        if ask(name, "import", str(file), "--agent", agent) == 0:
            for words in (
                ["export", agent],
                ["trace", agent],
                ["log", "--agent", agent],
                ["drift", "--agent", agent],
                ["runs"],
            ):
                ask(name, *words)
    for name, make in WORKFLOWS.items():
        file = folder / "workflow.yaml"
        file.write_text(make())
        ask(name, "workflow", "check", str(file))
    for words in (["verify"], ["stats"], ["agents"], ["list", "default"], ["gc"]):
        ask("all", *words)
    sys.stdout.write(json.dumps({**codes, "broken": broken}) + "\n")


def main() -> None:
    if sys.argv[1] == "bombs":
        names = [name for name in sys.argv[2].split(",") if name]
        explode(names, naive=sys.argv[3:] == ["naive"])
        return
    if sys.argv[1] == "files":
        read_files(Path(sys.argv[2]))
        return
    chance, rounds = random.Random(int(sys.argv[1])), int(sys.argv[2])
    inputs = [*crafted(), *(mutated(chance) for _ in range(rounds))]
    for what, data in VALID.items():
        DECODERS[what](data)
    if sys.argv[3:] == ["naive"]:
        DECODERS["patch"] = lambda data: bytearray(patch.extent(data, max_bytes=1 << 62))
    bounded(ROOM_BYTES)
    told: Counter[str] = Counter(crashed=0)
    broken = []
    for what, data in inputs:
        hurry()
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
