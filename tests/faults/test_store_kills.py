"""Processes that share a store are killed with SIGKILL at random moments: nothing acknowledged is lost or mixed up."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.children import ROOT
from tests.faults.report import LONG, tell

KILLS = 450 if LONG else 8


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(3600 if LONG else 120)
def test_processes_that_share_a_store_may_be_killed_at_any_moment(folder):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.run(
        [sys.executable, "-m", "tests.faults.store_kills", str(folder), "1", str(KILLS)],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-4000:]
    told = json.loads(process.stdout.splitlines()[-1])
    tell(
        "kills, stores",
        "Eight processes save, delete, collect garbage and add keys in one store; a random one is killed and replaced.",
        kills=told["killed"], broken=len(told["broken"]),
    )  # fmt: skip
    assert told["broken"] == []
    assert told["killed"] == KILLS
