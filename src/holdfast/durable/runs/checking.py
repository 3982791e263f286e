"""What the sandbox's type checker is told beside the tools: names that the sandbox has and its checker does not know.

A program that uses one of them would be refused before it starts, and the model told to do without.
"""

from __future__ import annotations

from typing import Final

_CALLABLES: Final = ("map", "filter", "open", "getattr", "hasattr", "setattr", "format")
_ERRORS: Final = {
    "FileNotFoundError": "OSError",
    "FileExistsError": "OSError",
    "IsADirectoryError": "OSError",
    "NotADirectoryError": "OSError",
    "PermissionError": "OSError",
    "ImportError": "Exception",
    "ModuleNotFoundError": "ImportError",
    "UnboundLocalError": "NameError",
    "UnicodeDecodeError": "ValueError",
    "UnicodeEncodeError": "ValueError",
    "FrozenInstanceError": "AttributeError",
}

UNKNOWN: Final = (*_CALLABLES, *_ERRORS)
_STUBS: Final = "\n".join([
    "import typing",
    *(f"def {name}(*args: typing.Any, **kwargs: typing.Any) -> typing.Any: ..." for name in _CALLABLES),
    *(f"class {name}({base}): ..." for name, base in _ERRORS.items()),
])  # fmt: skip


def checked_against(preamble: str) -> str:
    """The stubs for the checker: those of the tools, and of what it does not know."""
    return f"{preamble}\n{_STUBS}\n"
