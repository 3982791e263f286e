"""What the pages say is complete and true, as far as a program can tell; their examples are run by conftest.py."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import holdfast
from holdfast import errors
from holdfast.cli.app import program
from holdfast.history import jsonform, wire
from holdfast.history.records import RECORD_TYPES, Record
from holdfast.testing.conformance import CheckpointStorageConformance

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
EVERYTHING = [README, *PAGES]


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks_of(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def rows_of(text: str) -> dict[str, str]:
    """The rows of all tables that begin with a name in backquotes, by this name."""
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, re.MULTILINE))


# --- errors.md


def classes_of_errors() -> set[str]:
    return {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.HoldfastError) and value is not errors.HoldfastError
    }


def described_errors() -> set[str]:
    text = text_of("errors.md")
    return set(rows_of(text)) | set(re.findall(r"^## `(\w+)`", text, re.MULTILINE))


def test_errors_md_describes_every_error_and_invents_none():
    assert described_errors() == classes_of_errors()


@pytest.mark.parametrize("name", sorted(classes_of_errors()))
def test_errors_md_has_each_error_below_the_heading_of_its_branch(name):
    cls = getattr(errors, name)
    branch = next(base for base in reversed(cls.__mro__[:-1]) if errors.HoldfastError in base.__bases__)
    below = text_of("errors.md").split(f"## `{branch.__name__}`", 1)[1].split("\n## ", 1)[0]
    assert cls is branch or f"| `{name}` |" in below


def test_errors_md_names_the_attributes_that_errors_have():
    [sentence] = re.findall(r"^The attributes are (.*?)[;.]", text_of("errors.md"), re.DOTALL | re.MULTILINE)
    annotated = [name for name in errors.HoldfastError.__annotations__ if name != "default_hint"]
    assert re.findall(r"`(\w+)`", sentence) == annotated


# --- formats.md


def test_formats_md_has_every_record_type_with_its_fields():
    rows = rows_of(text_of("formats.md").split("## The wire format")[1].split("\n## ")[0])
    common = set(Record.__dataclass_fields__)
    own = {
        name: {column.wire_name for column in wire._COLUMNS[name] if column.name not in common}
        for name in RECORD_TYPES
        if name in wire._COLUMNS
    }
    of_a_tool_call = {"id", "name", "arguments"}
    said = {name: set(re.findall(r"`(\w+)`", row)) for name, row in rows.items()}
    said["assistant_message"] -= of_a_tool_call
    assert said.pop("type") == set()  # the heading
    assert said == own


def test_formats_md_names_the_fields_that_every_record_may_have():
    words = " ".join(text_of("formats.md").split())
    [sentence] = re.findall(r"Each has `type`.*? When a line is read", words)
    for column in wire._COLUMNS["rewind"]:
        assert column.name == "to" or f"`{column.wire_name}`" in sentence


def test_formats_md_has_every_form_of_a_value_and_no_other():
    assert set(re.findall(r"`(\$\w+)`", text_of("formats.md"))) == jsonform.TAGS


@pytest.mark.parametrize("suffix", ["-wal", "-shm", ".key", ".lock", ".last", ".writers/", ".ballast", ".key.new"])
def test_formats_md_names_every_file_beside_a_database(suffix):
    assert f"`checkpoints.db{suffix}`" in text_of("formats.md")


# --- every page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_what_one_can_do_after_reading_it(page):
    heading, sentence = page.read_text(encoding="utf-8").split("\n\n", 2)[:2]
    assert re.fullmatch(r"# \S.*", heading)
    assert sentence.startswith("After reading this page")


def test_the_index_lists_every_page():
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", text_of("index.md")))
    assert {page.name for page in PAGES} - {"index.md"} <= listed


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings have, as the usual sites make them."""
    outside = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", EVERYTHING, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors_of(target), f"{page.name} links to {link}"


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def commands_on(page: Path) -> list[str]:
    """The command lines that a page shows, in its sentences and in its console blocks."""
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"`(holdfast [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    typed = re.findall(r"^\$ (holdfast .*)$", "\n".join(blocks_of(text, "console")), re.MULTILINE)
    return inline + typed


@pytest.mark.parametrize("page", EVERYTHING, ids=lambda page: page.name)
def test_every_command_on_a_page_is_one(page):
    context = click.Context(program)
    for line in commands_on(page):
        command: click.Command = program
        options = options_of(program)
        for word in line.split()[1:]:
            if word.startswith("--"):
                assert word.split("=")[0].strip("`,.") in options | {"--help"}, f"{page.name}: {line}"
            elif isinstance(command, click.Group):
                found = command.get_command(context, word)
                assert found is not None, f"{page.name}: {line}"
                command, options = found, options | options_of(found)


@pytest.mark.parametrize("name", sorted(set(holdfast.__all__) - {"__version__"}))
def test_every_public_name_is_on_some_page(name):
    everything = "".join(page.read_text(encoding="utf-8") for page in EVERYTHING)
    assert re.search(rf"\b{name}\b", everything), f"holdfast.{name} is on no page"


# --- what the examples leave behind


def session_of(text: str, directory: Path) -> None:
    """Runs a page's Python blocks as one program in a directory."""
    source = "\n".join(blocks_of(text, "python"))
    program = (
        "import ast, asyncio, inspect, sys, types\n"
        "code = compile(sys.stdin.read(), 'page', 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)\n"
        "async def main(): await types.FunctionType(code, {'__name__': 'page'})()\n"
        "asyncio.run(main())\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], input=source, text=True, cwd=directory, env=environment(), check=True
    )


def environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def without_ids_and_ages(log: str) -> list[str]:
    lines = [re.sub(r"chk_[0-9a-z]+", "chk_", line) for line in log.strip().splitlines()]
    return [re.sub(r"\s*(\d{4}-[\d-]+T[\d:.]+Z|\d+ \w+ ago)$", "", line) for line in lines]


def test_the_graph_in_the_readme_is_that_of_its_examples(tmp_path):
    text = README.read_text(encoding="utf-8")
    [shown] = [block for block in blocks_of(text, "console") if block.startswith("$ holdfast log\n")]
    session_of(text, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "log"],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), check=True,
    )  # fmt: skip
    assert without_ids_and_ages(shown.split("\n", 1)[1]) == without_ids_and_ages(done.stdout)


def the_storage_of_the_guide() -> type:
    [source] = [block for block in blocks_of(text_of("guide-storage.md"), "python") if "class JsonLines" in block]
    namespace = {"Path": Path}
    exec(source.split("\nmine = ")[0], namespace)
    return namespace["JsonLines"]


@pytest.mark.blocks_the_loop("the storage of the guide reads its file where it is called, as the guide says")
class TestTheStorageOfTheGuide(CheckpointStorageConformance):
    @pytest.fixture
    def storage(self, tmp_path):
        return the_storage_of_the_guide()(tmp_path / "checkpoints.jsonl")
