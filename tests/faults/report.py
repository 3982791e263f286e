"""How long a fault test works, and where it leaves its figures."""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

LONG = os.environ.get("HOLDFAST_FAULTS") == "long"
"""Whether every point is tried, as `make faults` does, and not a sample of a few seconds."""

_ROOT = Path(__file__).parents[2]


def times(variable: str, *, short: int, long: int) -> int:
    """How often something random is done: as the variable of the environment says, or as this form does."""
    return int(os.environ.get(variable) or (long if LONG else short))


def tell(name: str, what: str, **figures: int) -> None:
    """Writes the figures of a test for `make faults-report`, if somebody asked for them.

    A test calls it itself, by this name: so it is known which tests owe figures (`rows`).
    """
    if (folder := folder_of_figures()) is None:
        return
    told = {
        "name": name,
        "what": what,
        "figures": {label.replace("_", " "): n for label, n in figures.items()},
        "test": os.environ["PYTEST_CURRENT_TEST"].rsplit(" ", 1)[0],
        "commit": commit(),
    }
    write(folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json", told)


def folder_of_figures() -> Path | None:
    """Where figures are to be left, if anywhere."""
    folder = os.environ.get("HOLDFAST_FAULTS_REPORT")
    return Path(folder) if folder else None


def write(path: Path, told: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")


@cache
def commit() -> str:
    """The commit of this checkout, with `-dirty` when something was changed; nothing where it is none."""
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(asked, cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()
