"""The moment of an event: what it is, and which of the events before it were the same."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final, NamedTuple

from holdfast.drift import prints
from holdfast.drift.normal import Normal
from holdfast.drift.protocol import Event

PRINT: Final = 12  # characters of a print
_NAME_MAX: Final = 60
_KNOWN_MAX: Final = 128


class Step(NamedTuple):
    """What is remembered of an event: never its content, only whether it was the same."""

    number: int
    action: str
    call: str
    outcome: str
    mistake: str  # empty when it did not fail
    idle: bool  # there was nothing to carry out
    again: float  # from 0, something new, to 1: nothing but the same as before since the last time


class Moment(NamedTuple):
    """One event among those before it. All that a signal needs to know, worked out once."""

    event: Event
    step: Step
    recent: list[Step]  # the last events, oldest first; the last one is this
    same: list[Step]  # earlier ones of these with the same call and outcome
    again: list[Step]  # those of the last events that were nothing new, maybe with this one
    new: bool  # the call or its outcome is not remembered

    @property
    def number(self) -> int:
        return self.step.number


class Memory:
    """Remembers the last events, and for longer which calls and outcomes there were."""

    def __init__(self, window: int, normal: Normal | None = None) -> None:
        self.window = window
        self.normal = normal
        self.number = 0
        self._recent: list[Step] = []
        self._known: dict[str, None] = {}  # in the order in which they were last seen
        self._best: float | None = None  # the most progress that any event told

    def moment(self, event: Event) -> Moment:
        self.number += 1
        progress = event.progress
        if progress is not None and isfinite(progress) and (self._best is None or progress > self._best):
            self._best = progress
            self._recent, self._known = [], {}  # the agent got on: what it did before counts no more
        action = event.action[:_NAME_MAX]
        call, outcome, mistake = prints.call_print(event), prints.outcome_print(event), prints.mistake_print(event)
        before = [step for step in self._recent if step.call == call]
        same = [step for step in before if step.outcome == outcome]
        new = self._learn(call, mistake or outcome, failed=bool(mistake))
        if new and before and not same:
            self._forgive(before[-1].number)
        if self.normal is not None and self.normal.excuses(action, call, outcome, self.number):
            same, new = [], True
        if self.normal is not None and self.normal.ended:
            self._forgive(0, self.normal.ended)
        step = Step(self.number, action, call, outcome, mistake, prints.does_nothing(event), self._again(same))
        self._recent = [*self._recent[1 - self.window :], step]
        return Moment(event, step, self._recent, same, [step for step in self._recent if step.again], new)

    def state(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "recent": [list(step) for step in self._recent],
            "known": "".join(self._known),
            "best": self._best,
            "normal": None if self.normal is None else self.normal.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.number = state.get("number", 0)
        self._recent = [Step(*values) for values in state.get("recent", [])][-self.window :]
        known = state.get("known", "")
        self._known = dict.fromkeys(known[place : place + PRINT] for place in range(0, len(known), PRINT))
        self._best = state.get("best")
        if self.normal is not None:
            self.normal.restore(state.get("normal") or {})

    def _again(self, same: list[Step]) -> float:
        """How much of what happened since the last time is nothing new, this event included.

        The second time may be to make sure, so it counts less than those that follow.
        """
        if not same:
            return 0.0
        since = self._recent[same[-1].number - self.number + 1 :] if same[-1].number < self.number - 1 else []
        return (0.4 if len(same) == 1 else 1.0) * (1 + sum(step.again for step in since)) / (1 + len(since))

    def _forgive(self, after: int, calls: frozenset[str] | None = None) -> None:
        """What was repeated after an event counts no more.

        A call that comes out as it never did shows that something moves: a wait with sleeps in between, a test after
        each change with checks that pass.
        """
        self._recent = [
            step._replace(again=0.0)
            if step.again and step.number > after and (not calls or step.call in calls)
            else step
            for step in self._recent
        ]

    def _learn(self, *keys: str, failed: bool) -> bool:
        """Remembers a call and what came of it; whether there was news: of a failure only a mistake not made before."""
        news = [key not in self._known for key in keys]
        for key in keys:
            self._known.pop(key, None)
            self._known[key] = None
        while len(self._known) > _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return news[-1] if failed else any(news)
