"""Drift of a model's agent: what its history says of it, and what is recorded about that."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.model.conversation import ASKED, REFRESHED, STOPPED, Call, Conversation, Exchange, Work
from holdfast.agents.watch import Answer, Watch
from holdfast.drift.prints import text_of
from holdfast.drift.protocol import Event
from holdfast.history.records import UserMessage

if TYPE_CHECKING:
    from holdfast.drift.protocol import Detector, Drift

_CALM: Final = 40
"""So many calls in a row without drift are progress."""

_REFRESHED: Final = (
    "You were stuck: {reason}. What you tried is not shown to you any more; what it did still stands. It was: {calls}. "
    "Begin anew, in another way, or say what keeps you."
)
_TOLD: Final = {
    Answer.ASK: (ASKED, "You seem to be stuck: {reason}. Do something else, or say what keeps you."),
    Answer.REFRESH: (REFRESHED, _REFRESHED),
    Answer.STOP: (STOPPED, "The work on this was stopped: {reason}."),
}


class Drifting:
    """Folds a conversation into a watch: what is known of drift is what the history says, in whichever process.

    Each prompt begins anew, and so does each message about drift, because what was before it counts no more.
    """

    def __init__(self, detector: Detector | None, policy: str | None) -> None:
        self.watch = Watch(detector, policy)
        self._work: Work | None = None
        self._seen = 0  # steps of it
        self._calm = 0
        self._found: Drift | None = None

    def found(self, conversation: Conversation) -> Drift | None:
        """The drift that began with the newest results, unless something was done about it."""
        if self.watch.policy is None:
            return None
        work = conversation.work
        if work is not self._work:
            self._work, self._seen, self._calm, self._found = work, 0, 0, None
            self.watch.restore({}, {})
        for step in work.steps[self._seen :]:
            self._take_in(step)
        self._seen = len(work.steps)
        return self._found

    def due(self) -> Answer:
        """What is to be done about it."""
        return self.watch.due(0.0)

    def done(self) -> None:
        """It was told, at least: it is not found a second time in this process."""
        self._found = None

    def _take_in(self, step: Call | Exchange | UserMessage) -> None:
        if isinstance(step, Call):
            self._found = self.watch.observe(_event(step)) or self._found
            self._calm = 0 if self.watch.drifting else self._calm + 1
            if self._calm >= _CALM:
                self.watch.all_is_well()
            return
        self._found = None  # the model was asked, or told of it: it was dealt with
        if isinstance(step, UserMessage):
            self.watch.answered(0.0)
            self.watch.begin_anew()
            self._calm = 0


def note(answer: Answer, drift: Drift, work: Work) -> UserMessage | None:
    """What is recorded, and the model told, when this is done about a drift; None when it need not know."""
    if answer not in _TOLD:
        return None
    origin, text = _TOLD[answer]
    said = text.format(reason=drift.reason, calls=_calls(work))
    if answer is Answer.STOP:
        return UserMessage(content=said, origin=origin)
    return UserMessage(content=f'<system_message origin="{origin}">{said}</system_message>', origin=origin)


def about(drift: Drift) -> dict[str, Any]:
    """What a checkpoint that is made because of a drift says of it."""
    return {"why": "drift", "drift": {"kind": drift.kind, "score": drift.score, "reason": drift.reason}}


def _calls(work: Work) -> str:
    """The calls by name: without them, a model that begins anew would do twice what has an effect."""
    made: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for call in work.steps:
        if isinstance(call, Call) and call.result is not None:
            (failed if call.result.is_error else made)[call.name] += 1
    named = [f"{name} ({count})" for name, count in made.items()]
    return ", ".join([*named, *(f"{name} ({count}, failed)" for name, count in failed.items())])


def _event(call: Call) -> Event:
    """A call as its detector is told of it. Time in which nobody worked on it is none of its own: no clock is told."""
    result = call.result
    assert result is not None  # noqa: S101 - it is a step because it has one
    seconds = None
    if result.at is not None and call.began_at is not None and call.attempts <= 1 and call.decision != "denied":
        seconds = max(0.0, (result.at - call.began_at).total_seconds())
    return Event(
        action=call.name,
        arguments=call.arguments,
        outcome=None if result.is_error else result.content,
        error=text_of(result.content) if result.is_error else None,
        duration_seconds=seconds,
    )
