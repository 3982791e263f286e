"""The page of results: what was measured, where, with which versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw

from benchmarks import peers
from benchmarks.disk import file_system
from benchmarks.options import Options
from benchmarks.result import Result

_PACKAGES = ("apsw", "ormsgpack", "backports.zstd", *peers.PACKAGES, "aiosqlite", "sqlalchemy")

_HEAD = """# Benchmarks

After reading this page you know what Holdfast's speed and size are beside other ways, and how to measure them yourself.

Each table was measured in one run, on one disk, with the ways compared taking turns. Read the ratios: milliseconds are
those of one machine and change with it. A target that was missed says so, and so does a table in which another way is
better. `make bench` measures again on yours; `make bench ARGS="--quick"` takes a few minutes.
"""


_BUSY = "; other programs were using the machine, so the slowest of anything says little"


def markdown(results: Iterable[Result], options: Options, *, command: str, load: float) -> str:
    facts = [
        f"- Measured {datetime.now(UTC):%Y-%m-%d} with `{command}`",
        f"- Machine: {_processor()}, {os.cpu_count()} cores, {platform.system()}, {file_system(options.directory)}",
        f"- One-minute load average at the beginning: {load:.1f}{_BUSY if load > 1 else ''}",
        f"- Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()} (in apsw), {_versions()}",
    ]
    if peers.peers():
        import sqlite3

        facts.append(f"- The others use the SQLite {sqlite3.sqlite_version} that Python brings")
    return "\n".join([_HEAD, *facts, "", *(result.markdown() for result in results)])


def _versions() -> str:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
