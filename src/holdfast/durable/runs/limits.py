"""How much one program may use."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The same when a run begins and when it goes on elsewhere. A program's time does not run while a tool does."""

    turn_seconds_max: float = 60.0  # between two calls
    memory_bytes_max: int = 1 << 30
    recursion_depth_max: int = 1000
    suspensions_max: int = 1_000_000  # calls, clock reads and awaits of one run
    tool_calls_max: int = 100_000
    print_bytes_max: int = 10 << 20
    result_bytes_max: int = 1 << 20  # of one tool's result
    value_bytes_max: int = 10 << 20  # of the arguments of one call, and of the program's value
    crashes_max: int = 3  # of the sandbox, or of the host, without a tool's success between them

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidArgument(f"{name}={value!r} is no limit", hint="A limit is a number above 0.")
