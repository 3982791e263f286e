"""An orchestrator that is killed with SIGKILL at random moments: no message is lost, doubled or another user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.children import ROOT
from tests.faults.orchestrator_kills import USERS

KILLS = int(os.environ.get("HOLDFAST_ORCHESTRATOR_KILLS", "12"))  # 100 in the long form


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(60 + 2 * KILLS)
def test_every_message_is_handled_once_and_one_that_was_cut_off_again_under_its_id(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.orchestrator_kills", str(tmp_path), "1", str(KILLS)],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["broken"] == [], done.stderr[-4000:]
    assert (told["killed"], told["users"]) == (KILLS, USERS)
    assert told["handled"] > USERS
    assert told["again"] > 0
