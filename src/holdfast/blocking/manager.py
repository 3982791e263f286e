"""`Manager`: the checkpoint manager, method by method, for programs that don't use asyncio."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.blocking.loop import run
from holdfast.durable.manager import CheckpointManager
from holdfast.durable.operation import Operation
from holdfast.storage.protocol import CheckpointStorage

P = ParamSpec("P")
T = TypeVar("T")


def _waiting(
    method: Callable[Concatenate[CheckpointManager, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Manager, P], T]:
    """The same method, which returns when it is done."""

    @functools.wraps(method)
    def wait(self: Manager, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self.asynchronous, *args, **kwargs))

    return wait


def _at_once(method: Callable[Concatenate[CheckpointManager, P], T]) -> Callable[Concatenate[Manager, P], T]:
    """The same method, which does not wait for anything."""

    @functools.wraps(method)
    def call(self: Manager, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.asynchronous, *args, **kwargs)

    return call


class Manager:
    """What `holdfast.CheckpointManager` is, without `await`: durable when a method returns.

    Agents, factories, upgrades and handlers are called on the thread that calls the manager. It takes the same
    options, works inside a running event loop (which it blocks meanwhile), and is usable from many threads.
    """

    def __init__(self, storage: CheckpointStorage | None = None, user_id: str | None = None, **options: Any) -> None:
        self.asynchronous = CheckpointManager(storage, user_id, **options)

    def __repr__(self) -> str:
        return f"blocking.{self.asynchronous!r}".replace("CheckpointManager", "Manager", 1)

    @property
    def storage(self) -> CheckpointStorage:
        return self.asynchronous.storage

    @property
    def user_id(self) -> str | None:
        return self.asynchronous.user_id

    register = _at_once(CheckpointManager.register)
    save = _waiting(CheckpointManager.save)
    restore = _waiting(CheckpointManager.restore)
    restore_into = _waiting(CheckpointManager.restore_into)
    save_each = _waiting(CheckpointManager.save_each)
    came_from = _at_once(CheckpointManager.came_from)
    go_on_from = _at_once(CheckpointManager.go_on_from)
    fork = _waiting(CheckpointManager.fork)
    save_group = _waiting(CheckpointManager.save_group)
    restore_group = _waiting(CheckpointManager.restore_group)
    interrupted_operations = _waiting(CheckpointManager.interrupted_operations)

    @contextmanager
    def hold(self, agent_id: str, user_id: str | None = None, *, take_over: bool = False) -> Iterator[int]:
        """Holds an agent until the block ends: no other process may advance it. Yields the epoch."""
        held = self.asynchronous.hold(agent_id, user_id, take_over=take_over)
        epoch = run(held.__aenter__())
        try:
            yield epoch
        except BaseException as error:
            run(_left(held.__aexit__(type(error), error, error.__traceback__)))
            raise
        run(_left(held.__aexit__(None, None, None)))

    @contextmanager
    def operation(
        self, agent: Any, name: str, *, metadata: dict[str, Any] | None = None, take_over: bool = False
    ) -> Iterator[Operation]:
        """Holds the agent through a critical operation, with a `pre_operation` checkpoint to go back to.

        The checkpoint is gone when the operation succeeds. When it fails, or its process dies, it stays:
        `interrupted_operations` lists it.
        """
        held = self.asynchronous.operation(agent, name, metadata=metadata, take_over=take_over)
        operation = run(held.__aenter__())
        try:
            yield operation
        except BaseException as error:
            run(_left(held.__aexit__(type(error), error, error.__traceback__)))
            raise
        run(_left(held.__aexit__(None, None, None)))

    noting = _at_once(CheckpointManager.noting)
    load = _waiting(CheckpointManager.load)
    list_by_user = _waiting(CheckpointManager.list_by_user)
    list_by_agent = _waiting(CheckpointManager.list_by_agent)
    latest = _waiting(CheckpointManager.latest)
    ancestors = _waiting(CheckpointManager.ancestors)
    compare = _waiting(CheckpointManager.compare)
    history = _waiting(CheckpointManager.history)
    append = _waiting(CheckpointManager.append)

    pin = _waiting(CheckpointManager.pin)
    delete = _waiting(CheckpointManager.delete)
    clear_user_history = _waiting(CheckpointManager.clear_user_history)
    cleanup_old_checkpoints = _waiting(CheckpointManager.cleanup_old_checkpoints)
    plan_retirement = _waiting(CheckpointManager.plan_retirement)
    collect_garbage = _waiting(CheckpointManager.collect_garbage)
    verify = _waiting(CheckpointManager.verify)
    stats = _waiting(CheckpointManager.stats)
    on = _at_once(CheckpointManager.on)
    close = _waiting(CheckpointManager.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _left(leaving: Any) -> None:
    await leaving
