"""The key ring on disk: made at first use beside the database, mode 0600; HOLDFAST_KEY or an argument overrides."""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import InvalidArgument, Unopenable
from holdfast.storage.authenticity import Ring
from holdfast.storage.durably import write_new, write_whole

KEY_BYTES = 32
NUMBER_MAX = 255
ENVIRONMENT = "HOLDFAST_KEY"


def key_path(db_path: Path) -> Path:
    return db_path.with_name(db_path.name + ".key")


def explicit_ring(key: str | bytes | None) -> Ring | None:
    """The ring that an argument or HOLDFAST_KEY names, or None when neither does.

    The text is either `1:hex,2:hex` (a whole ring, as `holdfast key show` prints it) or any secret of at least
    16 characters, which becomes key 1.
    """
    key = key if key is not None else os.environ.get(ENVIRONMENT) or None
    if key is None:
        return None
    if isinstance(key, bytes):
        key = key.decode("utf-8", "surrogateescape")
    if ":" in key:
        return parse_ring(key.replace(",", "\n"), source=f"The key given (argument or {ENVIRONMENT})")
    if len(key) < 16:
        raise InvalidArgument(
            "A key needs at least 16 characters", hint="`python -c 'import secrets; print(secrets.token_hex(32))'`"
        )
    if len(key) == 2 * KEY_BYTES:
        try:
            return Ring({1: bytes.fromhex(key)})
        except ValueError:
            pass
    return Ring({1: blake2b(key.encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES).digest()})


def parse_ring(text: str, *, source: str) -> Ring:
    keys = {}
    for line in text.split():
        number, _, digits = line.partition(":")
        try:
            key = bytes.fromhex(digits)
            ok = 1 <= int(number) <= NUMBER_MAX and len(key) == KEY_BYTES
        except ValueError:
            ok = False
        if not ok:
            raise Unopenable(f"{source} is no key ring", hint="Each line must be NUMBER:64-HEX-DIGITS.")
        keys[int(number)] = key
    if not keys:
        raise Unopenable(f"{source} holds no key", hint="Put the right key file back, or see `holdfast key --help`.")
    return Ring(keys)


def ring_text(ring: Ring) -> str:
    return "".join(f"{number}:{key.hex()}\n" for number, key in sorted(ring.keys.items()))


def read_ring(path: Path) -> Ring | None:
    """The ring in this file, or None when there is no such file."""
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unopenable(f"The key file {path} can't be read: {error}", path=str(path)) from error
    return parse_ring(text, source=f"The key file {path}")


def new_ring(path: Path) -> Ring:
    """Makes the ring of a new store. Two processes may try at once: the first one's file is the ring."""
    ring = Ring({1: secrets.token_bytes(KEY_BYTES)})
    write_new(path, ring_text(ring).encode(), mode=0o600)
    found = read_ring(path)
    if found is None:
        raise Unopenable(f"The key file {path} vanished while the store was being made", path=str(path))
    return found


def grow_ring(path: Path, ring: Ring) -> Ring:
    """Adds a new key and makes it the current one; the file is replaced in one step."""
    number = ring.current + 1
    if number > NUMBER_MAX:
        raise InvalidArgument(f"A ring holds at most {NUMBER_MAX} keys", hint="`holdfast key reset` begins a new ring.")
    grown = Ring({**ring.keys, number: secrets.token_bytes(KEY_BYTES)})
    write_whole(path, ring_text(grown).encode(), mode=0o600)
    return grown


def fingerprint(ring: Ring) -> dict[str, str]:
    """What may be shown of a ring: eight characters of a hash of each key."""
    return {
        str(number): blake2b(key, digest_size=4, person=b"fingerprint").hexdigest()
        for number, key in sorted(ring.keys.items())
    }
