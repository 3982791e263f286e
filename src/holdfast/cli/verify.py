"""`holdfast verify`: whether everything that was stored is as it was written."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict

import click

from holdfast.cli.command import Invocation, command, run


@command(
    "verify",
    examples="""
    holdfast verify && echo all is well
    holdfast verify --anchor /media/stick/checkpoints.anchor
    """,
)
@click.option(
    "--anchor",
    metavar="FILE",
    help="Remembers how far the store is, and tells an older copy from then on. Keep it where the store is not.",
)
def verify_command(invocation: Invocation, anchor: str | None) -> int:
    """Check everything in the store, and name what is damaged.

    All is read and authenticated, nothing is changed, and what is whole stays usable. Ends with code 3 when something
    is damaged.
    """
    return run(_verify(invocation, anchor))


async def _verify(invocation: Invocation, anchor: str | None) -> int:
    from holdfast.cli.failures import DAMAGED
    from holdfast.cli.opening import reading
    from holdfast.cli.output import counted, progress, say, say_json, styled
    from holdfast.history.preview import escape

    async with reading(invocation, anchor=anchor) as manager:
        report = await manager.verify(progress())
    with suppress(BrokenPipeError):  # the exit code is the answer, whether anybody reads the rest or not
        if invocation.json:
            say_json(
                {
                    "ok": report.ok,
                    "checkpoints": report.checkpoints,
                    "records": report.records,
                    "damaged": [asdict(damage) for damage in report.damaged],
                    "whole": list(report.whole),
                }
            )
        else:
            for damage in report.damaged:
                place = f" of agent {damage.agent_id}" if damage.agent_id else ""
                number = f" #{damage.seq}" if damage.seq is not None else ""
                told = f"{damage.kind} {damage.id}{place}{number}: {damage.reason}"
                say(f"{styled('damaged', fg='red')}: {escape(told)}")
            told = f"{counted(report.checkpoints, 'checkpoint')} and {counted(report.records, 'record')} read"
            if report.ok:
                say(f"{styled('ok', fg='green')}: {told}, nothing is damaged")
            else:
                say(
                    f"{told}: {counted(len(report.damaged), 'damaged thing')}, "
                    f"{counted(len(report.whole), 'checkpoint')} still whole (--json lists them)"
                )
    return 0 if report.ok else DAMAGED
