"""`holdfast gc`: retiring old checkpoints, and giving back the space of deleted ones."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.command import Invocation, command, run

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.retention import Removal


@command(
    "gc",
    examples="""
    holdfast gc --dry-run
    holdfast gc --older-than 90 --per-user 100
    """,
)
@click.option("--dry-run", is_flag=True, help="Show what would be retired and why; write nothing.")
@click.option("--older-than", metavar="DAYS", type=click.FloatRange(0), help="Retire what is older than this.")
@click.option(
    "--per-user", metavar="N", type=click.IntRange(1), help="Keep so many manual, auto and workflow ones per user."
)
@click.option(
    "--routine",
    metavar="N",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Keep so many routine ones per agent.",
)
@click.option(
    "--recovery-days",
    metavar="DAYS",
    type=click.FloatRange(0),
    default=7,
    show_default=True,
    help="Keep recovery ones so long.",
)
def gc_command(invocation: Invocation, **options: Any) -> None:
    """Retire old checkpoints, and give back the space.

    Never touched: pinned checkpoints, an agent's newest, and those of operations under way. Works on a full disk.
    """
    run(_gc(invocation, **options))


async def _gc(
    invocation: Invocation, *, dry_run: bool, older_than: float | None, per_user: int | None, routine: int,
    recovery_days: float,
) -> None:  # fmt: skip
    from holdfast.cli.opening import reading, writing
    from holdfast.cli.output import counted, progress, say, say_json, size
    from holdfast.history.retention import Policy, days_before

    policy = Policy(routine_per_agent=routine, recovery_days=recovery_days, per_user=per_user)
    moment = None if older_than is None else days_before(datetime.now(UTC), older_than)
    async with (reading if dry_run else writing)(invocation, retention=policy) as manager:
        plan = await _plan(manager, moment)
        done: dict[str, int] = {}
        if not dry_run:
            retired = await manager.retirement.carry_out(plan)
            done = {"retired": retired, **await manager.store.collect_garbage(progress())}
    if invocation.json:
        say_json({"dry_run": dry_run, "plan": [asdict(removal) for removal in plan], "done": done or None})
        return
    for removal in plan:
        _tell(removal)
    if dry_run:
        say(f"{counted(len(plan), 'checkpoint')} would be retired" if plan else "Nothing would be retired")
    else:
        freed = f", {size(done['bytes'])} given back" if done.get("bytes") else ""
        say(f"{counted(done['retired'], 'checkpoint')} retired{freed}")


async def _plan(manager: CheckpointManager, moment: datetime | None) -> list[Removal]:
    """Both plans as one; the policy's reason counts where both have one."""
    older = [] if moment is None else await manager.retirement.plan_older(moment)
    both = {removal.checkpoint_id: removal for removal in (*older, *await manager.plan_retirement())}
    return list(both.values())


def _tell(removal: Removal) -> None:
    from holdfast.cli.output import say
    from holdfast.history.preview import escape

    say(escape(f"{removal.checkpoint_id}  {removal.agent_id}: {removal.reason}"))
