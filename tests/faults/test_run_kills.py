"""Programs whose processes are killed with SIGKILL at random moments: no effect is lost, doubled or invented."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.children import ROOT
from tests.faults.report import tell

KILLS = int(os.environ.get("HOLDFAST_RUN_KILLS", "320"))
WORKERS = 2


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(max(300, KILLS))
def test_killed_programs_come_to_their_ends_with_every_effect_once(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.run_kills", str(tmp_path), str(seed), str(KILLS // WORKERS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
        )
        for seed in range(1, WORKERS + 1)
    ]  # fmt: skip
    killed = runs = 0
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        told = json.loads(out.splitlines()[-1])
        assert told["broken"] == [], err[-4000:]
        killed += told["killed"]
        runs += told["runs"]
    tell(
        "kills, programs",
        "Processes that run programs with effects are killed and recovered until every program has come to its end.",
        kills=killed, programs=runs,
    )  # fmt: skip
    assert killed >= KILLS // WORKERS * WORKERS
    assert runs
