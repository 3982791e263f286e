"""What `import holdfast` offers: every name from one place, described, and none of it paid for before it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

OFFERED = [name for names in holdfast._HOMES.values() for name in names]


def test_all_names_what_there_is_and_nothing_else():
    assert sorted(holdfast.__all__) == sorted([*OFFERED, "__version__"])
    assert len(set(OFFERED)) == len(OFFERED)


def test_all_is_in_order():
    assert list(holdfast.__all__) == sorted(holdfast.__all__)


def test_what_a_type_checker_sees_is_what_there_is():
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (node.module, alias.asname or alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(f"holdfast.{home}", name) for home, names in holdfast._HOMES.items() for name in names}


@pytest.mark.parametrize("name", OFFERED)
def test_every_public_name_can_be_imported_and_says_what_it_is(name):
    value = getattr(holdfast, name)
    assert value is getattr(importlib.import_module(f"holdfast.{holdfast._HOME_OF[name]}"), name)
    said = value.__doc__ or ""
    assert said.strip(), f"holdfast.{name} has no docstring"
    # A dataclass without one is given its own signature, which says nothing.
    assert not said.startswith(f"{name}("), f"holdfast.{name} has no docstring of its own"


def test_every_error_is_public():
    from holdfast import errors

    defined = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert defined - set(OFFERED) == set()


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="Chekpoint"):
        _ = holdfast.Chekpoint


def test_dir_lists_the_public_names():
    assert set(dir(holdfast)) == set(holdfast.__all__)


def test_importing_holdfast_imports_nothing_heavy():
    program = (
        "import sys, holdfast; "
        "heavy = ('apsw', 'ormsgpack', 'rich', 'typer', 'click', 'pydantic', 'asyncio', 'backports.zstd', 'sqlite3'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_package():
    assert holdfast.__version__ == importlib.import_module("holdfast.version").__version__
