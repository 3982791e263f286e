"""Size caps: how large a state, and one value in it, may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import TooLarge
from holdfast.history.image import Image


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """Generous: an agent that meets one keeps in its state what belongs in a file."""

    state_bytes_max: int = 256 << 20
    value_bytes_max: int = 64 << 20

    def check(self, agent_id: str, state: dict[str, Any], image: Image) -> None:
        if image.size > self.state_bytes_max:
            raise TooLarge(
                f"The state of agent {agent_id} has {image.size:,} bytes; the cap is {self.state_bytes_max:,}",
                agent_id=agent_id,
                path="state",
                hint="Keep large data outside the state and store a reference, or pass state_bytes_max.",
            )
        if image.size > self.value_bytes_max:  # no value can be larger than the whole, so nothing is walked before
            self._check_values(agent_id, state)

    def _check_values(self, agent_id: str, state: dict[str, Any]) -> None:
        waiting: list[tuple[str, Any]] = [("state", state)]
        while waiting:
            path, value = waiting.pop()
            if isinstance(value, dict):
                waiting += [(f"{path}.{key}", inner) for key, inner in value.items()]
            elif isinstance(value, list | tuple | set | frozenset):
                waiting += [(f"{path}[{index}]", inner) for index, inner in enumerate(value)]
            elif isinstance(value, str | bytes | bytearray) and len(value) > self.value_bytes_max:
                raise TooLarge(
                    f"{path} of agent {agent_id} has {len(value):,} bytes; the cap for one value is "
                    f"{self.value_bytes_max:,}",
                    agent_id=agent_id,
                    path=path,
                    hint="Keep large data outside the state and store a reference, or pass value_bytes_max.",
                )
