"""Loops whose processes are killed at random moments: every message and every task counts exactly once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.children import ROOT

KILLS = int(os.environ.get("HOLDFAST_LOOP_KILLS", "10"))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(max(120, KILLS * 2))
def test_killed_loops_count_every_message_and_task_once(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.loop_kills", str(tmp_path), "1", str(KILLS)],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["broken"] == [], done.stderr[-4000:]
    assert told["killed"] == KILLS
    assert told["messages"] > KILLS
