"""Runs every fault test in its long form, and writes what they counted into docs/guarantees.md.

    python scripts/faults_report.py [FOLDER]

With a folder, its figures are taken as they are and nothing is run. Each file in it is one test's, as
`tests/faults/report.py` writes it.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guarantees.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
LONG = {"HOLDFAST_FAULTS": "long", "HOLDFAST_RUN_KILLS": "600"}


def main() -> None:
    page = PAGE.read_text() if PAGE.exists() else ""
    if not page.count(BEGIN) == page.count(END) == 1:
        sys.exit(f"{PAGE} must have one line {BEGIN} and, below it, one {END}")
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
        write(Path(folder))


def run(folder: Path) -> None:
    """Ends the program with the tests' code if one of them fails: figures of a broken claim are not published."""
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "faults", "-o", "timeout=3600", "tests"]
    environment = {**os.environ, **LONG, "HOLDFAST_FAULTS_REPORT": str(folder)}
    code = subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode
    if code:
        sys.exit(code)


def write(folder: Path) -> None:
    tests = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not tests:
        sys.exit(f"There are no figures in {folder}")
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text(tests)}\n{END}{after}")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {len(tests)} tests\n")


def text(tests: list[dict[str, Any]]) -> str:
    """The figures as a table, controls last: those are meant to lose something."""
    versions = f"Python {platform.python_version()} and SQLite {apsw.sqlite_lib_version()} on {platform.system()}"
    lines = [
        f"Counted by `make faults-report` with {versions}: {_sums(tests)}.",
        "",
        "| test | what is done | found |",
        "|---|---|---|",
    ]
    for test in sorted(tests, key=lambda test: (_is_control(test), test["name"])):
        found = ", ".join(f"{number:,} {label}" for label, number in test["figures"].items())
        lines.append(f"| {test['name']} | {test['what']} | {found} |")
    return "\n".join(lines) + "\n"


def _sums(tests: list[dict[str, Any]]) -> str:
    sums: Counter[str] = Counter()
    for test in tests:
        if not _is_control(test):
            sums.update(test["figures"])
    told = [f"{sums[label]:,} {label}" for label in ("images", "faults", "kills", "lost", "corrupt") if label in sums]
    return ", ".join(told) + ", controls apart"


def _is_control(test: dict[str, Any]) -> bool:
    return bool(test["what"].startswith("A control"))


if __name__ == "__main__":
    main()
