"""Stores of every released version stay readable for ever, and their damage is named."""

import json
import shutil
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SQLiteCheckpointStorage
from holdfast.testing.samples import continued
from tests.golden.make import NAME, apply, contents, named

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*") if path.is_dir())
DAMAGED = json.loads((HERE / "damaged.json").read_text(encoding="utf-8"))


def test_there_is_a_golden_store_of_this_version():
    assert VERSIONS[-1] == "v0.1"
    assert DAMAGED.keys() == set(VERSIONS)
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.suffix != ".pyc") < 300_000


@pytest.fixture(params=VERSIONS)
def golden(request, tmp_path):
    """A copy, because even opening must not touch the original."""
    return Path(shutil.copytree(HERE / request.param, tmp_path / request.param))


@pytest.mark.parametrize("read_only", [True, False])
async def test_everything_in_it_is_read_as_it_was_written(golden, read_only):
    expected = json.loads((golden / "expected.json").read_text(encoding="utf-8"))
    store = SQLiteCheckpointStorage(golden / NAME, read_only=read_only)
    found = await contents(store)
    for part, content in expected.items():
        assert found[part] == content, part
    report = await store.verify()
    assert report.ok, report.damaged
    assert len(report.whole) == len(expected["checkpoints"])
    await store.close()


async def test_its_agents_go_on(golden):
    store = SQLiteCheckpointStorage(golden / NAME)
    for info in await store.agents():
        saved = await continued(store, info.agent_id, user_id=info.user_id, state={"again": True})
        assert saved.parent_checkpoint_id == info.tip
    await store.collect_garbage()
    assert (await store.verify()).ok
    await store.close()


@pytest.mark.parametrize(
    ("version", "what"), [(version, what) for version, patches in DAMAGED.items() for what in patches]
)
async def test_what_is_damaged_in_a_copy_is_named(version, what, tmp_path):
    patch = DAMAGED[version][what]
    folder = Path(shutil.copytree(HERE / version, tmp_path / version))
    assert patch["named"]
    assert await named(folder, patch) == patch["named"]
    before = (folder / NAME).read_bytes()
    apply(folder / NAME, patch)
    assert (folder / NAME).read_bytes() != before
