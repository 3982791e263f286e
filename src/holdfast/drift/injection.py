"""Injection: loops put into runs, and healthy work that looks like one, to train and to measure detectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from holdfast.drift.protocol import Event

T = TypeVar("T")


class Chance(Protocol):
    """What decides; a `random.Random` with a seed does. This package has no chance of its own."""

    def randrange(self, start: int, stop: int, /) -> int:
        """A whole number, at least `start` and below `stop`."""

    def choice(self, seq: Sequence[T], /) -> T:
        """One of several."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """How calls and outcomes look on the surface. Texts have slots such as `<word>`."""

    name: str
    calls: tuple[tuple[str, str], ...]  # at least five: action, arguments
    steady: tuple[str, ...]  # outcomes of those calls
    volatile: tuple[str, ...]  # the same, with what changes each time
    mistake: tuple[str, str, str]  # action, arguments with <n>, the error
    poll: tuple[str, str, str]  # action, arguments, an outcome with <n>
    item: tuple[str, str, str]  # action, arguments with <n>, an outcome
    edit: tuple[str, str, str]  # action, arguments with <n>, an outcome
    test: tuple[str, str, str]  # action, arguments, an outcome with <left>
    test_fails: bool = True


@dataclass(frozen=True, kw_only=True)
class Injected:
    """A run with something put into it."""

    kind: str
    form: str
    events: list[Event]
    begins: int  # the place of its first event
    third: int  # the place at which a loop has gone round for the third time
    ends: int  # the place after its last event


def inject(run: Sequence[Event], kind: str, form: Form, chance: Chance) -> Injected:
    """Puts a loop or its look-alike somewhere into a run, which goes on afterwards."""
    if kind == "interleaved":
        return _interleaved(run, form, chance)
    body, length = _BODIES[kind](form, chance)
    place = chance.randrange(0, len(run) + 1)
    events = [*run[:place], *body, *run[place:]]
    return Injected(
        kind=kind, form=form.name, events=events, begins=place, third=place + 3 * length - 1, ends=place + len(body)
    )


def _interleaved(run: Sequence[Event], form: Form, chance: Chance) -> Injected:
    """One call that comes back after each one to three events of the run's own work."""
    [call] = _calls(form, chance, 1)
    gap, volatile = chance.choice((1, 2, 3)), chance.choice((False, True))
    place = chance.randrange(0, len(run) + 1)
    # Where the run ends before the loop has, it goes on with work that is as new.
    more = [_item(form, {**_things(chance), "n": str(number)}) for number in range(_INTERLEAVED * gap)]
    events, at, work = list(run[:place]), [], [*run[place:], *more]
    for number in range(_INTERLEAVED):
        at.append(len(events))
        events += [call(volatile), *work[number * gap : (number + 1) * gap]]
    events += run[place + _INTERLEAVED * gap :]
    return Injected(kind="interleaved", form=form.name, events=events, begins=at[0], third=at[2], ends=at[-1] + 1)


_INTERLEAVED: Final = 10
"""How often the call comes back."""

Body = tuple[list[Event], int]
"""The events of a loop, and how many make one round."""


def _loop(length: int, *, volatile: bool) -> Callable[[Form, Chance], Body]:
    def make(form: Form, chance: Chance) -> Body:
        calls = _calls(form, chance, length)
        rounds = chance.randrange(6, 11)
        return [call(volatile) for _ in range(rounds) for call in calls], length

    return make


def _near_errors(form: Form, chance: Chance) -> Body:
    action, arguments, error = form.mistake
    things = _things(chance)
    events = []
    for number in range(chance.randrange(6, 11)):
        slots = {**things, "n": str(number + 3), "other": _word(chance)}
        filled = _fill(error, chance, slots)
        events.append(Event(action=action, arguments=_fill(arguments, chance, slots), error=filled))
    return events, 1


def _progressing_poll(form: Form, chance: Chance) -> Body:
    """The same question, and an answer that gets on."""
    action, arguments, outcome = form.poll
    things = {**_things(chance), "total": str(chance.randrange(20, 200))}
    asked = _fill(arguments, chance, things)
    done, events = 0, []
    for _ in range(chance.randrange(8, 16)):
        done += chance.randrange(1, 9)
        told = _fill(outcome, chance, {**things, "n": str(done)})
        events.append(Event(action=action, arguments=asked, outcome=told))
    return events, 1


def _poll_and_sleep(form: Form, chance: Chance) -> Body:
    """The same, with a sleep after each question that is always the same."""
    events, _ = _progressing_poll(form, chance)
    sleep = Event(action="sleep", arguments={"seconds": 30}, outcome="")
    return [each for event in events for each in (event, sleep)], 2


def _batch(form: Form, chance: Chance) -> Body:
    """One thing after the other is done in the same way."""
    things = _things(chance)
    first = chance.randrange(1, 500)
    return [_item(form, {**things, "n": str(first + n)}) for n in range(chance.randrange(8, 25))], 1


def _improving_tests(form: Form, chance: Chance) -> Body:
    """A test after each change, with fewer failures each time."""
    return [event for _, edit, test in _changes(form, chance) for event in (edit, test)], 2


def _checked_edits(form: Form, chance: Chance) -> Body:
    """The same, with a check in between that always passes."""
    return [event for check, edit, test in _changes(form, chance) for event in (edit, check, test)], 3


def _changes(form: Form, chance: Chance) -> list[tuple[Event, Event, Event]]:
    things = _things(chance)
    [check] = _calls(form, chance, 1)
    made: list[tuple[Event, Event, Event]] = []
    left = chance.randrange(6, 12)
    while left >= 0:
        slots = {**things, "n": str(len(made)), "left": str(left), "other": _word(chance)}
        edit, test = (_event(parts, chance, slots) for parts in (form.edit, form.test))
        if form.test_fails and left > 0:
            test = replace(test, outcome=None, error=test.outcome)
        made.append((check(True), edit, test))  # noqa: FBT003 - with what is volatile
        left -= chance.randrange(1, 3)
    return made


def _event(parts: tuple[str, str, str], chance: Chance, slots: Mapping[str, str]) -> Event:
    action, arguments, outcome = parts
    return Event(action=action, arguments=_fill(arguments, chance, slots), outcome=_fill(outcome, chance, slots))


_LOOPS: Final[Mapping[str, Callable[[Form, Chance], Body]]] = {
    "exact": _loop(1, volatile=False),
    "volatile": _loop(1, volatile=True),
    "alternating": _loop(2, volatile=False),
    "alternating_volatile": _loop(2, volatile=True),
    "cycle_of_3": _loop(3, volatile=False),
    "cycle_of_5": _loop(5, volatile=True),
    "near_errors": _near_errors,
}
_HEALTHY: Final[Mapping[str, Callable[[Form, Chance], Body]]] = {
    "progressing_poll": _progressing_poll,
    "poll_and_sleep": _poll_and_sleep,
    "batch": _batch,
    "improving_tests": _improving_tests,
    "checked_edits": _checked_edits,
}
_BODIES: Final = {**_LOOPS, **_HEALTHY}

LOOPS: Final = (*_LOOPS, "interleaved")
"""Drift, by its kind."""

HEALTHY: Final = tuple(_HEALTHY)
"""What looks like a loop and is none."""


def _calls(form: Form, chance: Chance, count: int) -> list[Callable[[bool], Event]]:
    """So many different calls; each makes an event with what is volatile new or as it was."""
    things = _things(chance)
    first = chance.randrange(0, len(form.calls))
    made = []
    for number in range(count):
        place = (first + number) % len(form.calls)
        action, arguments = form.calls[place]
        steady = _fill(form.steady[place], chance, things)
        made.append(_caller(action, _fill(arguments, chance, things), steady, form.volatile[place], things, chance))
    return made


def _caller(
    action: str, arguments: str, steady: str, changing: str, things: Mapping[str, str], chance: Chance
) -> Callable[[bool], Event]:
    def make(volatile: bool) -> Event:  # noqa: FBT001 - of its only caller
        outcome = _fill(changing, chance, things) if volatile else steady
        return Event(action=action, arguments=arguments, outcome=outcome)

    return make


def _item(form: Form, slots: Mapping[str, str]) -> Event:
    action, arguments, outcome = form.item
    return Event(action=action, arguments=_put(arguments, slots), outcome=_put(outcome, slots))


# --- what fills the slots

_WORDS: Final = re.findall(
    r"\w+",
    "alpha billing cache delta engine filter gateway harbor index journal kernel ledger metric node orbit parser queue "
    "router schema tokenizer upload vector worker yield zone",
)
_MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_HEX: Final = "0123456789abcdef"
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def _things(chance: Chance) -> dict[str, str]:
    """What stays the same through one injection."""
    return {"word": _word(chance), "thing": _word(chance), "const": str(chance.randrange(2, 90))}


def _word(chance: Chance) -> str:
    word: str = chance.choice(_WORDS)
    return word


def _some(alphabet: str, count: int) -> Callable[[Chance], str]:
    return lambda chance: "".join(chance.choice(alphabet) for _ in range(count))


def _two(chance: Chance, below: int = 60) -> str:
    return f"{chance.randrange(0, below):02}"


def _clock(chance: Chance) -> str:
    return f"{_two(chance, 24)}:{_two(chance)}:{_two(chance)}"


_MADE: Final[Mapping[str, Callable[[Chance], str]]] = {
    "clock": _clock,
    "time": lambda chance: (
        f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}T{_clock(chance)}.{_two(chance, 100)}0Z"
    ),
    "date": lambda chance: f"{chance.choice(_MONTHS)} {chance.randrange(1, 29)} {_clock(chance)}",
    "epoch": lambda chance: str(chance.randrange(1_700_000_000, 1_800_000_000)),
    "seconds": lambda chance: f"{chance.randrange(0, 90)}.{_two(chance, 100)}",
    "ms": lambda chance: str(chance.randrange(3, 4000)),
    "hex": _some(_HEX, 12),
    "short": _some(_HEX, 7),
    "id": lambda chance: f"{_some(_BASE36, 4)(chance)}{chance.randrange(0, 10)}{_some(_BASE36, 5)(chance)}7x",
    "uuid": lambda chance: "-".join(_some(_HEX, count)(chance) for count in (8, 4, 4, 4, 12)),
    "number": lambda chance: str(chance.randrange(1000, 99_999)),
}


def _fill(text: str, chance: Chance, fixed: Mapping[str, str]) -> str:
    """Puts in what is given, and makes up the rest."""
    made = {slot: make(chance) for slot, make in _MADE.items() if f"<{slot}>" in text}
    return _put(text, {**made, **fixed})


def _put(text: str, slots: Mapping[str, Any]) -> str:
    for slot, value in slots.items():
        text = text.replace(f"<{slot}>", value)
    return text
