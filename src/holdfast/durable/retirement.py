"""Retirement: which checkpoints go when one is saved, and a whole clean-up, carried out in small commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.history.checkpoint import Kind
from holdfast.history.retention import LIMITED, Policy, Removal, beyond_limit, newest_of, older_than, plan
from holdfast.storage.protocol import Change, Query

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import Store

_AT_ONCE = 16  # what one save may retire beyond what it adds: a lowered limit is reached step by step
_EXACT_BELOW = 1000  # limits up to this hold after every save; counting past more is done less often
_CHANGES_PER_COMMIT = 100


class Retirement:
    """Applies a policy to a store."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self.store = store
        self.policy = policy
        self._saves: Counter[str] = Counter()

    # --- with a save

    async def with_save(self, draft: Checkpoint, now: datetime) -> list[Removal]:
        """What is to be retired in the same commit that saves this checkpoint, which becomes its agent's newest."""
        policy = self.policy
        if draft.kind == Kind.ROUTINE and policy.routine_per_agent is not None:
            return await self._beyond(
                Query(agent_id=draft.agent_id, kinds=(Kind.ROUTINE,), offset=max(0, policy.routine_per_agent - 1)),
                draft,
                f"limit of {policy.routine_per_agent} routine checkpoints per agent",
            )
        if draft.kind == Kind.RECOVERY and policy.recovery_days is not None:
            kept = await self.store.list(Query(agent_id=draft.agent_id, kinds=(Kind.RECOVERY,), limit=_AT_ONCE))
            return plan(kept, policy, now=now, newest={})
        if draft.kind not in LIMITED:
            return []
        removals = []
        if policy.per_user is not None and self._is_due(policy.per_user, draft.user_id):
            removals = await self._beyond(
                Query(user_id=draft.user_id, kinds=LIMITED, offset=max(0, policy.per_user - 1)),
                draft,
                f"limit of {policy.per_user} checkpoints per user",
            )
        if policy.total is not None and self._is_due(policy.total, ""):
            removals += await self._beyond(
                Query(kinds=LIMITED, offset=max(0, policy.total - 1)),
                draft,
                f"limit of {policy.total} checkpoints in all",
            )
        return list({removal.checkpoint_id: removal for removal in removals}.values())

    def _is_due(self, limit: int, scope: str) -> bool:
        """Whether a limit is looked at with this save."""
        self._saves[scope] += 1
        return self._saves[scope] % max(1, limit // _EXACT_BELOW) == 0

    async def _beyond(self, query: Query, draft: Checkpoint, reason: str) -> list[Removal]:
        beyond = await self.store.list(replace(query, limit=_AT_ONCE))
        newest = await self._newest({checkpoint.agent_id for checkpoint in beyond} - {draft.agent_id})
        return beyond_limit(beyond, newest, reason)

    async def _newest(self, agent_ids: Iterable[str]) -> dict[str, str]:
        newest: dict[str, str] = {}
        for agent_id in agent_ids:
            newest |= newest_of(await self.store.list(Query(agent_id=agent_id, limit=1)))
        return newest

    # --- a whole clean-up

    async def plan(self, now: datetime, *, user_id: str | None = None) -> list[Removal]:
        """What the policy retires of everything that there is."""
        return plan(await self.store.list(Query(user_id=user_id, limit=None)), self.policy, now=now)

    async def plan_older(self, moment: datetime, *, user_id: str | None = None) -> list[Removal]:
        listed = await self.store.list(Query(user_id=user_id, limit=None))
        return older_than(listed, moment, newest_of(listed))

    async def carry_out(self, removals: Sequence[Removal]) -> int:
        """Deletes what a plan names, in small commits; how many checkpoints went."""
        deleted = 0
        for start in range(0, len(removals), _CHANGES_PER_COMMIT):
            changes = removal_changes(removals[start : start + _CHANGES_PER_COMMIT])
            deleted += sum(done.deleted for done in await self.store.commit(*changes))
        return deleted


def removal_changes(removals: Iterable[Removal]) -> list[Change]:
    """One change for each agent that a plan touches."""
    by_agent: dict[tuple[str, str], list[str]] = {}
    for removal in removals:
        by_agent.setdefault((removal.agent_id, removal.user_id), []).append(removal.checkpoint_id)
    return [
        Change(agent_id=agent_id, user_id=user_id, delete=tuple(ids)) for (agent_id, user_id), ids in by_agent.items()
    ]
