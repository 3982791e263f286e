"""What a tool raised, in the form that is recorded and raised again inside the program."""

from __future__ import annotations

from typing import Final

from holdfast.durable.runs.plain import text

# The builtin exceptions that the sandbox knows, can be made from a message alone and may be raised by a call. Not
# StopIteration, which would end a loop of the program in silence, and nothing that is no Exception.
_CARRIED: Final[dict[str, type[Exception]]] = {
    cls.__name__: cls
    for cls in (
        Exception,
        ArithmeticError,
        AssertionError,
        AttributeError,
        FileExistsError,
        FileNotFoundError,
        ImportError,
        IndexError,
        IsADirectoryError,
        KeyError,
        LookupError,
        MemoryError,
        ModuleNotFoundError,
        NameError,
        NotADirectoryError,
        NotImplementedError,
        OSError,
        OverflowError,
        PermissionError,
        RecursionError,
        RuntimeError,
        SyntaxError,
        TimeoutError,
        TypeError,
        UnboundLocalError,
        ValueError,
        ZeroDivisionError,
    )
}

NAMES: Final = tuple(_CARRIED)
"""The exceptions that a program can be told."""


def recorded(error: BaseException) -> dict[str, str]:
    """The type and message of an error, as the program will see them.

    The type is the nearest that the sandbox knows; the name of any other class goes before the message.

    >>> recorded(FileNotFoundError("no such file"))
    {'type': 'FileNotFoundError', 'message': 'no such file'}
    >>> recorded(ConnectionResetError("by peer"))
    {'type': 'OSError', 'message': 'ConnectionResetError: by peer'}
    """
    cls = type(error)
    # What is no Exception (SystemExit, say) would end the program without a chance to handle it.
    nearest = next((base for base in cls.__mro__ if _CARRIED.get(base.__name__) is base), RuntimeError)
    message = _message(error)
    if nearest is not cls:
        message = f"{cls.__name__}: {message}" if message else cls.__name__
    return {"type": nearest.__name__, "message": text(message)}


def revived(failure: dict[str, str]) -> Exception:
    """The exception to raise inside the program for what was recorded."""
    cls = _CARRIED.get(failure["type"])
    if cls is None:  # A newer version knew more of them.
        return RuntimeError(f"{failure['type']}: {failure['message']}")
    return cls(failure["message"])


def _message(error: BaseException) -> str:
    try:
        if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
            return error.args[0]  # str() would quote it, and the KeyError made of it would quote it again.
        return str(error)
    except Exception:  # noqa: BLE001 (a foreign __str__ must not hide that the tool failed)
        return ""


RESTARTED: Final = recorded(RuntimeError("Process was restarted"))
