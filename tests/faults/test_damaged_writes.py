"""Writing to a damaged store: refused, or what was acknowledged before and what is now are there; never a new store."""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter

import pytest

from holdfast.errors import Corrupt, HoldfastError, Unopenable
from holdfast.storage.protocol import Query
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.storage.sqlite.foundagain import FoundAgain
from holdfast.testing.samples import continued
from tests.faults.report import LONG, tell
from tests.faults.stores import small_store
from tests.faults.test_bit_flips import parts_of

pytestmark = [pytest.mark.faults, pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(3600 if LONG else 60)]

REFUSED, FOUND, NAMED, LOST = "refused", "acknowledged and found", "acknowledged, then named as damaged", "lost"


@pytest.fixture(scope="module")
async def original(tmp_path_factory):
    path = await small_store(tmp_path_factory.mktemp("written") / "original")
    store = SQLiteCheckpointStorage(path, read_only=True)
    ids = {found.id for found in await store.list(Query(limit=None))}
    await store.close()
    return path, ids


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """What a writer warns of is expected here, thousands of times."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")


def damaged(path, folder, data):
    """The store with this content, and with everything that lies beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for suffix in (".key", ".last"):
        shutil.copyfile(f"{path}{suffix}", folder / f"store.db{suffix}")
    (folder / "store.db").write_bytes(data)
    return folder / "store.db"


async def outcome(path, ids) -> str:
    """What becomes of a save; asked by another process, as it were."""
    store = SQLiteCheckpointStorage(path, max_checkpoints_per_user=None)
    try:
        await continued(store, "ada", id="chk-new", user_id="first", state={"n": 1})
    except HoldfastError:
        return REFUSED
    finally:
        await store.close()
    store = SQLiteCheckpointStorage(path, max_checkpoints_per_user=None)
    try:
        found = await store.fetch("chk-new")
        if found is None or found[1].decode() != {"n": 1}:
            return LOST
        report = await store.verify()
    except HoldfastError:
        return NAMED
    else:
        return LOST if report.ok and not ids <= {*report.whole} else FOUND
    finally:
        await store.close()


async def test_a_save_to_a_store_with_a_flipped_bit_is_refused_or_found(original, folder):
    path, ids = original
    data, chance = bytearray(path.read_bytes()), random.Random(3)
    parts, size = parts_of(path, folder / "looked at")
    outcomes: Counter[str] = Counter()
    for _ in range(5_000 if LONG else 60):
        begin = chance.choice(list(parts))
        place = chance.choice([at for at in range(begin, begin + size) if data[at]] or [begin])
        bit = 1 << chance.randrange(8)
        data[place] ^= bit
        outcomes[await outcome(damaged(path, folder / "copy", data), ids)] += 1
        data[place] ^= bit
    tell(
        "Writes to damaged stores",
        "A bit flipped in a byte of a small store, which is then saved to and opened anew.",
        **{LOST: outcomes[LOST], **outcomes},
    )
    assert not outcomes[LOST]
    assert outcomes[REFUSED]
    assert outcomes[FOUND] > 10 * outcomes[NAMED]


async def test_a_table_whose_name_is_no_text_any_more_is_an_error_of_ours(original, folder):
    path, ids = original
    data = path.read_bytes()
    copy = damaged(path, folder / "copy", data.replace(b"agents_by_user", b"ag\xe4nts_by_user"))
    assert copy.read_bytes() != data
    store = SQLiteCheckpointStorage(copy)
    with pytest.raises(Corrupt, match="can't be read"):
        await continued(store)
    await store.close()
    assert await outcome(copy, ids) == REFUSED


async def test_a_user_whose_name_is_no_text_any_more_is_an_error_of_ours(original, folder):
    path, _ = original
    data = path.read_bytes()
    parts, size = parts_of(path, folder / "looked at")
    [page] = [begin for begin, part in parts.items() if part == "users"]
    at = data.index(b"first", page, page + size)
    copy = damaged(path, folder / "copy", data[:at] + b"f\xe9rst" + data[at + 5 :])
    store = SQLiteCheckpointStorage(copy)
    with pytest.raises(Corrupt):
        await continued(store, "ada", user_id="first")
    await store.close()


async def test_a_save_to_a_store_whose_tail_was_cut_off_is_refused_or_loses_nothing(original, folder):
    path, ids = original
    data = path.read_bytes()
    outcomes: Counter[str] = Counter()
    for length in [*range(0, len(data), 64 if LONG else 4096), 1, 100, len(data) - 1]:
        outcomes[await outcome(damaged(path, folder / "copy", data[:length]), ids)] += 1
    tell(
        "Tails cut off, written to",
        "A small store cut off at many lengths, which is then saved to.",
        **{LOST: outcomes[LOST], **outcomes},
    )
    assert not outcomes[LOST]
    assert outcomes[REFUSED]


async def test_a_store_that_was_cut_to_nothing_takes_no_save(original, folder):
    copy = damaged(original[0], folder / "copy", b"")
    store = SQLiteCheckpointStorage(copy)
    with pytest.raises(Unopenable, match="a store was made there"):
        await continued(store)
    await store.close()
    assert copy.read_bytes() == b""


async def test_an_agent_that_would_not_be_found_again_takes_no_save(original, folder, monkeypatch):
    """One bit of its name: the index has the right one, and nobody else looks."""
    path, ids = original
    data = path.read_bytes()
    parts, size = parts_of(path, folder / "looked at")
    [page] = [begin for begin, part in parts.items() if part == "agents"]
    at = data.index(b"ada\x01", page, page + size) + 2
    flipped = data[:at] + b"i" + data[at + 1 :]
    copy = damaged(path, folder / "copy", flipped)
    store = SQLiteCheckpointStorage(copy, max_checkpoints_per_user=None)
    with pytest.raises(Corrupt, match="adi"):
        await continued(store, "ada", user_id="first")
    await continued(store, "bob", user_id="second")
    await store.close()
    monkeypatch.setattr(FoundAgain, "check", lambda *_: None)
    copy = damaged(path, folder / "copy", flipped)
    assert await outcome(copy, ids) == NAMED, "the control"
