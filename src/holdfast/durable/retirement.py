"""Retirement: which checkpoints go when one is saved, and a whole clean-up, carried out in small commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import DiskFull
from holdfast.history.checkpoint import Kind
from holdfast.history.retention import LIMITED, Policy, Removal, beyond_limit, newest_of, older_than, plan
from holdfast.storage.protocol import Change, Query

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.storage.protocol import CheckpointStorage, Store

_AT_ONCE = 16  # what one save may retire beyond what it adds: a lowered limit is reached step by step
_EXACT_BELOW = 1000  # limits up to this hold after every save; counting past more is done less often
_CHANGES_PER_COMMIT = 100


@dataclass(slots=True)
class Unlooked:
    """What was saved under a limit since it was looked at last."""

    saves: int = 0
    agents: set[str] = field(default_factory=set)


def policy_of(storage: CheckpointStorage) -> Policy:
    """The default policy, with the limits that the storage was given."""
    return Policy(
        per_user=getattr(storage, "max_checkpoints_per_user", None), total=getattr(storage, "max_checkpoints", None)
    )


class Retirement:
    """Applies a policy to a store."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self.store = store
        self.policy = policy
        self._unlooked: dict[str, Unlooked] = {}

    # --- with a save

    async def with_save(self, draft: Checkpoint, now: datetime) -> list[Removal]:
        """What is to be retired in the same commit that saves this checkpoint, which becomes its agent's newest."""
        policy = self.policy
        if draft.kind == Kind.ROUTINE and policy.routine_per_agent is not None:
            return await self._routine(draft, policy.routine_per_agent)
        if draft.kind == Kind.RECOVERY and policy.recovery_days is not None:
            oldest = Query(
                user_id=draft.user_id,
                agent_id=draft.agent_id,
                kinds=(Kind.RECOVERY,),
                oldest_first=True,
                limit=_AT_ONCE,
            )
            return plan(await self.store.list(oldest), policy, now=now, newest={})
        if draft.kind not in LIMITED:
            return []
        removals = []
        for limit, user_id, what in ((policy.per_user, draft.user_id, "per user"), (policy.total, None, "in all")):
            if limit is not None:
                removals += await self._over(limit, user_id, draft, f"limit of {limit} checkpoints {what}")
        return list({removal.checkpoint_id: removal for removal in removals}.values())

    async def _routine(self, draft: Checkpoint, limit: int) -> list[Removal]:
        kept = max(0, limit - 1)
        query = Query(
            user_id=draft.user_id, agent_id=draft.agent_id, kinds=(Kind.ROUTINE,), offset=kept, limit=_AT_ONCE
        )
        return beyond_limit(await self.store.list(query), {}, f"limit of {limit} routine checkpoints per agent")

    async def _over(self, limit: int, user_id: str | None, draft: Checkpoint, reason: str) -> list[Removal]:
        """What lies beyond a limit once the draft is saved.

        The window just beyond the limit sees every checkpoint go by. One that was its agent's newest then becomes
        free only when that agent saves again, so the agents that did so since are looked at as well.
        """
        unlooked = self._unlooked.setdefault(user_id or "", Unlooked())
        unlooked.saves += 1
        unlooked.agents.add(draft.agent_id)
        if unlooked.saves < limit // _EXACT_BELOW:
            return []
        del self._unlooked[user_id or ""]
        window = Query(user_id=user_id, kinds=LIMITED, offset=max(0, limit - 1), limit=_AT_ONCE + unlooked.saves)
        beyond = await self.store.list(window)
        if not beyond:
            return []
        alone = unlooked.agents == {draft.agent_id} == {one.agent_id for one in beyond}
        for agent_id in () if alone else unlooked.agents:  # alone, the window has seen all that the agent set free
            own = await self.store.list(Query(user_id=user_id, agent_id=agent_id, kinds=LIMITED, limit=unlooked.saves))
            beyond += [one for one in own if one.commit_number < beyond[0].commit_number]
        newest = await self._newest({checkpoint.agent_id for checkpoint in beyond} - {draft.agent_id})
        return beyond_limit({one.id: one for one in beyond}.values(), newest, reason)

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
            batch = removals[start : start + _CHANGES_PER_COMMIT]
            try:
                deleted += await self._delete(batch)
            except DiskFull:  # each alone needs less room, and makes some for the next
                for removal in batch:
                    deleted += await self._delete([removal])
        return deleted

    async def _delete(self, removals: Sequence[Removal]) -> int:
        return sum(done.deleted for done in await self.store.commit(*removal_changes(removals)))


def removal_changes(removals: Iterable[Removal]) -> list[Change]:
    """One change for each agent that a plan touches."""
    by_agent: dict[tuple[str, str], list[str]] = {}
    for removal in removals:
        by_agent.setdefault((removal.agent_id, removal.user_id), []).append(removal.checkpoint_id)
    return [
        Change(agent_id=agent_id, user_id=user_id, delete=tuple(ids)) for (agent_id, user_id), ids in by_agent.items()
    ]
