"""What stats count."""

import json

from holdfast.history.records import RlmStart
from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import commit, continued, save


async def test_stats_count_what_is_there_and_say_which_limits_are_exceeded(tmp_path):
    store = SQLiteCheckpointStorage(tmp_path / "store.db", max_checkpoints_per_user=3, max_checkpoints=4)
    for n in range(5):
        await continued(store, id=f"chk-{n}", user_id="many", state={"n": n})
    await save(store, "b", user_id="few", kind="routine")
    await save(store, "c", user_id="few", kind="pre_operation")
    await commit(store, "c", user_id="few", records=(RlmStart(tool_call_id="run", code="1"),), hold=True)
    await commit(store, user_id="many", delete=("chk-0",))
    await store.send("b", "few", "hello", sender="me")
    stats = await store.stats()
    assert json.loads(json.dumps(stats)) == stats
    assert (stats["users"], stats["agents"], stats["agents_held"], stats["writers_alive"]) == (2, 3, 1, 1)
    assert (stats["checkpoints"], stats["checkpoints_deleted"], stats["inbox_waiting"]) == (6, 1, 1)
    assert stats["checkpoints_by_kind"] == {"manual": 4, "routine": 1, "pre_operation": 1}
    assert (stats["runs"], stats["runs_interrupted"], stats["operations_interrupted"]) == (1, 0, 0), "their owner lives"
    assert stats["limits"]["users_over"] == {"many": 4}
    assert not stats["limits"]["total_over"]
    assert list(stats["keys"]) == ["1"]
    assert stats["bytes"]["states_open"] > 0
    await store.close()
    store = SQLiteCheckpointStorage(tmp_path / "store.db", read_only=True)
    stats = await store.stats()
    assert (stats["runs_interrupted"], stats["operations_interrupted"], stats["writers_alive"]) == (1, 1, 0)
    assert stats["bytes"]["file"] == (tmp_path / "store.db").stat().st_size
    await store.close()
