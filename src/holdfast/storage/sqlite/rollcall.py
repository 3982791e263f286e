"""The roll call: every agent's row must be the one that the tree of heads in the store's row accounts for.

It is what shows that all the rows of an agent were put back from an older copy of the store, or taken out: each of
them is authentic by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.errors import Corrupt
from holdfast.storage.authenticity import MAC_BYTES
from holdfast.storage.sqlite.headtree import FANOUT, Group, Heads

if TYPE_CHECKING:
    from holdfast.storage.sqlite.database import Database

_DEPTH_MAX: Final = 8
_SPARSE_MAX: Final = 64  # numbers in a group, for each agent of the store; there are fewer than one, but for gaps
_DAMAGED: Final = b"\xff" * MAC_BYTES
_LEAVES: Final = "SELECT number, substr(head, 2, 16) FROM agents WHERE number BETWEEN ? AND ?"


class RollCall:
    """Holds the rows of one connection against the store's row, inside the caller's transaction.

    Who has answered is remembered: a group is read again only when its root has become another. What is remembered
    counts as long as it leads to the root, so nothing has to be forgotten when a transaction is taken back.
    """

    def __init__(self, db: Database, name: Callable[[int], str | None]) -> None:
        """`name` gives the id of the agent of a number, as it is stored."""
        self.db = db
        self._name = name
        self._depth = 0
        self._groups: dict[int, Group] = {}
        self._authentic: dict[int, bytes] = {}  # by group: the leaves of the rows that were found authentic
        self._all_right: Heads | None = None

    def check(self, heads: Heads, number: int, agent_id: str, mac: bytes) -> None:
        """Raises Corrupt unless this MAC is the one of the agent's row."""
        if heads.depth == 0:
            is_right = heads.root(number - 1) == mac
        else:
            group = heads.group_of(number)
            called = self._called(heads, group)
            if called is None:
                raise self.exchanged(f"agent {agent_id}, or one that was made shortly before or after it", agent_id)
            is_right = called.leaf(number - heads.numbers(group).start) == mac
        if not is_right:
            raise self.exchanged(f"agent {agent_id}", agent_id)

    def wrong(self, heads: Heads) -> Iterator[range]:
        """The numbers of the agents of every group in which one was exchanged, added or removed."""
        [(last,)] = self.db.execute("SELECT max(number) FROM agents").fetchall()
        if heads.group_of(last) >= heads.groups and last > 0:
            yield heads.numbers(heads.group_of(last))
        for group in range(heads.groups):
            if self._called(heads, group) is None:
                yield heads.numbers(group)

    def check_all(self, heads: Heads, authenticate: Callable[[Sequence[int]], None]) -> None:
        """Raises Corrupt unless all agents are there, and each is as it was left.

        That the rest of an agent's row is its own (its name, its user) shows when it is authenticated: once, and again
        when it has changed.
        """
        if heads == self._all_right:
            return
        self._check_every(heads)
        for group in range(heads.groups):
            numbers, leaves = heads.numbers(group), bytes(self._groups[group].levels[0])
            authenticate([numbers[index] for index in _changed(self._authentic.get(group, b""), leaves)])
            self._authentic[group] = leaves
        self._all_right = heads

    def _check_every(self, heads: Heads) -> None:
        for numbers in self.wrong(heads):
            agent_id = self._name(numbers.start) if len(numbers) == 1 else None
            raise self.exchanged("one" if agent_id is None else f"agent {agent_id}", agent_id)

    def put(self, heads: Heads, number: int, mac: bytes) -> Heads:
        """The heads as they are once a row with this MAC is the agent's. To be called before it is written."""
        after = heads.with_room_for(number)
        group = after.group_of(number)
        root = mac
        if after.depth > 0:
            called = self._called(after, group)
            if called is None:
                raise self.exchanged("one of the last", None)
            called.put(number - after.numbers(group).start, mac)
            root = called.root
        after = after.with_root(group, root)
        if heads == self._all_right:
            self._all_right = after
        return after

    def exchanged(self, who: str, agent_id: str | None) -> Corrupt:
        return Corrupt(
            f"The agents in {self.db.filename} are not those that its head accounts for: {who} was exchanged for an"
            " older state, or was removed",
            agent_id=agent_id,
        )  # fmt: skip

    def _called(self, heads: Heads, group: int) -> Group | None:
        """The group as it is, or None when that is not what the store's row says."""
        if self._depth != heads.depth:
            self._begin(heads)
        root = heads.root(group)
        known = self._groups.get(group)
        if known is not None and known.root == root:
            return known
        read = Group(self._leaves(heads.numbers(group)))
        if read.root != root:
            return None
        self._groups[group] = read
        return read

    def _begin(self, heads: Heads) -> None:
        """Forgets the groups of another depth. Without a key anybody can have made one up, so it must be plausible."""
        [(agents,)] = self.db.execute("SELECT count(*) FROM agents").fetchall()
        if not 0 <= heads.depth <= _DEPTH_MAX or FANOUT**heads.depth > _SPARSE_MAX * agents:
            raise self.exchanged("one", None)
        self._depth = heads.depth
        self._groups.clear()
        self._authentic.clear()

    def _leaves(self, numbers: range) -> bytearray:
        leaves = bytearray(len(numbers) * MAC_BYTES)
        for number, mac in self.db.execute(_LEAVES, (numbers.start, numbers.stop - 1)).fetchall():
            at = (number - numbers.start) * MAC_BYTES
            leaves[at : at + MAC_BYTES] = mac if isinstance(mac, bytes) and len(mac) == MAC_BYTES else _DAMAGED
        return leaves


def told(numbers: range) -> str:
    """What is wrong with a group, for whoever lists everything that is."""
    which = f"from {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    return f"it accounts for other agents than are there with the numbers {which}: one was exchanged, or removed"


def _changed(before: bytes, after: bytes) -> Iterator[int]:
    """Where there is another agent's MAC than before; nearly all are the same."""
    step = FANOUT * MAC_BYTES
    for begin in range(0, len(after), step):
        if before[begin : begin + step] == after[begin : begin + step]:
            continue
        for at in range(begin, min(begin + step, len(after)), MAC_BYTES):
            mac = after[at : at + MAC_BYTES]
            if any(mac) and mac != before[at : at + MAC_BYTES]:
                yield at // MAC_BYTES
