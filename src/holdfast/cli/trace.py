"""`holdfast trace`: one run, call by call, and where its program stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.cli.runtrace import Step, Trace
    from holdfast.history.records import RlmRestart

_WIDTH: Final = 100
_FIRST, _LAST = 10, 30
_PRINTS_MAX: Final = 6
_INDENT: Final = "      "
_LABEL: Final = 7


@command(
    "trace",
    examples="""
    holdfast trace book
    holdfast trace call_1 --agent trip-1 --full
    """,
)
@click.argument("name", metavar="RUN")
@click.option("--agent", metavar="ID", help="Whose run it is, if several agents have one of this name.")
@click.option("--full", is_flag=True, help="Every call and every value, nothing shortened.")
def trace_command(invocation: Invocation, *, name: str, agent: str | None, full: bool) -> None:
    """Show where a run stands, with all that it did.

    In the program `>` is where it stands, and `!` where it failed. Below, in order: `#3` is the third tool call, `=`
    what it returned, `!` what it raised, `|` what the program had printed before it.
    """
    run(_trace(invocation, name, agent, full=full))


async def _trace(invocation: Invocation, name: str, agent: str | None, *, full: bool) -> None:
    from holdfast.cli.naming import known_agent
    from holdfast.cli.opening import reading, sqlite_path
    from holdfast.cli.output import say, say_json
    from holdfast.cli.runfacts import facts_of, log_of, records_of
    from holdfast.cli.runnames import named_run
    from holdfast.cli.runtrace import Trace

    sqlite_path(invocation, "keep runs")
    async with reading(invocation) as manager:
        if agent is not None:
            await known_agent(manager, agent)
        place = await named_run(manager.store, name, agent)
        pending = await manager.store.pending("run", agent_id=place.agent_id)
        records = await records_of(manager.store, place)
        facts = await facts_of(manager.store, place, pending)
    trace = Trace.of(facts, records, log_of(records))
    if invocation.json:
        say_json(trace.plain())
        return
    for line in _lines(trace, full=full):
        say(line)


def _lines(trace: Trace, *, full: bool) -> Iterator[str]:
    from holdfast.cli.output import width
    from holdfast.cli.programtext import drawn

    room = None if full else min(width() or _WIDTH, _WIDTH)
    yield from _head(trace, room)
    yield ""
    yield from drawn(trace.log.start.code, trace.marks(), room)
    if trace.happened:
        yield ""
    for one in _shortened(trace.happened) if not full else trace.happened:
        yield from _happened(one, room)
    yield from _end(trace, room)


def _head(trace: Trace, room: int | None) -> Iterator[str]:
    from holdfast.cli.output import age, counted, cut, styled
    from holdfast.history.preview import escape

    facts = trace.facts
    origin = facts.start.forked_from
    told = {
        "run": f"{facts.place.name} of agent {facts.place.agent_id}",
        "session": facts.place.session,
        "begun": age(facts.begun) if facts.begun else None,
        "state": f"{facts.state}, {counted(facts.calls, 'call')}",
        "forked": None if origin is None else _origin(origin),
        "parked": None if trace.log.complete is not None else trace.log.parked,
    }
    for name, text in told.items():
        if text:
            left = None if room is None or name == "parked" else room - _LABEL - 2
            yield f"{styled(name.ljust(_LABEL), dim=True)}  {cut(escape(text), left)}"


def _origin(origin: dict[str, Any]) -> str:
    return f"from run {origin.get('toolCallId')} of agent {origin.get('agentId')}, at its call #{origin.get('at')}"


def _shortened(happened: Sequence[Step | RlmRestart]) -> Iterator[Step | RlmRestart | int]:
    """Its beginning and its end, with the number of those left out between."""
    if len(happened) <= _FIRST + _LAST + 1:
        yield from happened
        return
    yield from happened[:_FIRST]
    yield len(happened) - _FIRST - _LAST
    yield from happened[-_LAST:]


def _happened(one: Step | RlmRestart | int, room: int | None) -> Iterator[str]:
    from holdfast.cli.output import cut, styled
    from holdfast.history.preview import escape
    from holdfast.history.records import RlmRestart

    if isinstance(one, int):
        yield styled(f"{_INDENT}… {one:,} more; --full shows them all", dim=True)
    elif isinstance(one, RlmRestart):
        told = "the process was restarted" if one.reason is None else f"parked: {escape(one.reason)}"
        yield cut(f"--    {told}", room)
    else:
        yield from _printed("" if one.again else one.call.first.print_output, room)
        yield _called(one, room)
        yield from _answered(one, room)


def _called(step: Step, room: int | None) -> str:
    from holdfast.cli.calls import called
    from holdfast.cli.output import cut

    first = step.call.first
    number = "" if step.call.is_sleep else f"#{first.tool_call_count}"
    notes = [
        f"line {first.line}" if first.line is not None else "",
        f"attempt {step.attempt}" if step.attempt > 1 else "",
        "snapshot" if step.call.snapshot and not step.again else "",
    ]
    told = ", ".join(note for note in notes if note)
    left = None if room is None else max(room - len(_INDENT) - len(told) - 2, 20)
    return cut(f"{number:<5} {called(first.tool_name, first.tool_args, left)}  {told}".rstrip(), room)


def _answered(step: Step, room: int | None) -> Iterator[str]:
    from holdfast.cli.calls import raised, returned

    left = None if room is None else room - len(_INDENT) - 2
    answer = step.call.answer if step.answered else None
    if answer is None:
        yield f"{_INDENT}… no answer is recorded"
    elif answer.tool_is_error:
        yield f"{_INDENT}! {raised(answer.tool_result, left)}"
    elif not step.call.is_sleep:
        yield f"{_INDENT}= {returned(answer.tool_result, left)}"


def _printed(text: str, room: int | None) -> Iterator[str]:
    from holdfast.cli.output import cut
    from holdfast.history.preview import escape

    lines = text.removesuffix("\n").split("\n") if text else []
    shown = lines if room is None or len(lines) <= _PRINTS_MAX + 1 else lines[:_PRINTS_MAX]
    for line in shown:
        yield cut(f"{_INDENT}| {escape(line.expandtabs())}", room)
    if len(shown) < len(lines):
        yield f"{_INDENT}| … {len(lines) - len(shown):,} more lines; --full shows them all"


def _end(trace: Trace, room: int | None) -> Iterator[str]:
    from holdfast.cli.calls import returned
    from holdfast.cli.output import cut
    from holdfast.history.preview import escape

    yield from _printed(trace.printed_since(), room)
    complete = trace.log.complete
    if complete is None:
        return
    yield ""
    if complete.is_error:
        yield "ended with an error"
        for line in (complete.error or "").rstrip("\n").split("\n"):
            yield cut(f"{_INDENT}{escape(line)}", room)
    else:
        yield "ended well"
        if complete.output is not None:
            yield f"{_INDENT}= {returned(complete.output, None if room is None else room - len(_INDENT) - 2)}"
