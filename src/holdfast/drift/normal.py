"""Normal: what repeating is normal for one agent, learned as it goes."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

_GAP_MAX: Final = 8  # a call that stays away for longer has begun anew when it comes back
_OPEN_MAX: Final = 32
_ACTIONS_MAX: Final = 32
_LENGTHS_MAX: Final = 8


class Normal:
    """Learns how often an agent makes a call in vain before its outcome changes, as whoever waits for something does.

    A spell is one call with one outcome, made again and again. It ended well when the same call brought another
    outcome: the agent waited, and it came. Then the spell counts no more. After `spells` such ends of an action,
    further spells of it are excused up to `factor` times their usual length; beyond that they count as ever. What was
    repeated along with it, such as a sleep in between, is learned with it. A loop never ends by itself, so nothing is
    learned from one.
    """

    def __init__(self, spells: int = 3, factor: float = 2.0) -> None:
        self.spells = spells
        self.factor = factor
        self._open: dict[str, list[Any]] = {}  # call: action, outcome, count, first and last number
        self._lengths: dict[str, list[int]] = {}  # action: lengths of the last spells that ended well
        self.ended: frozenset[str] = frozenset()  # the calls whose spells ended well with the last event

    def excuses(self, action: str, call: str, outcome: str, number: int) -> bool:
        """Takes one more event into account; whether it is a repeat that is normal for this agent."""
        self.ended = frozenset()
        spell = self._open.pop(call, None)
        if spell is None or number - spell[4] > _GAP_MAX:
            spell = [action, outcome, 1, number, number]
        elif spell[1] == outcome:
            spell = [action, outcome, spell[2] + 1, spell[3], number]
        else:
            self._learn(call, spell)
            spell = [action, outcome, 1, number, number]
        self._open[call] = spell
        self._open = {
            call: spell for call, spell in list(self._open.items())[-_OPEN_MAX:] if number - spell[4] <= _GAP_MAX
        }
        lengths = self._lengths.get(action, [])
        return spell[2] > 1 and len(lengths) >= self.spells and spell[2] <= self.factor * median(lengths) + 1

    def state(self) -> dict[str, Any]:
        return {
            "open": {call: list(spell) for call, spell in self._open.items()},
            "lengths": {action: list(lengths) for action, lengths in self._lengths.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._open = {call: list(spell) for call, spell in state.get("open", {}).items()}
        self._lengths = {action: list(lengths) for action, lengths in state.get("lengths", {}).items()}

    def _learn(self, call: str, ended: list[Any]) -> None:
        if ended[2] < 2:
            return
        along = {
            other: spell
            for other, spell in self._open.items()
            if spell[2] > 1 and spell[2] * 2 >= ended[2] and spell[4] >= ended[4] - _GAP_MAX
        }
        self.ended = frozenset([*along, call])
        for action, length in {spell[0]: spell[2] for spell in [*along.values(), ended]}.items():
            lengths = self._lengths.pop(action, [])
            self._lengths[action] = [*lengths, length][-_LENGTHS_MAX:]
        while len(self._lengths) > _ACTIONS_MAX:
            del self._lengths[next(iter(self._lengths))]
