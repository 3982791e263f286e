"""Where fault tests keep their files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where there is one: a disk whose faults are simulated need not be waited for."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="holdfast-faults-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path)
