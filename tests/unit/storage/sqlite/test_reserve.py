"""Room that was promised is there, and ends with its writer."""

import errno
import os

import pytest

from holdfast.errors import DiskFull
from holdfast.storage.sqlite.locks import Presence
from holdfast.storage.sqlite.reserve import KEPT_BYTES, Reserve

MIB = 1 << 20


@pytest.fixture
def presence(tmp_path):
    presence = Presence(tmp_path / "store.db.writers")
    presence.appear()
    yield presence
    presence.vanish()


@pytest.fixture
def reserve(presence, tmp_path):
    return Reserve(presence, tmp_path / "store.db")


def size(presence):
    return os.fstat(presence.descriptor).st_size


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_promised_is_taken_up_with_what_writing_it_takes(presence, reserve):
    reserve.promise(MIB)
    assert size(presence) == MIB + MIB // 16
    assert os.fstat(presence.descriptor).st_blocks * 512 >= MIB
    reserve.promise(MIB)
    assert size(presence) == 2 * (MIB + MIB // 16)


def test_room_is_kept_for_the_next_call_but_not_much(presence, reserve):
    reserve.promise(20 * MIB)
    reserve.release(19 * MIB)
    assert size(presence) == KEPT_BYTES
    reserve.release(MIB)
    assert size(presence) == KEPT_BYTES


def test_giving_leaves_what_others_were_promised(presence, reserve):
    reserve.promise(MIB)
    reserve.promise(2 * MIB)
    assert reserve.give(MIB)
    assert size(presence) == 2 * (MIB + MIB // 16)
    assert not reserve.give(0), "it is left to those whom it was promised"
    reserve.restore()
    assert size(presence) == 3 * (MIB + MIB // 16)


def test_what_there_is_no_room_for_is_not_promised(presence, reserve, monkeypatch):
    reserve.promise(MIB)
    monkeypatch.setattr(os, "posix_fallocate", no_room, raising=False)
    with pytest.raises(DiskFull) as full:
        reserve.promise(MIB)
    assert "store.db" in full.value.message
    assert reserve.promised == MIB
    assert size(presence) == MIB + MIB // 16


def test_where_nothing_can_be_allocated_it_is_written(presence, reserve, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    reserve.promise(3 * MIB)
    assert os.fstat(presence.descriptor).st_blocks * 512 >= 3 * MIB


def test_the_room_ends_with_its_writer(presence, reserve):
    reserve.promise(MIB)
    folder = presence.folder
    presence.vanish()
    assert not folder.exists()
