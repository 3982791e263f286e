"""Rings of keys: what fits a store, what is added, and what is refused."""

import apsw
import pytest

from holdfast.errors import Corrupt, InvalidArgument, WrongKey
from holdfast.storage import keys
from holdfast.storage.authenticity import Ring
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.keyring import incoming_path
from holdfast.testing.samples import continued, save

ONE, TWO, THREE = (bytes([n]) * 32 for n in (1, 2, 3))


def test_a_ring_learns_the_keys_that_another_process_added():
    grown = Ring({1: ONE, 2: TWO})
    ring = Ring({1: ONE}, refresh=lambda: grown)
    sealed = grown.seal(b"state", b"here", b"data")
    assert ring.current == 1
    assert ring.unseal(b"state", b"here", sealed) == b"data"
    assert ring.current == 2
    assert ring.unseal(b"state", b"there", sealed) is None


def test_a_ring_never_takes_over_one_that_lacks_its_keys():
    ring = Ring({1: ONE}, refresh=lambda: Ring({1: THREE, 2: TWO}))
    assert 2 not in ring
    ring.adopt(Ring({2: TWO}))
    assert ring.keys == {1: ONE}


async def test_a_rotated_key_signs_what_follows_and_the_old_one_still_verifies(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    await save(store)
    assert await store.rotate_key() == 2
    assert await store.rotate_key() == 3
    saved = await continued(store)
    assert (await store.fetch(saved.id)) is not None
    assert (await store.verify()).ok
    await store.close()
    db = apsw.Connection(str(store.path))
    assert [(body[0],) for (body,) in db.execute("SELECT body FROM records WHERE key > 1 << 32 ORDER BY key")] == [
        (1,),
        (3,),
    ]
    assert db.execute("SELECT count(*) FROM meta WHERE name LIKE 'key:%'").fetchall() == [(3,)]
    db.close()


async def test_a_key_that_holdfast_does_not_keep_is_not_rotated_and_the_hint_says_how(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db", key="a secret that is long enough")
    await save(store)
    with pytest.raises(InvalidArgument) as refused:
        await store.rotate_key()
    assert "holdfast key show --secret" in refused.value.hint
    await store.close()
    ring = keys.explicit_ring("a secret that is long enough")
    grown = ",".join(keys.ring_text(Ring({**ring.keys, 2: TWO})).split())
    store = SQLiteCheckpointStorage(tmp_path / "store.db", key=grown)
    await continued(store)
    assert (await store.verify()).ok
    await store.close()
    store = SQLiteCheckpointStorage(tmp_path / "store.db", key="a secret that is long enough")
    with pytest.raises(WrongKey):
        await continued(store)
    await store.close()


async def test_a_ring_that_waits_is_taken_only_when_it_fits(tmp_path):
    path = tmp_path / "store.db"
    store = SQLiteCheckpointStorage(path)
    await save(store)
    await store.close()
    key = keys.key_path(path)
    right = key.read_text()
    incoming = incoming_path(path)
    incoming.write_text(f"1:{THREE.hex()}\n")
    store = SQLiteCheckpointStorage(path)
    await continued(store)
    await store.close()
    assert not incoming.exists(), "it does not fit, and the proper one does"
    incoming.write_text(right)
    key.write_text(f"1:{THREE.hex()}\n")
    reader = SQLiteCheckpointStorage(path, read_only=True)
    assert await reader.agent("agent") is not None
    await reader.close()
    assert incoming.exists()
    store = SQLiteCheckpointStorage(path)
    await continued(store)
    await store.close()
    assert key.read_text() == right
    assert not incoming.exists()


async def test_damaged_key_checks_are_named(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db")
    await save(store)
    await store.close()
    db = apsw.Connection(str(store.path))
    db.execute("UPDATE meta SET name = 'key:x' WHERE name = 'key:1'")
    db.close()
    store = SQLiteCheckpointStorage(store.path, read_only=True)
    with pytest.raises(Corrupt, match="key checks"):
        await store.agents()
    await store.close()
