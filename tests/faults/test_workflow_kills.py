"""Workflows whose processes are killed with SIGKILL: they come to their end, and no step that is done is done again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.children import ROOT

KILLS = int(os.environ.get("HOLDFAST_WORKFLOW_KILLS", "12"))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(max(60, KILLS))
def test_a_killed_workflow_comes_to_its_end_and_does_no_finished_step_again(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.workflow_kills", str(tmp_path), "1", str(KILLS)],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["broken"] == [], done.stderr[-4000:]
    assert told["killed"] >= KILLS
    assert told["workflows"]
    assert told["again"]
