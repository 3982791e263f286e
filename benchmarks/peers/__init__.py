"""Other ways of keeping agents, beside which Holdfast is measured."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from benchmarks.peers import dbos, harness, langgraph, raw
from benchmarks.peers.peer import Peer

PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "dbos", "pydantic-ai-harness")
"""What must be here for all of them to be measured."""

FLOOR: dict[str, type[Peer]] = {"raw append + fdatasync": raw.Lines, "raw SQLite, a row each": raw.Rows}
"""The least that anything durable costs: each message by itself, no states."""


def missing() -> list[str]:
    """A sentence for each package that is not here."""
    return [f"{name} is not installed here: `make bench` measures it as well." for name in PACKAGES if not _has(name)]


def peers() -> dict[str, type[Peer]]:
    """Every way that the installed packages have, by name."""
    found: dict[str, type[Peer]] = {}
    if _has("langgraph") and _has("langgraph-checkpoint-sqlite"):
        found |= {
            "LangGraph SqliteSaver": langgraph.Saver,
            "LangGraph AsyncSqliteSaver": langgraph.AsyncSaver,
            "LangGraph graph + SQLite": langgraph.Graph,
        }
        if find_spec("langgraph.channels.delta") is not None:
            found["LangGraph graph + SQLite + DeltaChannel (beta)"] = langgraph.DeltaGraph
    if _has("dbos"):
        found |= {"DBOS steps": dbos.Steps, "DBOS steps, engine in WAL mode": dbos.LoggedSteps}
    if _has("pydantic-ai-harness"):
        found["pydantic-ai StepPersistence"] = harness.Snapshots
    return found


def at_once() -> dict[str, type[Peer]]:
    """Those that several tasks may use at the same time, each as that is best done."""
    shared = {name: way for name, way in peers().items() if way is not harness.Snapshots}
    if _has("pydantic-ai-harness"):
        shared["pydantic-ai StepPersistence, by path"] = harness.SnapshotsByPath
    return shared


def chosen() -> dict[str, type[Peer]]:
    """Of each kind the quickest: for what takes long, and where the others would say the same."""
    return {name: way for name, way in peers().items() if way not in _ALIKE}


_ALIKE = (langgraph.AsyncSaver, langgraph.Graph, dbos.Steps)


def _has(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
