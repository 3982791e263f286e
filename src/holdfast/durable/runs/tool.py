"""A tool: a function of the host that programs may call, and what becomes of a call that a restart cut short."""

from __future__ import annotations

import asyncio
import builtins
import copy
import inspect
import io
import keyword
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Literal, get_args

from holdfast.durable.runs import stubs
from holdfast.durable.runs.binding import bound, spread
from holdfast.durable.runs.currentcall import CurrentCall
from holdfast.durable.runs.outcomes import Outcome
from holdfast.durable.runs.plain import drawn, drawn_async
from holdfast.durable.runs.signature import body_of, definition_of, signature_of
from holdfast.durable.runs.threads import on_thread
from holdfast.durable.runs.validation import Validation
from holdfast.errors import InvalidArgument

OnRestart = Literal["error", "retry", "reconcile"]


class Tool:
    """A function, the name that programs know it by, and how a call of it survives the death of its process.

    `on_restart` says what becomes of a call that was made and has no recorded result. "error": the program gets
    `RuntimeError("Process was restarted")`, so the call happens at most once. "retry": it is made again, at least once
    in all. "reconcile": `reconcile(call)` finds out and answers `Happened(result)`, `DidNotHappen()` or `Unknown()`.
    `read_only` promises that a call has no effect.

    A plain function runs on a thread, and nothing can stop a thread: after `timeout_seconds` the program gets a
    TimeoutError, and the function runs on until it returns. An async function is cancelled.

    >>> async def fetch(url: str) -> str: ...
    >>> Tool(fetch, on_restart="retry")
    Tool(fetch, on_restart='retry')
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        on_restart: OnRestart = "error",
        reconcile: Callable[..., Any] | None = None,
        read_only: bool = False,
        timeout_seconds: float | None = None,
        description: str | None = None,
    ) -> None:
        _check_callable(function)
        self.function = function
        self.name = _name_of(function) if name is None else name
        _check_name(self.name)
        self.on_restart = on_restart
        self.reconcile = reconcile
        self.read_only = read_only
        self.timeout_seconds = timeout_seconds
        self._check_options()
        self.signature = _signature(self.name, function)
        body = body_of(function)
        self.is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
        given = definition_of(function).__doc__ if description is None else description
        self.description = inspect.cleandoc(given or "")
        self._validation = Validation(self.name, self.signature)

    @classmethod
    def of(cls, tool: Tool | Callable[..., Any]) -> Tool:
        """The tool itself, or a function as a tool with nothing said about it."""
        return tool if isinstance(tool, Tool) else cls(tool)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by parameter, as they were given: what is recorded.

        Defaults are not among them. TypeError, in Python's own words, if the call does not fit the function.

        >>> def send(to: str, *copies: str, urgent: bool = False): ...
        >>> Tool(send).bind(("ada", "bob"), {"urgent": True})
        {'to': 'ada', 'copies': ['bob'], 'urgent': True}
        """
        return bound(self.name, self.signature, args, kwargs)

    def prepare(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the function is called with: copies of the recorded arguments, with the types that it asks for.

        ValueError or TypeError, naming tool and parameter, if they can't have them.
        """
        args, kwargs = spread(self.name, self.signature, self._validation(copy.deepcopy(arguments)))
        return args, kwargs

    async def call(self, arguments: dict[str, Any]) -> Any:
        """Makes a call with recorded arguments, and returns or raises what the function does.

        What it returns as an iterator is drawn from it here, where its code still belongs to the call.
        """
        try:
            async with asyncio.timeout(self.timeout_seconds) as limit:
                return await self._called(arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"{self.name}() took longer than {self.timeout_seconds:g} seconds") from None
        except SystemExit as error:
            # It would end the host and not the call; what a command line tool means by it is a failure.
            raise RuntimeError(f"{self.name}() wanted to end the process: SystemExit({error.code!r})") from error

    async def ask(self, call: CurrentCall) -> Outcome:
        """What `reconcile` says about a call whose result was lost. TypeError if that is none of the three answers."""
        assert self.reconcile is not None  # noqa: S101 (who asks has read on_restart)
        if inspect.iscoroutinefunction(body_of(self.reconcile)):
            outcome = await self.reconcile(call)
        else:
            outcome = await on_thread(self.reconcile, call)
            if inspect.isawaitable(outcome):  # a lambda around an async function, say
                outcome = await outcome
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"reconcile of {self.name}() answered {outcome!r:.100}: no Happened, DidNotHappen or Unknown"
            )
        return outcome

    def stub(self) -> str:
        """The tool as a typed Python stub: what a model reads and the type checker checks its calls against."""
        return stubs.stub(self)

    async def _called(self, arguments: dict[str, Any]) -> Any:
        if self.is_async:
            args, kwargs = self.prepare(arguments)
            result = self.function(*args, **kwargs)
        else:
            result = await on_thread(self._on_thread, arguments)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterator):
            return await drawn_async(result)
        return _without_iterator(result)

    def _on_thread(self, arguments: dict[str, Any]) -> Any:
        # Validation belongs here as well: it may run code of the tool's own, and that may block.
        args, kwargs = self.prepare(arguments)
        try:
            return _without_iterator(self.function(*args, **kwargs))
        except StopIteration as error:
            # No future can hold one: the caller would wait for ever.
            raise RuntimeError(f"{self.name}() raised StopIteration") from error

    def _check_options(self) -> None:
        if self.on_restart not in get_args(OnRestart):
            raise InvalidArgument(
                f"on_restart={self.on_restart!r} of the tool {self.name} is none of 'error', 'retry', 'reconcile'",
                hint="'error' tells the program, 'retry' calls again, 'reconcile' asks your function what happened.",
            )
        if (self.on_restart == "reconcile") != (self.reconcile is not None):
            raise InvalidArgument(
                f"The tool {self.name} has on_restart={self.on_restart!r} and reconcile={self.reconcile!r}",
                hint="Give both: Tool(function, on_restart='reconcile', reconcile=what_happened), or none.",
            )
        if self.reconcile is not None:
            _check_callable(self.reconcile)
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise InvalidArgument(
                f"timeout_seconds={self.timeout_seconds!r} of the tool {self.name} is no positive number",
                hint="Leave it out to wait as long as it takes.",
            )

    def __repr__(self) -> str:
        return f"Tool({self.name}, on_restart={self.on_restart!r})"


class Tools:
    """The tools of a runner, by name, in the order in which they were given."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        self._tools = tools
        self.preamble = stubs.preamble(self)

    @classmethod
    def of(cls, tools: Iterable[Tool | Callable[..., Any]]) -> Tools:
        """A collection of tools and functions. Two of one name are refused."""
        found: dict[str, Tool] = {}
        for tool in map(Tool.of, tools):
            if tool.name in found:
                raise InvalidArgument(
                    f"Two tools have the name {tool.name!r}", hint="Name one of them: Tool(function, name='...')."
                )
            found[tool.name] = tool
        return cls(found)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Tools({', '.join(self._tools)})"


def _without_iterator(result: Any) -> Any:
    # An open file is an iterator too, but nobody returns one to have it read.
    return drawn(result) if isinstance(result, Iterator) and not isinstance(result, io.IOBase) else result


def _check_callable(function: object) -> None:
    if not callable(function):
        raise InvalidArgument(
            f"{function!r} can't be called, so it is no tool",
            hint="Give a plain or an async function, or Tool(function).",
        )


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and name != "<lambda>":
        return name
    raise InvalidArgument(f"{function!r} has no name of its own", hint="Give it one: Tool(function, name='fetch').")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise InvalidArgument(
            f"{name!r} is no name that a program can call",
            hint="A tool's name is a Python identifier: fetch_page, say.",
        )
    if hasattr(builtins, name) or name in stubs.IMPORTED:
        raise InvalidArgument(
            f"The name {name!r} means something else in a program already",
            hint=f"Give the tool another one: Tool(function, name='my_{name}').",
        )


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return signature_of(function)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"Nothing says what arguments the tool {name} takes: {error}",
            hint="Wrap it in a function with parameters of its own.",
        ) from None
