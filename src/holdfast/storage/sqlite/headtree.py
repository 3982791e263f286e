"""The tree of heads: a few hashes in the store's row that account for the row of every agent.

Its leaves are the MACs of the agents' rows, in the order of their numbers, with zeros where a number has no agent.
`FANOUT` of them make a node, as many nodes one of the level above, up to the first level that has no more than
`ROOTS_MAX` nodes. These are the roots, and they alone are stored. What lies below a root is computed from the rows of
its agents, who are a group: so one agent's row is proven by reading its group, and a commit writes no page for it.

A sum of all MACs would prove as much with less, but not against somebody who has old copies of many rows: he can choose
among them until what he chose adds up.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from holdfast.storage.authenticity import MAC_BYTES, unkeyed_hash

_BITS: Final = 4
FANOUT: Final = 1 << _BITS
ROOTS_MAX: Final = 64
"""As many hashes as fit into the store's row beside the rest, so that it stays on its one page."""

_NODE_BYTES: Final = FANOUT * MAC_BYTES
_NOTHING: Final = bytes(MAC_BYTES)
_EMPTY: Final = bytes(_NODE_BYTES)


class Heads(NamedTuple):
    """The roots, and how many levels lie below them."""

    depth: int = 0
    roots: bytes = b""

    @property
    def groups(self) -> int:
        return len(self.roots) // MAC_BYTES

    def group_of(self, number: int) -> int:
        return number - 1 >> _BITS * self.depth

    def numbers(self, group: int) -> range:
        """The numbers that the agents of a group may have."""
        size = 1 << _BITS * self.depth
        return range(group * size + 1, (group + 1) * size + 1)

    def root(self, group: int) -> bytes:
        at = group * MAC_BYTES
        return self.roots[at : at + MAC_BYTES] or _NOTHING

    def with_root(self, group: int, root: bytes) -> Heads:
        at = group * MAC_BYTES
        return Heads(self.depth, self.roots[:at].ljust(at, b"\0") + root + self.roots[at + MAC_BYTES :])

    def with_room_for(self, number: int) -> Heads:
        """The same heads as a tree that is deep enough for an agent of this number."""
        heads = self
        while heads.group_of(number) >= ROOTS_MAX:
            heads = Heads(heads.depth + 1, bytes(_above(heads.roots)))
        return heads

    @classmethod
    def of(cls, macs: dict[int, bytes]) -> Heads:
        """The heads of a store with these agents."""
        heads = cls().with_room_for(max(macs, default=1))
        for group in range(heads.group_of(max(macs)) + 1 if macs else 0):
            leaves = b"".join([macs.get(number, _NOTHING) for number in heads.numbers(group)])
            heads = heads.with_root(group, Group(bytearray(leaves)).root)
        return heads


class Group:
    """The part of the tree below one root, in memory."""

    def __init__(self, leaves: bytearray) -> None:
        self.levels = [leaves]
        while len(self.levels[-1]) > MAC_BYTES:
            self.levels.append(_above(self.levels[-1]))

    @property
    def root(self) -> bytes:
        return bytes(self.levels[-1])

    def leaf(self, index: int) -> bytes:
        at = index * MAC_BYTES
        return bytes(self.levels[0][at : at + MAC_BYTES])

    def put(self, index: int, mac: bytes) -> None:
        """Makes this the leaf, and every node above it what follows from that."""
        self.levels[0][index * MAC_BYTES : (index + 1) * MAC_BYTES] = mac
        for below, above in pairwise(self.levels):
            index >>= _BITS
            node = _node(below[index * _NODE_BYTES : (index + 1) * _NODE_BYTES])
            above[index * MAC_BYTES : (index + 1) * MAC_BYTES] = node


def _above(level: bytes | bytearray) -> bytearray:
    """The nodes over these."""
    nodes = [_node(level[at : at + _NODE_BYTES]) for at in range(0, len(level), _NODE_BYTES)]
    return bytearray(b"".join(nodes))


def _node(children: bytes | bytearray) -> bytes:
    """Over nothing there is nothing, so that a group may end anywhere in it."""
    if len(children) < _NODE_BYTES:
        children = children.ljust(_NODE_BYTES, b"\0")
    return _NOTHING if children == _EMPTY else unkeyed_hash(children)
