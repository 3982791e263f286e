"""`holdfast show`: one checkpoint with its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

_FIRST, _LAST = 2, 6
_WIDTH: Final = 100


@command(
    "show",
    examples="""
    holdfast show chk_01ka3f
    holdfast show trip-1@latest --full
    holdfast show trip-1~2 --state | jq .messages
    """,
)
@click.argument("checkpoint", metavar="ID")
@click.option("--full", is_flag=True, help="The whole state, nothing shortened.")
@click.option("--state", "only_state", is_flag=True, help="The state alone, in JSON.")
def show_command(invocation: Invocation, *, checkpoint: str, full: bool, only_state: bool) -> None:
    """Show a checkpoint: what it is, and the state it holds.

    ID may be the beginning of an id (from 4 characters after chk_ on), AGENT@latest, or AGENT~2 for the second
    before the agent's newest.
    """
    run(_show(invocation, checkpoint, full=full, only_state=only_state))


async def _show(invocation: Invocation, name: str, *, full: bool, only_state: bool) -> None:
    from holdfast.cli.naming import named
    from holdfast.cli.opening import reading
    from holdfast.cli.output import say, say_json
    from holdfast.history.jsonform import to_json

    async with reading(invocation) as manager:
        checkpoint = await manager.load(await named(manager, name))
    if only_state:
        say_json(to_json(checkpoint.state))
    elif invocation.json:
        say_json(checkpoint.to_dict())
    else:
        _head(checkpoint)
        say()
        for line in _full(checkpoint.state) if full else _shortened(checkpoint.state or {}):
            say(line)


def _head(checkpoint: Checkpoint) -> None:
    from holdfast.cli.output import say, styled
    from holdfast.history.preview import escape, preview

    say(styled(escape(checkpoint.id), fg="yellow") + (styled("  pinned", bold=True) if checkpoint.pinned else ""))
    facts = {
        "agent": f"{checkpoint.agent_id} ({checkpoint.agent_type})" if checkpoint.agent_type else checkpoint.agent_id,
        "user": checkpoint.user_id,
        "kind": f"{checkpoint.kind} of operation {checkpoint.operation}" if checkpoint.operation else checkpoint.kind,
        "status": checkpoint.status,
        "saved": _saved(checkpoint),
        "position": f"#{checkpoint.position}",
        "parent": checkpoint.parent_checkpoint_id or "none, it is the first",
        "group": checkpoint.group_id,
        "summary": checkpoint.context_summary,
        "collected": preview(checkpoint.collected_fields, _WIDTH) if checkpoint.collected_fields else "",
        "required": preview(checkpoint.required_fields, _WIDTH) if checkpoint.required_fields else "",
        "metadata": preview(checkpoint.metadata, _WIDTH) if checkpoint.metadata else "",
    }
    for name, fact in facts.items():
        if fact:
            say(f"{styled(f'{name:<9}', dim=True)}  {escape(str(fact))}")


def _saved(checkpoint: Checkpoint) -> str:
    from holdfast.cli.output import ago, at_terminal, moment

    exact = moment(checkpoint.timestamp)
    return f"{exact} ({ago(checkpoint.timestamp)})" if at_terminal() else exact


def _full(state: Any) -> Iterator[str]:
    from holdfast.cli.output import json_text
    from holdfast.history.jsonform import to_json

    yield from json_text(to_json(state), indent=2).split("\n")


def _shortened(state: dict[str, Any]) -> Iterator[str]:
    """A line for each part of the state; of a list of messages or other objects, its first and last ones."""
    from holdfast.cli.output import counted, styled
    from holdfast.history.messages import message_text
    from holdfast.history.preview import escape, preview

    for key, value in state.items():
        label = escape(str(key))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            speaking = all(message_text(element, _WIDTH) for element in value[:_FIRST])
            yield f"{label}: {styled(counted(len(value), 'message' if speaking else 'element'), dim=True)}"
            for number in _ends(len(value)):
                if number is None:
                    yield styled(f"  … {len(value) - _FIRST - _LAST:,} more; --full shows them all", dim=True)
                    continue
                text = message_text(value[number], _WIDTH - 8) or preview(value[number], _WIDTH - 8)
                yield f"  [{number}] {text}"
        else:
            yield f"{label}: {preview(value, _WIDTH - len(label) - 2)}"


def _ends(length: int) -> list[int | None]:
    """The first and last indexes, with None for those left out."""
    if length <= _FIRST + _LAST + 1:
        return list(range(length))
    return [*range(_FIRST), None, *range(length - _LAST, length)]
