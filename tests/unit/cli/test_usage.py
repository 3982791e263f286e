"""How the command line is used: its help, its mistakes, its exit codes, and the pipes it is part of."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from holdfast import errors
from holdfast.cli import failures
from holdfast.cli.app import program
from holdfast.cli.command import Invocation
from holdfast.version import __version__

pytestmark = pytest.mark.blocks_the_loop("a command has the loop to itself")

DOCS = Path(__file__).parents[3] / "docs" / "cli.md"


def commands() -> dict[str, click.Command]:
    """Every command by its full name."""
    ctx = click.Context(program)
    found: dict[str, click.Command] = {}
    for name in program.list_commands(ctx):
        command = program.get_command(ctx, name)
        inner = getattr(command, "commands", {})
        found |= {f"{name} {part}": one for part, one in inner.items()} or {name: command}
    return found


def child(*arguments: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_version(holdfast):
    assert holdfast("--version").out == f"holdfast {__version__}\n"


def test_help_lists_every_command_uncut_and_the_exit_codes(holdfast, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = holdfast("--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == holdfast().out == holdfast("-h").out
    for name in program.list_commands(click.Context(program)):
        assert re.search(rf"^  {name} +\w.*[^.]\.?$", ran.out, re.MULTILINE), name
    assert "..." not in ran.out.split("Commands:")[1]
    for code in ("0", "1", "2", "3", "4", "5", "6", "130"):
        assert re.search(rf"^    {code} +\w", ran.out, re.MULTILINE)


@pytest.mark.parametrize("name", commands())
def test_every_command_has_an_example_that_is_understood(holdfast, name):
    help_ = holdfast(*name.split(), "--help").out
    assert re.search("Examples?:", help_)
    lines = re.split("Examples?:", help_)[1].strip().splitlines()
    calls = [part for line in lines for part in re.split(r"\||&&|;|\$\(|\)", line) if "holdfast " in part]
    assert any(f"holdfast {name}" in call or f" {name.split()[0]} " in call for call in calls)
    for call in calls:
        words = shlex.split(call)
        ctx = click.Context(program, info_name="holdfast", obj=Invocation())
        _, rest, _ = program.make_parser(ctx).parse_args(words[words.index("holdfast") + 1 :])
        _, command, arguments = program.resolve_command(ctx, rest)
        command.make_context(command.name, arguments, parent=ctx)


@pytest.mark.parametrize("name", commands())
def test_every_command_and_option_is_in_the_docs(name):
    section = re.search(rf"^## `holdfast {name}[` ].*?(?=^## |\Z)", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"docs/cli.md has no section on holdfast {name}"
    for param in commands()[name].params:
        if isinstance(param, click.Option) and param.name not in ("store", "json"):
            assert f"`{param.opts[-1]}" in section[0], param.opts
    assert "--json" in DOCS.read_text()


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["lgo"], "log"), (["veryfi"], "verify"), (["log", "--agnet", "x"], "--agent"), (["key", "shwo"], "show"),
        (["list", "--kind", "rutine"], "routine"), (["--stor", "x", "log"], "--store"), (["show"], "show --help"),
        (["log", "extra"], "log --help"), (["nonsense-entirely"], "holdfast --help"),
    ],
)  # fmt: skip
def test_what_is_mistyped_is_answered_with_the_near_one(holdfast, arguments, near):
    ran = holdfast(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(r"error: .+\nhint: .+\n", ran.err)
    assert near in ran.err


@pytest.mark.parametrize("name", commands())
def test_a_missing_store_is_one_error_and_makes_nothing(holdfast, tmp_path, name):
    needed = {"import": None, "demo": None, "restore-backup": None, "show": ["x"], "diff": ["x"], "pin": ["x"],
              "unpin": ["x"], "export": ["x"], "backup": ["x"], "run": None, "trace": ["x"],
              "resume": ["--tools", "x.py"], "fork": ["x", "--at", "1", "--result", "1"],
              "drift check": ["--agent", "x"], "drift train": None,
              "workflow run": None, "workflow check": None, "workflow show": None}  # fmt: skip
    arguments = needed.get(name, [])
    if arguments is None:
        return  # these need no store
    ran = holdfast(*name.split(), *arguments)
    assert (ran.code, ran.out) == (4, "")
    assert re.fullmatch(r"error: There is no store at .+\nhint: .+\n", ran.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", ["memory:", "memory://", "postgresql://x/y", "/dev/null", "/etc/passwd", "."])
def test_what_is_no_store_that_can_be_opened_ends_with_4_or_is_empty(holdfast, store):
    ran = holdfast("log", "--store", store)
    assert (ran.code, ran.err) == (0, "") if store == "." else ran.code == 4


def test_the_store_is_named_before_the_command_or_after_it_or_by_the_environment(holdfast, ids, monkeypatch, tmp_path):
    expected = holdfast("log").out
    Path("checkpoints.db").rename("s.db")
    Path("checkpoints.db.key").rename("s.db.key")
    for arguments in (
        ["--store", "s.db", "log"], ["log", "--store", "s.db"], ["log", "--store=sqlite:///s.db"],
        ["--store", "nonesuch", "log", "--store", f"sqlite:///{tmp_path}/s.db"],
    ):  # fmt: skip
        assert holdfast(*arguments).out == expected
    monkeypatch.setenv("HOLDFAST_STORE", "s.db")
    assert holdfast("log").out == expected
    assert holdfast("--store", "nonesuch", "log").code == 4
    assert holdfast("--json", "log").out == holdfast("log", "--json").out
    assert holdfast("key", "--store", "s.db", "show").out == holdfast("--store", "s.db", "key", "show").out


def test_nothing_heavy_is_imported_for_help_and_nothing_of_the_terminals_by_the_library():
    code = "import sys; {}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    help_ = "from holdfast.cli.app import main; main(['--help'])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", code.format(help_)], capture_output=True, text=True, env=env, check=True
    )
    imported = set(told.stdout.splitlines()[-1].split())
    assert "click" in imported
    assert not imported & {"asyncio", "apsw", "ormsgpack", "rich", "typer", "pydantic", "pydantic_monty"}
    told = subprocess.run(
        [sys.executable, "-c", code.format("import holdfast")], capture_output=True, text=True, env=env, check=True
    )
    assert not set(told.stdout.split()) & {"asyncio", "apsw", "click"}


def test_colour_is_for_terminals_whose_owner_wants_it(holdfast, ids, monkeypatch):
    from holdfast.cli import output

    assert "\x1b" not in holdfast("log").out
    monkeypatch.setattr(output, "at_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33m" in holdfast("log").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in holdfast("log").out


def test_a_reader_that_has_seen_enough_is_no_error(ids, tmp_path):
    lines = "\n".join(
        f'{{"type":"user_message","seq":{n},"at":"2026-03-01T12:00:00Z","content":"{"x" * 500}"}}'
        for n in range(1, 500)
    )
    (tmp_path / "in.jsonl").write_text(lines)
    assert subprocess.run(
        [sys.executable, "-m", "holdfast", "import", "in.jsonl", "--agent", "long"], cwd=tmp_path, check=True
    )
    exporting = child("export", "long", cwd=tmp_path)
    assert exporting.stdout.readline().startswith('{"type"')
    exporting.stdout.close()
    with exporting.stderr:
        assert exporting.stderr.read() == ""
    assert exporting.wait() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_output_that_cannot_be_written_ends_with_5(ids, tmp_path):
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "holdfast", "log"],
            check=False, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (5, "error: No space left on device\n")


def test_ctrl_c_ends_with_130_and_no_traceback(tmp_path):
    demo = child("demo", cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})
    demo.stdout.readline()
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=15)
    assert (demo.returncode, err.strip()) == (130, "error: stopped")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UnknownCheckpoint, 1), (errors.OwnedElsewhere, 1), (errors.InvalidImport, 1), (errors.Corrupt, 3),
        (errors.Unopenable, 4), (errors.WrongKey, 4), (errors.KeyMissing, 4), (errors.ReadOnly, 4),
        (errors.DiskFull, 5), (errors.Poisoned, 5), (errors.StorageFailed, 5),
    ],
)  # fmt: skip
def test_every_kind_of_error_has_its_exit_code(capsys, error, code):
    assert failures.tell(error("It went\nwrong", hint="Do\x1bthis")) == code
    assert capsys.readouterr().err == "error: It went\\nwrong\nhint: Do\\x1bthis\n"


def test_ages_are_in_whole_units():
    from datetime import UTC, datetime, timedelta

    from holdfast.cli.output import ago, size

    now = datetime(2026, 3, 1, tzinfo=UTC)
    told = [ago(now - timedelta(seconds=seconds), now) for seconds in (0, 59, 60, 7_199, 86_400 * 3, -90)]
    assert told == ["now", "59 s ago", "1 min ago", "1 h ago", "3 d ago", "in 1 min"]
    assert [size(count) for count in (1, 1_024, 5_000_000)] == ["1 bytes", "1.0 KB", "4.8 MB"]
