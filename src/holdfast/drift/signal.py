"""A signal: one way to see that an agent goes astray."""

from __future__ import annotations

from typing import Any

from holdfast.drift.moment import Moment


class Signal:
    """Sees one kind of drift. A subclass needs `observe`; it is one object per detector.

    What `observe` returns depends on the moments so far and on nothing else. A signal that remembers something itself
    returns it from `state`, as plain data of bounded size, and takes it back in `restore`.
    """

    def observe(self, moment: Moment) -> float:
        """How much of it there is now, as a multiple of what is tolerated: 1.0 or more is drift."""
        raise NotImplementedError

    def explain(self, moment: Moment) -> tuple[str, dict[str, Any]]:
        """Why: a sentence without its full stop, and the evidence. Asked for after `observe`, for the same moment."""
        return f"{type(self).__name__} saw drift in {moment.event.action}", {"events": [moment.number]}

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        """Goes on from what `state` returned; None begins anew."""
