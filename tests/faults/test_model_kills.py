"""A model's conversation whose process is killed at one record after the other: it comes to the same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.children import ROOT

BOUNDARIES = int(os.environ.get("HOLDFAST_MODEL_KILLS", "4"))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(max(60, 10 * BOUNDARIES))
def test_a_killed_conversation_comes_to_the_same_end_with_every_effect_as_its_tool_promises(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.model_kills", str(tmp_path / "kills"), str(BOUNDARIES)],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["broken"] == [], done.stderr[-4000:]
    assert told["tried"] == min(BOUNDARIES, told["boundaries"])
    assert told["killed"] >= told["tried"] - 1  # after the last record there is no commit to die before
