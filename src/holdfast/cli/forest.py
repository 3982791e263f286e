"""The checkpoints of a listing as families that share a beginning, with the gaps that deleted ones leave."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.cli.graph import Node

if TYPE_CHECKING:
    from holdfast.durable.manager import CheckpointManager
    from holdfast.history.checkpoint import Checkpoint


@dataclass(slots=True)
class Gap:
    """Deleted checkpoints in a row, of which only the positions are left."""

    count: int
    newest: Checkpoint


@dataclass(slots=True)
class Forest:
    """Checkpoints by id, newest first, and the deleted ones that lie between them."""

    listed: dict[str, Checkpoint]
    deleted: dict[str, Checkpoint] = field(default_factory=dict)

    def families(self) -> list[list[Node[Checkpoint | Gap]]]:
        """Each family's nodes, children first; the family with the newest checkpoint first."""
        nodes = self._nodes()
        roots: dict[str, str] = {}
        for node in reversed(nodes):  # parents first, so that each root is known when its children ask
            roots[node.id] = roots.get(node.parent or "", node.id)
        families: dict[str, list[Node[Checkpoint | Gap]]] = defaultdict(list)
        for node in nodes:
            families[roots[node.id]].append(node)
        return list(families.values())

    def _nodes(self) -> list[Node[Checkpoint | Gap]]:
        """Children come first because a parent is always committed before them."""
        children: dict[str, list[str]] = defaultdict(list)
        everything = {**self.listed, **self.deleted}
        for one in everything.values():
            if one.parent_checkpoint_id is not None:
                children[one.parent_checkpoint_id].append(one.id)
        nodes: list[Node[Checkpoint | Gap]] = []
        for one in sorted(everything.values(), key=lambda one: (one.commit_number, one.position), reverse=True):
            if one.id in self.listed:
                nodes.append(Node(one.id, one.parent_checkpoint_id, one, "o" if one.pinned else "*"))
            elif not (len(children[one.id]) == 1 and children[one.id][0] in self.deleted):
                nodes.append(self._gap(one, children))
        return nodes

    def _gap(self, newest: Checkpoint, children: dict[str, list[str]]) -> Node[Checkpoint | Gap]:
        """A deleted checkpoint with all those before it that only led to it."""
        count, oldest = 1, newest
        while (parent := self.deleted.get(oldest.parent_checkpoint_id or "")) and len(children[parent.id]) == 1:
            count, oldest = count + 1, parent
        return Node(newest.id, oldest.parent_checkpoint_id, Gap(count, newest), ":")


async def forest(manager: CheckpointManager, listed: list[Checkpoint]) -> Forest:
    """Looks up what was deleted between the listed checkpoints; what is only not listed is left where it is."""
    grown = Forest({one.id: one for one in listed})
    for one in listed:
        parent_id = one.parent_checkpoint_id
        while parent_id is not None and parent_id not in grown.listed and parent_id not in grown.deleted:
            parent = await manager.store.position(parent_id)
            if parent is None or not parent.deleted:
                break
            grown.deleted[parent_id] = parent
            parent_id = parent.parent_checkpoint_id
    return grown
