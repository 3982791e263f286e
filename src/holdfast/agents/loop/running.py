"""Which loops run in this process: one for each agent of a store, woken when something is sent to it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import OwnedElsewhere

if TYPE_CHECKING:
    from holdfast.storage.protocol import Store


class Runner(Protocol):
    """What is known of a loop that runs."""

    @property
    def agent_id(self) -> str: ...

    @property
    def listens_to(self) -> Iterable[str]:
        """The ids of the inboxes that give it work."""

    def wake(self) -> None: ...


_running: Final[dict[tuple[int, str], Runner]] = {}  # by the identity of the store, which the loop keeps alive
_lock: Final = threading.Lock()


@contextmanager
def running(store: Store, runner: Runner) -> Iterator[None]:
    """Makes the loop known while it runs. The store can't tell two owners in one process apart, so this does."""
    place = (id(store), runner.agent_id)
    with _lock:
        if place in _running:
            raise OwnedElsewhere(
                f"Another loop of this process runs agent {runner.agent_id} already",
                agent_id=runner.agent_id,
                hint="Stop that one first; an agent has one loop at a time.",
            )
        _running[place] = runner
    try:
        yield
    finally:
        with _lock:
            del _running[place]


def is_running(store: Store, agent_id: str) -> bool:
    return (id(store), agent_id) in _running


def wake(store: Store, *inboxes: Any) -> None:
    """Lets the loops that listen to one of these inboxes look at once. Loops of other processes look in their time."""
    with _lock:
        found = [runner for (place, _), runner in _running.items() if place == id(store)]
    for runner in found:
        if not set(inboxes).isdisjoint(runner.listens_to):
            runner.wake()
