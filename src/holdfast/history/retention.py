"""Which checkpoints a policy retires: pure plans, carried out by somebody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidArgument
from holdfast.history.checkpoint import Kind

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

LIMITED: Final = (Kind.AUTO, Kind.MANUAL, Kind.WORKFLOW)
"""The kinds that fall under the per-user and the total limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """How long checkpoints live. A limit of None never retires anything.

    `pre_operation` checkpoints live until their operation completes; no policy removes a pinned checkpoint or
    the newest one of an agent, so the limits are soft.
    """

    routine_per_agent: int | None = 3
    recovery_days: float | None = 7
    per_user: int | None = None
    total: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """One checkpoint that a plan retires, and why."""

    checkpoint_id: str
    agent_id: str
    user_id: str
    reason: str


def plan(
    checkpoints: Iterable[Checkpoint], policy: Policy, *, now: datetime, newest: Mapping[str, str] | None = None
) -> list[Removal]:
    """What the policy retires of these checkpoints, which must come newest first.

    `newest` names each agent's newest checkpoint; it may be left out when all checkpoints are given.
    """
    listed = list(checkpoints)
    newest = newest_of(listed) if newest is None else newest
    seen: Counter[tuple[str, str]] = Counter()
    removals = []
    for checkpoint in listed:
        reason = _reason(checkpoint, policy, now, seen)
        if reason and not protected(checkpoint, newest):
            removals.append(removal(checkpoint, reason))
    return removals


def beyond_limit(beyond: Iterable[Checkpoint], newest: Mapping[str, str], reason: str) -> list[Removal]:
    """What may go of the checkpoints that lie beyond a limit already."""
    return [removal(checkpoint, reason) for checkpoint in beyond if not protected(checkpoint, newest)]


def days_before(now: datetime, days: float) -> datetime:
    """The moment so many days ago; the first of all moments when there are not so many."""
    if not days >= 0:
        raise InvalidArgument(f"{days!r} is no number of days", hint="A limit in days is a number from 0 on.")
    try:
        return now - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def older_than(checkpoints: Iterable[Checkpoint], moment: datetime, newest: Mapping[str, str]) -> list[Removal]:
    """What was made before a moment and is not protected."""
    return [
        removal(checkpoint, f"older than {moment:%Y-%m-%d %H:%M}")
        for checkpoint in checkpoints
        if checkpoint.timestamp < moment and checkpoint.kind != Kind.PRE_OPERATION and not protected(checkpoint, newest)
    ]


def newest_of(checkpoints: Iterable[Checkpoint]) -> dict[str, str]:
    """The newest checkpoint of each agent, of checkpoints that come newest first."""
    newest: dict[str, str] = {}
    for checkpoint in checkpoints:
        newest.setdefault(checkpoint.agent_id, checkpoint.id)
    return newest


def protected(checkpoint: Checkpoint, newest: Mapping[str, str]) -> bool:
    return checkpoint.pinned or newest.get(checkpoint.agent_id) == checkpoint.id


def removal(checkpoint: Checkpoint, reason: str) -> Removal:
    return Removal(checkpoint_id=checkpoint.id, agent_id=checkpoint.agent_id, user_id=checkpoint.user_id, reason=reason)


def _reason(checkpoint: Checkpoint, policy: Policy, now: datetime, seen: Counter[tuple[str, str]]) -> str | None:
    """Why the policy wants this checkpoint gone, counting it under the limits that it falls under."""
    if checkpoint.kind == Kind.ROUTINE:
        return _over(seen, ("routine", checkpoint.agent_id), policy.routine_per_agent, "routine checkpoints per agent")
    if checkpoint.kind == Kind.RECOVERY:
        if policy.recovery_days is not None and checkpoint.timestamp < days_before(now, policy.recovery_days):
            return f"recovery checkpoint older than {policy.recovery_days:g} days"
        return None
    if checkpoint.kind not in LIMITED:
        return None
    per_user = _over(seen, ("user", checkpoint.user_id), policy.per_user, "checkpoints per user")
    return per_user or _over(seen, ("total", ""), policy.total, "checkpoints in all")


def _over(seen: Counter[tuple[str, str]], group: tuple[str, str], limit: int | None, what: str) -> str | None:
    seen[group] += 1
    return f"limit of {limit} {what}" if limit is not None and seen[group] > limit else None
