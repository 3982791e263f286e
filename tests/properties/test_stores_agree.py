"""Whatever is done to them, SQLite answers as the in-memory store does, and both as a plain model of what matters."""

import asyncio
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.errors import HoldfastError
from holdfast.history.image import Image
from holdfast.history.records import Rewind, RlmComplete, RlmRestart, RlmStart, RlmToolCall, UserMessage, snapshot_of
from holdfast.storage.ids import id_text
from holdfast.storage.memory import InMemoryCheckpointStorage
from holdfast.storage.protocol import Change, Outgoing, Query
from holdfast.testing.samples import NOON, saving

sqlite = pytest.importorskip("holdfast.storage.sqlite")

USERS = {"a": "one", "b": "one", "c": "two", "fork-1": "one", "fork-2": "two"}
AGENTS = st.sampled_from(sorted(USERS))
KINDS = st.sampled_from(["manual", "auto", "routine", "pre_operation"])
RUNS = st.sampled_from(["run-1", "run-2"])
SESSIONS = st.sampled_from([None, None, "s", "run-1"])
SNAPSHOTS = st.sampled_from([None, b"heap " * 100, b"heap " * 100 + b"and more"])
WHATS = st.sampled_from(["say", "begin", "begin", "call", "restart", "end", "end"])


class StoresAgree(RuleBasedStateMachine):
    """Every rule does the same to both stores; after every step all their answers are compared."""

    @initialize()
    def open(self):
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.memory = InMemoryCheckpointStorage(max_checkpoints=None)
        self.sqlite = sqlite.SQLiteCheckpointStorage(db_path=self.folder / "store.db", max_checkpoints_per_user=None)
        self.ids = []  # every checkpoint id ever given
        self.given = 0
        self.groups = []
        self.model = {}  # agent -> {id: state}, in the order of their commits, live ones only
        self.turns = dict.fromkeys(USERS, 0)
        self.holds = []  # (agent, epoch)
        self.numbers = {}  # SQLite's commit numbers in terms of memory's

    def teardown(self):
        if hasattr(self, "runner"):
            self.run(self.sqlite.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    def run(self, coroutine):
        return self.runner.run(coroutine)

    # --- doing the same twice

    def both(self, call):
        """The same call to both; the same answer or the same refusal."""
        answers = []
        for store in (self.memory, self.sqlite):
            try:
                answers.append(self.run(call(store)))
            except HoldfastError as error:
                answers.append(type(error))
        return answers

    def commit(self, *changes):
        ours, theirs = self.both(lambda store: store.commit(*changes))
        if isinstance(ours, type) or isinstance(theirs, type):
            assert ours == theirs
            return None
        self.numbers[theirs[0].commit_number] = ours[0].commit_number
        assert ours == [self.translated(done) for done in theirs]
        for change, done in zip(changes, ours, strict=True):
            self.follow(change, done)
        return ours

    def follow(self, change, done):
        """What the commit means to the plain model."""
        kept = self.model.setdefault(change.agent_id, {})
        before = len(kept)
        for checkpoint_id in change.delete:
            kept.pop(checkpoint_id, None)
        if change.erase:
            kept.clear()
            self.holds = [held for held in self.holds if held[0] != change.agent_id]
        assert done.deleted == before - len(kept)
        if change.checkpoint is not None:
            kept[change.checkpoint.id] = change.image.decode()
            self.ids.append(change.checkpoint.id)

    def translated(self, value):
        """An answer of SQLite's with memory's commit numbers: their order must be the same, not their values."""
        value = replace(value, commit_number=self.numbers.get(value.commit_number, value.commit_number))
        if getattr(value, "checkpoint", None) is not None:
            value = replace(value, checkpoint=self.translated(value.checkpoint))
        return value

    def state(self, agent):
        """The next state of an agent's conversation."""
        self.turns[agent] += 1
        turn = self.turns[agent]
        return {"turn": turn, "messages": [{"role": "user", "content": f"{agent} says {n}"} for n in range(turn * 3)]}

    def save(self, agent, **fields):
        self.given += 1
        values = {
            "id": id_text("chk", self.given.to_bytes(16)),  # examples are repeated: nothing may be left to chance
            "timestamp": NOON - timedelta(seconds=self.given),
            **fields,
        }
        return saving(agent, user_id=USERS[agent], state=self.state(agent), **values)

    # --- rules

    @rule(agent=AGENTS, kind=KINDS, pinned=st.booleans(), hold=st.booleans())
    def save_on_the_newest(self, agent, kind, pinned, hold):
        done = self.commit(self.save(agent, kind=kind, pinned=pinned, continue_newest=True, hold=hold))
        if hold and done:
            self.holds.append((agent, done[0].epoch))

    @precondition(lambda self: self.ids)
    @rule(agent=AGENTS, data=st.data())
    def save_on_any_parent(self, agent, data):
        """One of its own, deleted or not, is a branch; another agent's is only a name."""
        self.commit(self.save(agent, parent=data.draw(st.sampled_from(self.ids)), metadata={"tuple": (1,)}))

    @precondition(lambda self: self.ids)
    @rule(agent=AGENTS, data=st.data(), replaced=st.booleans())
    def save_an_id_again(self, agent, data, replaced):
        id_ = data.draw(st.sampled_from(self.ids))
        self.commit(self.save(agent, id=id_, delete=(id_,) if replaced else ()))

    @rule(agent=AGENTS, whats=st.lists(WHATS, min_size=1, max_size=3), run=RUNS, session=SESSIONS, taken=SNAPSHOTS)
    def write_records(self, agent, whats, run, session, taken):
        made = {
            "say": UserMessage(content=("hello",)),
            "begin": RlmStart(tool_call_id=run, code="1", session=session),
            "call": RlmToolCall(
                tool_call_id=run, call_id=1, snapshot=taken, print_output="", tool_call_count=1, tool_name="fetch",
                tool_args=(), session=session,
            ),
            "restart": RlmRestart(tool_call_id=run, attempt=1),
            "end": RlmComplete(
                tool_call_id=run, output=1, print_output="", tool_call_count=0, snapshot=taken, session=session
            ),
        }  # fmt: skip
        self.commit(Change(agent_id=agent, user_id=USERS[agent], records=tuple(made[what] for what in whats)))

    @rule(agent=AGENTS, data=st.data())
    def rewind_and_say(self, agent, data):
        places = [one.position for one in self.run(self.memory.list(Query(agent_id=agent, limit=None)))]
        if places:
            records = (Rewind(to=data.draw(st.sampled_from(places))), UserMessage(content="again"))
            self.commit(Change(agent_id=agent, user_id=USERS[agent], records=records))

    @precondition(lambda self: self.ids)
    @rule(agent=AGENTS, data=st.data())
    def delete(self, agent, data):
        ids = data.draw(st.lists(st.sampled_from(self.ids), max_size=4))
        self.commit(Change(agent_id=agent, user_id=USERS[agent], delete=tuple(ids)))

    @precondition(lambda self: self.ids)
    @rule(agent=AGENTS, pinned=st.booleans(), data=st.data())
    def pin(self, agent, pinned, data):
        ids = data.draw(st.lists(st.sampled_from(self.ids), max_size=3))
        self.commit(Change(agent_id=agent, user_id=USERS[agent], pin=dict.fromkeys(ids, pinned)))

    @precondition(lambda self: self.ids)
    @rule(agent=st.sampled_from(["fork-1", "fork-2", "a"]), data=st.data())
    def fork(self, agent, data):
        """Also onto an agent that is there, and of another user's checkpoint: both must refuse."""
        id_ = data.draw(st.sampled_from(self.ids))
        self.commit(self.save(agent, fork_of=id_, parent=id_))

    @rule(agents=st.lists(AGENTS, min_size=2, max_size=3, unique=True))
    def save_a_group(self, agents):
        group = f"grp_{len(self.groups)}"
        self.groups.append(group)
        places = [(place, len(agents)) for place in range(len(agents))]
        self.commit(
            *(
                self.save(agent, continue_newest=True, group_id=group, group_place=place)
                for agent, place in zip(agents, places, strict=True)
            )
        )

    @rule(agent=AGENTS, other=AGENTS)
    def save_with_one_change_refused(self, agent, other):
        """A commit of two of which the second belongs to nobody it names: all or nothing, so nothing."""
        self.commit(
            self.save(agent, continue_newest=True),
            Change(agent_id=other, user_id="nobody", delete=("chk_x",), records=(UserMessage(content="no"),), epoch=99),
        )

    @rule(agent=AGENTS)
    def erase(self, agent):
        self.commit(Change(agent_id=agent, user_id=USERS[agent], erase=True))

    @rule(agent=AGENTS)
    def hold(self, agent):
        done = self.commit(Change(agent_id=agent, user_id=USERS[agent], hold=True))
        if done:
            self.holds.append((agent, done[0].epoch))

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def release(self, data):
        agent, epoch = data.draw(st.sampled_from(self.holds))
        self.holds.remove((agent, epoch))
        self.commit(Change(agent_id=agent, user_id=USERS[agent], epoch=epoch))

    @rule(agent=AGENTS, epoch=st.integers(0, 4))
    def write_with_an_epoch_that_ended(self, agent, epoch):
        if all(held[0] != agent for held in self.holds):
            assert self.commit(Change(agent_id=agent, user_id=USERS[agent], epoch=epoch)) is None

    @rule(agent=AGENTS, user=st.sampled_from(["one", "two"]))
    def send(self, agent, user):
        ours, theirs = self.both(lambda store: store.send(agent, user, {"to": (agent,)}, sender=user))
        assert ours == theirs

    @rule(agent=AGENTS, to=st.lists(AGENTS, min_size=1, max_size=3), user=st.sampled_from(["one", "one", "two"]))
    def send_with_a_save(self, agent, to, user):
        sent = tuple(Outgoing(to=one, user_id=user, content=(one,), sender=agent) for one in to)
        self.commit(replace(self.save(agent, continue_newest=True), send=sent))

    @rule(agent=AGENTS, number=st.integers(0, 5))
    def acknowledge(self, agent, number):
        self.commit(Change(agent_id=agent, user_id=USERS[agent], acknowledge=number))

    @rule()
    def collect_garbage(self):
        self.both(lambda store: store.collect_garbage())

    @precondition(lambda self: not self.holds)
    @rule()
    def reopen(self):
        """Without holds, since memory's owner can't die."""
        self.run(self.sqlite.close())
        self.sqlite = sqlite.SQLiteCheckpointStorage(db_path=self.folder / "store.db", max_checkpoints_per_user=None)

    # --- what must agree

    @invariant()
    def lists_agree(self):
        for query in (
            Query(limit=None),
            Query(user_id="one", limit=None),
            Query(agent_id="a", limit=None),
            Query(user_id="two", kinds=("routine", "auto"), limit=None),
            Query(agent_id="b", kinds=("pre_operation",), oldest_first=True, limit=None),
        ):
            ours, theirs = self.both(lambda store, query=query: store.list(query))
            theirs = [self.translated(one) for one in theirs]
            numbers = [one.commit_number for one in theirs]
            assert numbers == sorted(numbers, reverse=not query.oldest_first)
            # One commit's checkpoints are equally new; in which order they are listed is the store's own affair.
            assert sorted(theirs, key=_key) == sorted(ours, key=_key)
            page = self.run(self.sqlite.list(replace(query, limit=3, offset=2)))
            assert [one.id for one in page] == [one.id for one in theirs[2:5]]

    @invariant()
    def agents_agree(self):
        ours, theirs = self.both(lambda store: store.agents())
        plain = [
            {info.agent_id: replace(info, owner=info.owner and "owner") for info in infos}
            for infos in (ours, map(self.translated, theirs))
        ]
        assert plain[0] == plain[1]
        for agent in USERS:
            [one, two] = self.both(lambda store, agent=agent: store.agent(agent))
            assert (one is None) == (two is None) == (agent not in plain[0])

    @invariant()
    def histories_agree(self):
        for agent in USERS:
            ours, theirs = self.both(lambda store, agent=agent: store.read(agent))
            assert [record.evolve(at=None) for record in ours] == [record.evolve(at=None) for record in theirs]
            seqs = [record.seq for record in ours]
            assert seqs == list(range(seqs[-1] - len(seqs) + 1, seqs[-1] + 1)) if seqs else True
            inboxes = self.both(lambda store, agent=agent: store.inbox(agent))
            assert [replace(m, at=NOON) for m in inboxes[0]] == [replace(m, at=NOON) for m in inboxes[1]]

    @invariant()
    def what_is_pending_agrees(self):
        for what in ("operation", "run"):
            for user in (None, "one"):
                ours, theirs = self.both(lambda store, what=what, user=user: store.pending(what, user_id=user))
                assert sorted(map(repr, ours)) == sorted(map(repr, theirs))

    @invariant()
    def runs_agree(self):
        questions = [
            {},
            {"limit": 2},
            {"user_id": "one"},
            {"name": "run-1"},
            {"session": "s"},
            *({"agent_id": agent} for agent in USERS),
            *({"agent_id": agent, "name": "run-2"} for agent in USERS),
            *({"agent_id": agent, "session": "run-1", "limit": 1} for agent in USERS),
        ]
        for asked in questions:
            ours, theirs = self.both(lambda store, asked=asked: store.runs(**asked))
            assert ours == theirs

    @invariant()
    def snapshots_agree(self):
        for agent in USERS:
            ours, theirs = self.both(lambda store, agent=agent: store.read(agent, snapshots=False))
            assert [record.evolve(at=None) for record in ours] == [record.evolve(at=None) for record in theirs]
            for seq in [record.seq for record in ours if snapshot_of(record) is not None][-3:]:
                one, two = self.both(lambda store, agent=agent, seq=seq: store.snapshot(agent, seq))
                assert one == two is not None

    @invariant()
    def groups_agree(self):
        for group in self.groups:
            ours, theirs = self.both(lambda store, group=group: store.group(group))
            assert sorted(ours) == sorted(theirs)

    @invariant()
    def positions_agree(self):
        for id_ in set(self.ids):
            ours, theirs = self.both(lambda store, id_=id_: store.position(id_))
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                theirs = self.translated(theirs)
                assert _bare(ours) == _bare(theirs) if ours.deleted else ours == theirs

    @invariant()
    def contents_are_what_was_saved(self):
        for agent, kept in self.model.items():
            listed = self.run(self.memory.list(Query(agent_id=agent, limit=None)))
            assert [one.id for one in listed] == [*kept][::-1]
            for id_, state in kept.items():
                for found in self.both(lambda store, id_=id_: store.fetch(id_)):
                    assert found is not None
                    assert found[1] == Image.of(state)
        live = {id_ for kept in self.model.values() for id_ in kept}
        for id_ in set(self.ids) - live:
            assert self.both(lambda store, id_=id_: store.fetch(id_)) == [None, None]


def _key(checkpoint):
    return (checkpoint.commit_number, checkpoint.id)


def _bare(checkpoint):
    """What stays of a deleted checkpoint."""
    names = ("id", "agent_id", "user_id", "kind", "parent_checkpoint_id", "position", "commit_number", "deleted")
    return {name: getattr(checkpoint, name) for name in names}


StoresAgree.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@pytest.mark.blocks_the_loop("each step runs the loop for a moment; tests/conformance looks at what blocks it")
class TestStoresAgree(StoresAgree.TestCase):
    pass
