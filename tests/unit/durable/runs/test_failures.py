"""Claims about what a program sees of what a tool raised."""

from __future__ import annotations

import json

import pytest

from holdfast import InvalidArgument
from holdfast.durable.runs.failures import _CARRIED, RESTARTED, recorded, revived
from tests.unit.durable.runs.sandboxed import sandbox

CODE = """
try:
    call()
except {} as error:
    seen = (type(error).__name__, str(error), error.args)
seen
"""


@pytest.mark.parametrize("name", _CARRIED)
def test_every_type_that_is_recorded_can_be_caught_by_its_name_and_has_its_message(name):
    failure = recorded(_CARRIED[name]('why "so"?'))
    assert failure == {"type": name, "message": 'why "so"?'}
    with sandbox() as run:
        seen = run(CODE.format(name), {"exception": revived(failure)})
    assert seen == (name, str(_CARRIED[name]('why "so"?')), ('why "so"?',))


class Declined(ValueError):
    pass


class Odd(Exception):
    def __str__(self):
        raise RuntimeError


class TimeoutError(Exception):  # noqa: A001 (somebody's own class, with a name that means another)
    pass


@pytest.mark.parametrize(
    ("error", "type", "message"),
    [
        (Declined("no funds"), "ValueError", "Declined: no funds"),
        (Declined(), "ValueError", "Declined"),
        (ConnectionResetError(104, "by peer"), "OSError", "ConnectionResetError: [Errno 104] by peer"),
        (FileNotFoundError(2, "No such file", "/x"), "FileNotFoundError", "[Errno 2] No such file: '/x'"),
        (KeyError("name"), "KeyError", "name"),
        (KeyError(3), "KeyError", "3"),
        (KeyError(), "KeyError", ""),
        (ValueError("a", 2), "ValueError", "('a', 2)"),
        (InvalidArgument("no", hint="Do"), "ValueError", "InvalidArgument: no"),
        (json.JSONDecodeError("Bad", "{", 0), "ValueError", "JSONDecodeError: Bad: line 1 column 1 (char 0)"),
        (b"\xff".decode, "ValueError",
         "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (StopIteration(3), "Exception", "StopIteration: 3"),
        (StopAsyncIteration(), "Exception", "StopAsyncIteration"),
        (ExceptionGroup("two", [ValueError("x")]), "Exception", "ExceptionGroup: two (1 sub-exception)"),
        (TimeoutError("mine"), "Exception", "TimeoutError: mine"),
        (Odd(), "Exception", "Odd"),
        (ValueError("\ud800"), "ValueError", "\ufffd"),
        (SystemExit(1), "RuntimeError", "SystemExit: 1"),
        (KeyboardInterrupt(), "RuntimeError", "KeyboardInterrupt"),
        (GeneratorExit(), "RuntimeError", "GeneratorExit"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)  # fmt: skip
def test_any_error_is_told_as_the_nearest_that_the_sandbox_knows(error, type, message):
    if callable(error):
        with pytest.raises(UnicodeDecodeError) as caught:
            error()
        error = caught.value
    assert recorded(error) == {"type": type, "message": message}
    assert recorded(revived(recorded(error))) == recorded(error)


def test_a_failure_can_be_recorded_as_json():
    assert json.loads(json.dumps(recorded(KeyError(b"x")))) == {"type": "KeyError", "message": "b'x'"}


def test_a_restart_is_an_error_that_the_program_can_catch():
    with sandbox() as run:
        assert run(CODE.format("RuntimeError"), {"exception": revived(RESTARTED)})[:2] == (
            "RuntimeError",
            "Process was restarted",
        )


def test_a_type_that_a_newer_version_recorded_is_still_an_error():
    error = revived({"type": "FrozenInstanceError", "message": "x"})
    assert (type(error), str(error)) == (RuntimeError, "FrozenInstanceError: x")
