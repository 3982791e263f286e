"""`holdfast drift`: what went astray in recorded runs, and weights learned from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from holdfast.cli.command import Group, Invocation, command, epilog, run, shared_options
from holdfast.errors import InvalidArgument, InvalidImport, Unopenable

if TYPE_CHECKING:
    from holdfast.drift.combination import Combination
    from holdfast.drift.detector import DriftDetector
    from holdfast.drift.protocol import Drift
    from holdfast.drift.recording import RecordedRun

_LINE_BYTES_MAX: Final = 64 << 20

_HELP = """Tell from what agents did where they went astray.

FILES have JSON lines: events with an `action`, or the records of `holdfast export`; - reads stdin. With --agent, the
tool calls in an agent's history are looked at instead. The page docs/guide-drift.md has the format.
"""


class _DriftGroup(Group):
    """A group in which what is no command is a file: `holdfast drift FILE` stands for `holdfast drift check FILE`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or check_command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        named = args[0] in self.commands
        return ("check", check_command, args) if not named else (args[0], self.commands[args[0]], args[1:])


@command("check", examples="holdfast drift runs.jsonl\nholdfast drift check --agent trip-1 --off latency")
@click.argument("files", nargs=-1, metavar="FILES…", type=click.Path(allow_dash=True))
@click.option("--agent", metavar="ID", help="The history of this agent in the store.")
@click.option("--off", multiple=True, metavar="KIND", help="Leave out a signal; may be given several times.")
@click.option("--normal", is_flag=True, help="Learn what repeating is normal, and excuse it.")
@click.option("--weights", metavar="FILE", help="Judge by the weights that `holdfast drift train` wrote.")
@click.option("--plot", metavar="FILE", help="Also draw the signals over the events; needs holdfast[plot].")
def check_command(
    invocation: Invocation,
    *,
    files: tuple[str, ...],
    agent: str | None,
    off: tuple[str, ...],
    normal: bool,
    weights: str | None,
    plot: str | None,
) -> None:
    """Tell where runs went astray, event by event."""
    from holdfast.cli.output import counted, say, say_json
    from holdfast.history.preview import escape

    if bool(files) == bool(agent):
        raise click.UsageError("Give FILES, or an agent with --agent")
    runs = [one for file in files for one in _read(file)] or run(_history(invocation, str(agent)))
    combination = None if weights is None else _weights(Path(weights))
    told = [_told(one, lambda: _detector(off, combination, normal=normal)) for one in runs]
    if plot is not None:
        from holdfast.cli.driftplot import draw

        draw([(one.name, levels, drifts) for one, drifts, levels in told], Path(plot))
    if invocation.json:
        say_json([_plain(one, drifts) for one, drifts, _ in told])
        return
    for one, drifts, _ in told:
        for number, drift in drifts:
            say(escape(f"{one.name or 'run'}  event {number} of {len(one.events)}  {drift.kind}  {drift.reason}"))
            say(escape(f"  evidence: {_evidence(drift)}"))
    drifting = sum(bool(drifts) for _, drifts, _ in told)
    events = sum(len(one.events) for one in runs)
    say(f"{counted(len(runs), 'run')}, {counted(events, 'event')}: {drifting or 'none'} of the runs went astray")


@command("train", examples="holdfast drift train good-runs.jsonl -o weights.json")
@click.argument("files", nargs=-1, required=True, metavar="FILES…", type=click.Path(allow_dash=True))
@click.option("-o", "--output", metavar="FILE", help="Where to write the weights; else to stdout.")
@click.option("--loops", default=600, show_default=True, help="How many loops and look-alikes are put into the runs.")
@click.option("--seed", default=1, show_default=True, help="The same seed, the same weights.")
def train_command(
    _invocation: Invocation, *, files: tuple[str, ...], output: str | None, loops: int, seed: int
) -> None:
    """Learn how much each signal says, from runs that went well.

    Loops, and healthy work that looks like loops, are put into the runs. Runs that failed are left out, if it is known.
    """
    import random

    from holdfast.cli.output import json_text, say
    from holdfast.drift.forms import FORMS
    from holdfast.drift.training import learned

    runs = [one.events for file in files for one in _read(file) if one.events and one.success is not False]
    if not runs:
        raise InvalidArgument("There is no run to learn from", hint="It takes runs that went well; ten are few.")
    text = json_text(learned(runs, FORMS, random.Random(seed), loops).to_dict(), indent=2)  # noqa: S311 - no secret
    if output is None:
        say(text)
    else:
        Path(output).write_text(f"{text}\n", encoding="utf-8")


drift_command = _DriftGroup(
    "drift",
    help=_HELP,
    epilog=epilog(
        """
        holdfast drift runs.jsonl
        holdfast drift --agent trip-1 --plot drift.png
        holdfast drift train good-runs.jsonl -o weights.json
        """
    ),
    params=[*shared_options()],
    no_args_is_help=False,  # the help would be told as an error, on one line
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
drift_command.add_command(check_command)
drift_command.add_command(train_command)


def _read(file: str) -> list[RecordedRun]:
    from holdfast.drift.recording import runs_in

    try:
        with click.open_file(file, "rb") as opened:
            runs = runs_in(_lines_of(opened, file))
    except OSError as error:
        raise Unopenable(f"{file} can't be read: {error.strerror}", path=file) from error
    for one in runs:
        one.name = one.name or Path(file).stem
    return runs


def _lines_of(opened: IO[bytes], file: str) -> Iterator[bytes]:
    number = 0
    while line := opened.readline(_LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > _LINE_BYTES_MAX:  # a device, or something else that has no lines
            raise InvalidImport(f"Line {number} of {file} has more than {_LINE_BYTES_MAX:,} bytes", line=number)
        yield line


async def _history(invocation: Invocation, agent: str) -> list[RecordedRun]:
    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading
    from holdfast.drift.recording import runs_in
    from holdfast.durable.transfer import export_lines

    async with reading(invocation) as manager:
        await known_agent(manager, agent)
        runs = runs_in(await export_lines(manager.store, agent, snapshots="none"))
    for one in runs:
        one.name = agent
    return runs


def _weights(path: Path) -> Combination:
    from holdfast.drift.combination import Combination

    try:
        with path.open("rb") as file:
            plain = json.loads(file.read(_LINE_BYTES_MAX))
    except OSError as error:
        raise Unopenable(f"{path} can't be read: {error.strerror}", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is no JSON: {error}", path=str(path)) from error
    return Combination.from_dict(plain)


def _detector(off: tuple[str, ...], combination: Combination | None, *, normal: bool) -> DriftDetector:
    from holdfast.drift.detector import DriftDetector
    from holdfast.drift.normal import Normal

    signals: dict[str, Any] = dict.fromkeys(off)
    return DriftDetector(normal=Normal() if normal else None, combination=combination, **signals)


Told = tuple["RecordedRun", list[tuple[int, "Drift"]], list[dict[str, float]]]
"""A run with what was news in it, by the event's number, and the levels of all signals after each event."""


def _told(one: RecordedRun, make: Any) -> Told:
    detector: DriftDetector = make()
    drifts, levels = [], []
    for number, event in enumerate(one.events, start=1):
        drift = detector.observe(event)
        levels.append(detector.levels)
        if drift is not None and not drift.ongoing:
            drifts.append((number, drift))
    return one, drifts, levels


def _plain(one: RecordedRun, drifts: list[tuple[int, Drift]]) -> dict[str, Any]:
    alarms = [
        {
            "event": number,
            "kind": drift.kind,
            "score": round(drift.score, 3),
            "reason": drift.reason,
            "evidence": dict(drift.evidence),
        }
        for number, drift in drifts
    ]
    return {"run": one.name, "events": len(one.events), "alarms": alarms}


def _evidence(drift: Drift) -> str:
    told = []
    for name, value in drift.evidence.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        told.append(f"{name} {text}")
    return "; ".join(told)
