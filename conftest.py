"""Runs the examples of README.md, docs/ and the docstrings, so that no page shows what does not work.

A page is one session: its ```python blocks run in order, in one namespace, on one event loop, in an empty directory;
`await` may stand at the top level. A ```text block directly after one is what it prints (`...` stands for anything).
`<!-- skip: next -->` before a block leaves it out.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import pad
from sybil.parsers.markdown import CodeBlockParser, SkipParser

_MODULE = "example"
_AFTER_PYTHON = re.compile(r"```python\n(?:(?!```).*\n)*```\s*\Z")


class _Page:
    """Where the blocks of one page run, and what the last of them printed."""

    def __init__(self) -> None:
        self.module = ModuleType(_MODULE)
        self.runner = asyncio.Runner()
        self.printed = ""
        self.home = Path.cwd()
        self.directory = tempfile.TemporaryDirectory(prefix="holdfast-example-")
        os.chdir(self.directory.name)
        # Classes look up their module when their annotations are resolved.
        sys.modules[_MODULE] = self.module

    def run(self, example: Example) -> None:
        __tracebackhide__ = True
        source = pad(example.parsed, example.line + example.parsed.line_offset)
        code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        block = FunctionType(code, vars(self.module))
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                if code.co_flags & inspect.CO_COROUTINE:
                    self.runner.run(block())
                else:
                    block()
        finally:
            self.printed = output.getvalue()
            sys.stdout.write(self.printed)

    def compare(self, example: Example) -> str:
        """Nothing if the block before printed this, else the difference."""
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
        checker, expected = doctest.OutputChecker(), str(example.parsed)
        if checker.check_output(expected, self.printed, flags):
            return ""
        return checker.output_difference(doctest.Example("", expected), self.printed, flags)

    def close(self) -> None:
        sys.modules.pop(_MODULE, None)
        try:
            self.runner.close()
        finally:
            os.chdir(self.home)
            self.directory.cleanup()


def _open(namespace: dict[str, Any]) -> None:
    namespace["page"] = _Page()


def _close(namespace: dict[str, Any]) -> None:
    namespace.pop("page").close()


def _outputs(document: Document) -> Iterable[Region]:
    blocks = CodeBlockParser("text", lambda example: example.namespace["page"].compare(example))
    return (region for region in blocks(document) if _AFTER_PYTHON.search(document.text[: region.start]))


pytest_collect_file = Sybil(
    parsers=[
        CodeBlockParser("python", lambda example: example.namespace["page"].run(example)),
        _outputs,
        SkipParser(),
    ],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    setup=_open,
    teardown=_close,
).pytest()


@pytest.fixture(autouse=True)
def _docstrings_leave_nothing_behind(request: pytest.FixtureRequest) -> None:
    """Run the examples of docstrings in an empty directory."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
