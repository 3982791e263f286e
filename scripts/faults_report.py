"""Runs every fault test in its long form, and writes what they counted into docs/guarantees.md.

    python scripts/faults_report.py [FOLDER]

With a folder, its figures are taken and nothing is run. Each file in it is one test's, as `tests/faults/report.py`
writes it when HOLDFAST_FAULTS_REPORT names the folder; so the tests may have been run in several sessions. Nothing is
written when a test that owes figures left none, when a test was skipped, or when the figures are of several commits.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guarantees.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
SUMS = ("images", "faults", "kills", "lost", "corrupt", "made twice", "wrong answers", "crashes")


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
    if code := pytest(folder, "-o", "timeout=3600"):
        sys.exit(code)


def pytest(folder: Path, *arguments: str, quiet: bool = False) -> int:
    """The fault tests in their long form, with this folder for what they leave; the code of pytest."""
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "faults", *arguments, "tests"]
    environment = {**os.environ, "HOLDFAST_FAULTS": "long", "HOLDFAST_FAULTS_REPORT": str(folder)}
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run(tests, cwd=ROOT, env=environment, stdout=output, check=False).returncode


def owed() -> set[str]:
    """The tests that owe figures, as pytest finds them now."""
    with tempfile.TemporaryDirectory() as folder:
        if code := pytest(Path(folder), "--collect-only", quiet=True):
            sys.exit(f"The tests could not be collected: pytest ended with {code}")
        return set(json.loads((Path(folder) / "owed" / "rows.json").read_text()))


def write(folder: Path) -> None:
    tests, sessions = read(folder), read(folder / "sessions")
    if faults := list(wrong(tests, sessions, owed())):
        sys.exit("Nothing was written:\n" + "\n".join(faults))
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text(tests, sessions)}\n{END}{after}")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {len(tests)} rows\n")


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def wrong(tests: list[dict[str, Any]], sessions: list[dict[str, Any]], owing: set[str]) -> Iterator[str]:
    """Why these figures are not to be published."""
    told = {test["test"] for test in tests}
    yield from (f"{name} owes figures and left none" for name in sorted(owing - told))
    yield from (f"{name} left figures and does not call tell itself" for name in sorted(told - owing))
    if not sessions:
        yield "no session of tests says how it went"
    for session in sessions:
        yield from (f"{name} was skipped" for name in session["skipped"])
    commits = {one["commit"] for one in (*tests, *sessions)}
    if len(commits) > 1:
        yield f"the figures are of several commits: {', '.join(sorted(commits))}"


def text(tests: list[dict[str, Any]], sessions: list[dict[str, Any]]) -> str:
    """The figures as a table, controls last: those are meant to lose something."""
    versions = f"Python {platform.python_version()} and SQLite {apsw.sqlite_lib_version()} on {platform.system()}"
    commit, date = sessions[0]["commit"], max(session["date"] for session in sessions)
    minutes = round(sum(session["seconds"] for session in sessions) / 60)
    at = f" at commit {commit}" if commit else ""
    lines = [
        f"Counted by `make faults-report` on {date}{at}, in {minutes} minutes, with {versions}: {_sums(tests)}.",
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
    told = [f"{sums[label]:,} {label}" for label in SUMS if label in sums]
    return ", ".join(told) + ", controls apart"


def _is_control(test: dict[str, Any]) -> bool:
    return bool(test["what"].startswith("A control"))


if __name__ == "__main__":
    main()
