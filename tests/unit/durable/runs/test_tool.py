"""Claims about tools: what can be one, how its calls are bound and made, and what it raises."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import InvalidArgument
from holdfast.durable.runs.currentcall import CurrentCall, calling, current_call
from holdfast.durable.runs.failures import recorded
from holdfast.durable.runs.outcomes import DidNotHappen, Happened, Unknown
from holdfast.durable.runs.tool import Tool, Tools

CALL = CurrentCall(agent_id="ada", tool_call_id="call_1", call_id=3, attempt=1, epoch=7, tool_name="send", arguments={})


@dataclass
class Order:
    item: str
    count: int = 1


def send(to: str, *copies: str, urgent: bool = False, **more: int) -> dict[str, Any]:
    """Send it."""
    return {"to": to, "copies": copies, "urgent": urgent, "more": more}


async def fetch(url: str) -> str:
    """Fetch it."""
    return url


async def pages(count: int):
    for number in range(count):
        yield number


class Desk:
    """A desk."""

    async def __call__(self, to: str) -> str:
        return to

    async def send(self, to: str) -> str:
        return to

    def look(self) -> None: ...


# --- what can be a tool


@pytest.mark.parametrize(
    ("function", "name", "is_async"),
    [
        (send, "send", False),
        (fetch, "fetch", True),
        (pages, "pages", True),
        (Desk().send, "send", True),
        (Desk().look, "look", False),
        (functools.wraps(send)(lambda *args: None), "send", False),
        (functools.wraps(fetch)(lambda url: fetch(url)), "fetch", False),  # noqa: PLW0108 - a plain function
    ],
)
def test_a_function_is_a_tool_under_its_own_name(function, name, is_async):
    tool = Tool(function)
    assert (tool.name, tool.is_async) == (name, is_async)
    assert (tool.on_restart, tool.read_only, tool.reconcile, tool.timeout_seconds) == ("error", False, None, None)


@pytest.mark.parametrize(
    ("function", "is_async"),
    [(Desk(), True), (functools.partial(fetch, "x"), True), (functools.partial(send), False), (lambda: None, False)],
)
def test_what_has_no_name_needs_one(function, is_async):
    with pytest.raises(InvalidArgument, match="has no name of its own") as caught:
        Tool(function)
    assert "name='fetch'" in caught.value.hint
    tool = Tool(function, name="given")
    assert (tool.name, tool.is_async) == ("given", is_async)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "'' is no name that a program can call"),
        ({"name": "send mail"}, "'send mail' is no name"),
        ({"name": "class"}, "'class' is no name"),
        ({"name": 3}, "3 is no name"),
        ({"name": "print"}, "'print' means something else in a program"),
        ({"name": "datetime"}, "'datetime' means something else in a program"),
        ({"on_restart": "again"}, "on_restart='again' of the tool send is none of 'error', 'retry', 'reconcile'"),
        ({"on_restart": "reconcile"}, "has on_restart='reconcile' and reconcile=None"),
        ({"reconcile": print}, "has on_restart='error' and reconcile=<built-in function print>"),
        ({"on_restart": "retry", "reconcile": print}, "has on_restart='retry'"),
        ({"on_restart": "reconcile", "reconcile": "yes"}, "'yes' can't be called"),
        ({"timeout_seconds": 0}, "timeout_seconds=0 of the tool send is no positive number"),
        ({"timeout_seconds": -1.5}, "timeout_seconds=-1.5"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds=nan"),
    ],
)
def test_options_that_can_not_be_meant_are_refused(options, message):
    with pytest.raises(InvalidArgument) as caught:
        Tool(send, **options)
    assert message in str(caught.value)
    assert caught.value.hint


def test_what_can_not_be_called_is_no_tool():
    with pytest.raises(InvalidArgument, match="'send' can't be called"):
        Tool("send")


def test_a_function_of_which_nobody_knows_the_arguments_is_no_tool():
    with pytest.raises(InvalidArgument, match="Nothing says what arguments the tool largest takes"):
        Tool(max, name="largest")


def test_a_description_replaces_the_docstring():
    assert Tool(send).description == "Send it."
    assert Tool(send, description="Post it.").description == "Post it."
    assert Tool(functools.partial(send), name="post").description == "Send it."
    assert Tool(lambda: None, name="nothing").description == ""


def test_a_tool_shows_what_matters():
    assert repr(Tool(send, on_restart="retry")) == "Tool(send, on_restart='retry')"
    assert repr(Tools.of([send, fetch])) == "Tools(send, fetch)"


# --- a collection of tools


def test_tools_are_kept_by_name_in_their_order():
    given = Tool(fetch, on_restart="retry")
    tools = Tools.of([send, given])
    assert [tool.name for tool in tools] == ["send", "fetch"]
    assert len(tools) == 2
    assert "send" in tools
    assert "post" not in tools
    assert tools.get("fetch") is given
    assert tools.get("post") is None
    assert tools.preamble.startswith("from typing import Any\n\ndef send(")


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InvalidArgument, match="Two tools have the name 'send'"):
        Tools.of([send, Tool(fetch, name="send")])


# --- arguments


def test_a_call_is_recorded_by_parameter_without_defaults():
    assert Tool(send).bind(("ada", "bob"), {"x": 1}) == {"to": "ada", "copies": ["bob"], "more": {"x": 1}}
    assert Tool(send).bind((), {"to": "ada"}) == {"to": "ada"}


def test_a_call_that_does_not_fit_is_told_with_the_name_of_the_tool():
    with pytest.raises(TypeError, match=r"^post\(\) missing 1 required positional argument: 'to'$"):
        Tool(send, name="post").bind((), {})


def test_recorded_arguments_are_prepared_the_same_every_time():
    def book(order: Order, *parts: int): ...

    tool, arguments = Tool(book), {"order": {"item": "tea", "count": "2"}, "parts": ["3"]}
    assert tool.prepare(arguments) == tool.prepare(arguments) == ((Order("tea", 2), 3), {})
    assert arguments == {"order": {"item": "tea", "count": "2"}, "parts": ["3"]}


def test_arguments_that_were_recorded_for_an_older_function_are_refused():
    with pytest.raises(TypeError, match=r"^fetch\(\) got an unexpected keyword argument 'page'$"):
        Tool(fetch).prepare({"url": "x", "page": 1})


async def test_a_tool_that_changes_its_arguments_does_not_change_what_was_recorded():
    def tool(rows, more: list[Any]):
        rows.append("changed")
        more[0]["a"] = "changed"

    arguments = {"rows": [1], "more": [{"a": 1}]}
    await Tool(tool).call(arguments)
    assert arguments == {"rows": [1], "more": [{"a": 1}]}


# --- calls


async def test_a_plain_function_runs_on_a_thread_and_an_async_one_on_the_loop():
    async def later():
        return threading.current_thread()

    here = threading.current_thread()
    assert await Tool(threading.current_thread, name="where").call({}) is not here
    assert await Tool(later).call({}) is here


async def test_a_plain_function_that_blocks_does_not_block_the_loop():
    entered, go_on = threading.Event(), threading.Event()

    def block():
        entered.set()
        return go_on.wait(10)

    call = asyncio.ensure_future(Tool(block).call({}))
    assert await asyncio.to_thread(entered.wait, 10)
    go_on.set()
    assert await call


async def test_every_tool_knows_its_call():
    async def later():
        await asyncio.sleep(0)
        return current_call()

    def rows():
        yield current_call()

    async def pages():
        yield current_call()

    with calling(CALL):
        assert await Tool(current_call).call({}) is CALL
        assert await Tool(later).call({}) is CALL
        assert await Tool(rows).call({}) == [CALL]
        assert await Tool(pages).call({}) == [CALL]


async def test_arguments_are_validated_before_the_function_runs():
    ran = []

    def book(order: Order):
        ran.append(order)
        return order.count + 1

    assert await Tool(book).call({"order": {"item": "tea", "count": 2}}) == 3
    with pytest.raises(
        ValueError, match=r"^book\(\) got a wrong argument: order.count: Input should be a valid integer"
    ):
        await Tool(book).call({"order": {"item": "tea", "count": "many"}})
    assert len(ran) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda: iter([1, 2]),
        lambda: (number for number in (1, 2)),
        lambda: map(int, "12"),
        lambda: _later([1, 2]),
        lambda: pages_from_one(),  # noqa: PLW0108 - a plain function
        lambda: asyncio.sleep(0, result=iter([1, 2])),
    ],
)
async def test_what_has_to_be_awaited_or_drawn_is(function):
    assert await Tool(function, name="tool").call({}) == [1, 2]


async def _later(value):
    return value


async def pages_from_one():
    yield 1
    yield 2


async def test_a_generator_runs_on_the_thread_of_its_tool_and_fails_like_it():
    threads = []

    def rows():
        threads.append(threading.current_thread())
        yield 1
        raise LookupError("the second is gone")

    with pytest.raises(LookupError, match="the second is gone"):
        await Tool(rows).call({})
    assert threads[0] is not threading.current_thread()


async def test_other_results_are_returned_as_they_are(tmp_path):
    result = SimpleNamespace(x=1)
    assert await Tool(lambda: result, name="tool").call({}) is result
    with (tmp_path / "x").open("w") as file:
        assert await Tool(lambda: file, name="tool").call({}) is file


# --- failures


async def test_what_a_tool_raises_is_raised():
    def plain():
        raise KeyError("a")

    async def later():
        raise KeyError("b")

    for function in (plain, later):
        with pytest.raises(KeyError):
            await Tool(function).call({})


async def test_a_stop_of_an_iteration_does_not_leave_its_caller_waiting():
    def plain():
        return next(iter(()))

    async def later():
        return next(iter(()))

    for function in (plain, later):
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await asyncio.wait_for(Tool(function).call({}), 5)


async def test_a_tool_that_ends_the_process_only_fails():
    def plain():
        raise SystemExit(2)

    async def later():
        raise SystemExit("bad options")

    with pytest.raises(RuntimeError, match=r"^plain\(\) wanted to end the process: SystemExit\(2\)$"):
        await Tool(plain).call({})
    with pytest.raises(RuntimeError, match=r"SystemExit\('bad options'\)$"):
        await Tool(later).call({})


async def test_a_tool_that_takes_too_long_fails_with_its_name():
    stopped = []

    async def later():
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("later")

    go_on = threading.Event()

    def plain():
        go_on.wait(10)

    with pytest.raises(TimeoutError, match=r"^later\(\) took longer than 0.01 seconds$"):
        await Tool(later, timeout_seconds=0.01).call({})
    assert stopped == ["later"]
    with pytest.raises(TimeoutError, match=r"^plain\(\) took longer than 0.01 seconds$") as caught:
        await Tool(plain, timeout_seconds=0.01).call({})
    go_on.set()
    assert recorded(caught.value)["type"] == "TimeoutError"


async def test_a_tool_s_own_timeout_keeps_its_message():
    async def later():
        raise TimeoutError("the server did not answer")

    with pytest.raises(TimeoutError, match="the server did not answer"):
        await Tool(later, timeout_seconds=10).call({})


async def test_a_cancelled_call_is_cancelled():
    call = asyncio.ensure_future(Tool(asyncio.sleep, name="pause", timeout_seconds=10).call({"delay": 10}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


# --- what reconcile says


def reconciled_by(reconcile):
    return Tool(send, on_restart="reconcile", reconcile=reconcile).ask(CALL)


async def test_plain_and_async_functions_can_say_what_happened():
    async def later(call):
        return DidNotHappen()

    assert await reconciled_by(lambda call: Happened(call.call_id)) == Happened(3)
    assert await reconciled_by(later) == DidNotHappen()
    assert await reconciled_by(lambda call: later(call)) == DidNotHappen()  # noqa: PLW0108 - a plain function
    assert await reconciled_by(lambda call: Unknown()) == Unknown()


@pytest.mark.parametrize("answer", [None, True, {"id": 1}, Happened])
async def test_any_other_answer_is_none(answer):
    with pytest.raises(TypeError, match=r"reconcile of send\(\) answered .*: no Happened, DidNotHappen or Unknown"):
        await reconciled_by(lambda call: answer)


async def test_a_reconcile_function_may_block():
    asked = []

    def look(call):
        time.sleep(0)
        asked.append(threading.current_thread())
        return Unknown()

    await reconciled_by(look)
    assert asked[0] is not threading.current_thread()


def test_an_endless_iterator_is_no_reason_to_wait_for_ever(monkeypatch):
    monkeypatch.setattr("holdfast.durable.runs.plain.ITEMS_MAX", 100)
    assert asyncio.run(Tool(itertools.count, name="numbers").call({})) == list(range(100))
