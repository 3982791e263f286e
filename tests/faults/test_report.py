"""The report on the fault tests: no row of it may get lost, and no figures of another commit may get in."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from tests.faults.children import ROOT

ROWS = [{"name": name, "what": "x", "figures": {"lost": 0}, "test": name, "commit": "abc"} for name in ("one", "two")]
SESSION = {"commit": "abc", "skipped": [], "seconds": 90, "date": "2026-01-01"}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("faults_report", ROOT / "scripts" / "faults_report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("rows", "session", "owing", "said"),
    [
        (ROWS, {}, {"one", "two"}, []),
        (ROWS[:1], {}, {"one", "two"}, ["two owes figures and left none"]),
        (ROWS, {}, {"one"}, ["two left figures and does not call tell itself"]),
        (ROWS, {"skipped": ["three"]}, {"one", "two"}, ["three was skipped"]),
        (ROWS, {"commit": "def"}, {"one", "two"}, ["the figures are of several commits: abc, def"]),
        ([ROWS[0], {**ROWS[1], "commit": "d"}], {}, {"one", "two"}, ["the figures are of several commits: abc, d"]),
        (ROWS, None, {"one", "two"}, ["no session of tests says how it went"]),
    ],
)
def test_figures_that_are_not_whole_are_not_published(script, rows, session, owing, said):
    sessions = [] if session is None else [{**SESSION, **session}]
    assert list(script.wrong(rows, sessions, owing)) == said


def test_what_is_published_says_when_and_of_what(script):
    text = script.text(ROWS, [SESSION, SESSION])
    assert "on 2026-01-01 at commit abc, in 3 minutes, with Python" in text
    assert "| one | x | 0 lost |" in text


def test_every_test_that_tells_figures_does_so_itself():
    """A helper that told them would hide from the report which test owes them."""
    found = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        names = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "tests.faults.report"
            for alias in node.names
            if alias.name == "tell"
        }
        tests = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        ]
        owed = [call for test in tests for call in _calls(test, names)]
        assert len(owed) == len(_calls(tree, names)), path
        found += len(owed)
    assert found > 20


def _calls(tree: ast.AST, names: set[str]) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def test_the_page_has_one_place_for_the_figures(script):
    page = Path(script.PAGE).read_text()
    assert page.count(script.BEGIN) == page.count(script.END) == 1
