"""The states of an agent are sealed into segments that can be read again."""

from __future__ import annotations

from holdfast.history import delta
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import continued


async def test_states_that_are_large_together_are_sealed_apart(tmp_path, monkeypatch):
    """Each compresses to next to nothing, so that only what a reader would make of them tells how large they are."""
    monkeypatch.setattr(delta, "MAX_BYTES", 100_000)
    store = SQLiteCheckpointStorage(tmp_path / "store.db", max_checkpoints_per_user=None)
    saved = [await continued(store, state={"text": chr(97 + number % 26) * 9_000}) for number in range(70)]
    counts = await store.read_side.read(
        lambda reader: [count for (count,) in reader.db.execute("SELECT versions FROM segments ORDER BY key")]
    )
    assert counts == [11, 11, 11, 11, 11, 9]
    for number in (0, 10, 11, 63, 64, 69):
        assert (await store.load(saved[number].id)).state == {"text": chr(97 + number % 26) * 9_000}
    assert (await store.verify()).ok
    await store.close()
