"""How long a fault test works, and where it leaves its figures."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

LONG = os.environ.get("HOLDFAST_FAULTS") == "long"
"""Whether every point is tried, as `make faults` does, and not a sample of a few seconds."""


def times(variable: str, *, short: int, long: int) -> int:
    """How often something random is done: as the variable of the environment says, or as this form does."""
    return int(os.environ.get(variable) or (long if LONG else short))


def tell(name: str, what: str, **figures: int) -> None:
    """Writes the figures of a test for `make faults-report`, if somebody asked for them."""
    folder = os.environ.get("HOLDFAST_FAULTS_REPORT")
    if not folder:
        return
    told = {"name": name, "what": what, "figures": {label.replace("_", " "): n for label, n in figures.items()}}
    path = Path(folder) / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")
