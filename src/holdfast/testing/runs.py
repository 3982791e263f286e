"""What a full store promises about runs: where each stands on the live path, and the snapshots that it took."""
# ruff: noqa: S101 - claims are asserted

from __future__ import annotations

from typing import Any

from holdfast.history.records import Rewind, RlmComplete, RlmRestart, RlmStart, RlmToolCall, UserMessage, snapshot_of
from holdfast.testing.samples import FullStore, commit, continued, save

AWKWARD_NAMES = ("", "\x00", "a\x00b", "\ud800", "\x1f", "\x1fs", "None", "%", "ä☃", "x" * 300)


def begun(name: str = "run", session: str | None = None) -> RlmStart:
    return RlmStart(tool_call_id=name, code="1", session=session)


def called(name: str = "run", snapshot: bytes | None = None, session: str | None = None) -> RlmToolCall:
    return RlmToolCall(
        tool_call_id=name, call_id=1, snapshot=snapshot, print_output="", tool_call_count=1, tool_name="fetch",
        tool_args={}, session=session,
    )  # fmt: skip


def ended(name: str = "run", snapshot: bytes | None = None, session: str | None = None) -> RlmComplete:
    return RlmComplete(
        tool_call_id=name, output=1, print_output="", tool_call_count=0, snapshot=snapshot, session=session
    )


async def places(store: FullStore, agent_id: str = "agent") -> list[tuple[str, int, int | None]]:
    return [(run.name, run.start, run.end) for run in await store.runs(agent_id=agent_id)]


class RunClaims:
    """A run is found by name, agent and session, where it stands now; what was not begun is certainly not there."""

    # --- where they stand

    async def test_a_run_is_listed_from_its_beginning_to_its_end(self, storage: FullStore) -> None:
        held = await commit(storage, records=(UserMessage(content="go"), begun(session="s")), hold=True)
        [run] = await storage.runs(agent_id="agent", name="run")
        assert (run.name, run.agent_id, run.user_id, run.session) == ("run", "agent", "user", "s")
        assert (run.start, run.end, run.owner_alive) == (2, None, True)
        await commit(storage, records=(called(), RlmRestart(tool_call_id="run", attempt=1)), epoch=held.epoch)
        assert await places(storage) == [("run", 2, None)], "what happens in between neither begins nor ends it"
        await commit(storage, records=(ended(),))
        [run] = await storage.runs(agent_id="agent", name="run")
        assert (run.start, run.end, run.owner_alive) == (2, 5, False)

    async def test_the_newest_run_comes_first(self, storage: FullStore) -> None:
        await commit(storage, records=(begun("one"), ended("one"), begun("two")))
        await commit(storage, records=(begun("three"), ended("three"), ended("two")))
        assert await places(storage) == [("three", 4, 5), ("two", 3, 6), ("one", 1, 2)]
        assert [run.name for run in await storage.runs(agent_id="agent", limit=2)] == ["three", "two"]
        assert await storage.runs(limit=0) == []

    async def test_an_end_belongs_to_the_run_of_its_name_that_was_begun_last(self, storage: FullStore) -> None:
        await commit(storage, records=(begun(), begun(), ended()))
        assert await places(storage) == [("run", 2, 3), ("run", 1, None)]
        await commit(storage, records=(ended(), ended("other")))
        assert await places(storage) == [("run", 2, 3), ("run", 1, None)], "what has ended does not end again"
        await commit(storage, records=(begun(), ended()))
        assert await places(storage) == [("run", 6, 7), ("run", 2, 3), ("run", 1, None)]

    async def test_everything_that_is_asked_for_must_hold(self, storage: FullStore) -> None:
        await commit(storage, "one", records=(begun("a", "s"), begun("b", "t"), begun("b", "s")))
        await commit(storage, "two", user_id="them", records=(begun("a", "s"), begun("c")))
        await commit(storage, "one", records=(begun("d", ""),))

        async def found(**asked: Any) -> list[tuple[str, int]]:
            return [(run.agent_id, run.start) for run in await storage.runs(**asked)]

        everything = [("two", 2), ("two", 1), ("one", 4), ("one", 3), ("one", 2), ("one", 1)]
        assert await found() == everything
        assert await found(user_id="them") == everything[:2]
        assert await found(name="a") == [("two", 1), ("one", 1)]
        assert await found(session="s") == [("two", 1), ("one", 3), ("one", 1)]
        assert await found(session="") == [("one", 4)]
        assert await found(agent_id="one", name="b") == [("one", 3), ("one", 2)]
        assert await found(agent_id="one", name="b", session="t") == [("one", 2)]
        assert await found(agent_id="one", user_id="them") == []
        assert await found(agent_id="one", name="c") == []
        assert await found(agent_id="unknown") == []
        assert await found(user_id="nobody") == []
        assert len(await storage.runs(name="a", limit=1)) == 1

    async def test_awkward_names_stay_apart(self, storage: FullStore) -> None:
        for place, name in enumerate(AWKWARD_NAMES, start=1):
            await commit(storage, records=(begun(name, session=name),))
            assert [run.start for run in await storage.runs(name=name)] == [place]
        for place, name in enumerate(AWKWARD_NAMES, start=1):
            [run] = await storage.runs(agent_id="agent", session=name)
            assert (run.name, run.session, run.start) == (name, name, place)
        await commit(storage, records=tuple(ended(name) for name in AWKWARD_NAMES))
        assert all(run.end == run.start + len(AWKWARD_NAMES) for run in await storage.runs())

    async def test_only_the_live_path_counts(self, storage: FullStore) -> None:
        await commit(storage, records=(begun("one"),))
        first = await save(storage)
        await commit(storage, records=(ended("one"), begun("two"), ended("two")))
        second = await continued(storage)
        assert await places(storage) == [("two", 4, 5), ("one", 1, 3)]
        branch = await save(storage, parent=first.id)
        assert await places(storage) == [("one", 1, None)]
        await commit(storage, records=(begun("two"), ended("one")))
        assert await places(storage) == [("two", branch.position + 1, None), ("one", 1, branch.position + 2)]
        await save(storage, parent=second.id)
        assert await places(storage) == [("two", 4, 5), ("one", 1, 3)], "what was left is back"
        await commit(storage, records=(Rewind(to=0), begun("three")))
        assert [run.name for run in await storage.runs()] == ["three"]

    async def test_a_fork_has_its_own_runs_only(self, storage: FullStore) -> None:
        await commit(storage, records=(begun("one"), begun("two"), ended("two")))
        saved = await save(storage)
        await save(storage, "fork", fork_of=saved.id, parent=saved.id)
        assert await storage.runs(agent_id="fork") == []
        await commit(storage, "fork", records=(ended("one"), begun("one")))
        assert await places(storage, "fork") == [("one", 3, None)]
        assert await places(storage) == [("two", 2, 3), ("one", 1, None)]

    async def test_an_erased_agents_runs_are_gone(self, storage: FullStore) -> None:
        await commit(storage, records=(begun("one"), ended("one"), begun("two")))
        await commit(storage, erase=True)
        assert await storage.runs() == await storage.runs(agent_id="agent", name="one") == []
        await commit(storage, records=(ended("two"), begun("one", session="s")))
        assert [(run.name, run.start, run.session) for run in await storage.runs()] == [("one", 5, "s")]

    # --- what they took

    async def test_a_snapshot_is_kept_with_a_call_and_with_an_end(self, storage: FullStore) -> None:
        taken = [bytes([place]) * 5000 for place in range(3)]
        records = (begun(), called(snapshot=taken[0]), called(), called(snapshot=taken[1]), ended(snapshot=taken[2]))
        await commit(storage, records=records)
        read = await storage.read("agent")
        assert [record.evolve(seq=0, at=None) for record in read] == list(records)
        assert [await storage.snapshot("agent", seq) for seq in range(7)] == [
            None, None, taken[0], None, taken[1], taken[2], None,
        ]  # fmt: skip
        assert await storage.snapshot("unknown", 2) is None
        await commit(storage, erase=True)
        assert await storage.snapshot("agent", 2) is None

    async def test_reading_without_snapshots_tells_where_there_are_some(self, storage: FullStore) -> None:
        await commit(storage, records=(begun(), called(snapshot=b"bytes"), called(), ended(snapshot=b"more"), begun()))
        read = await storage.read("agent", snapshots=False)
        assert [snapshot_of(record) for record in read] == [None, b"", None, b"", None]
        whole = await storage.read("agent")
        assert [one if snapshot_of(one) is None else one.evolve(snapshot=b"") for one in whole] == read
        page = await storage.read("agent", after=2, limit=2, snapshots=False)
        assert page == read[2:4]

    async def test_the_snapshots_of_all_runs_of_a_session_come_back(self, storage: FullStore) -> None:
        """Also beside runs without a session, and one whose name is what a store might make of a session's."""
        taken = {}
        for turn in range(80):
            session = None if turn % 3 == 0 else "s"
            name = "\x1fs" if turn % 3 == 0 else f"run-{turn}"
            heap = b"".join(b"%d:%d;" % (place, turn if place == turn else 0) for place in range(100))
            done = await commit(
                storage,
                records=(begun(name, session), called(name, heap, session), ended(name, heap[::-1], session)),
            )
            taken[done.first_seq + 1], taken[done.last_seq] = heap, heap[::-1]
        assert {seq: await storage.snapshot("agent", seq) for seq in taken} == taken
