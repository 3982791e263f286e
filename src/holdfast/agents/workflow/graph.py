"""The graph of steps: which comes before which, and where it bites its own tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The steps of a cycle, each needing the next and the last the first; [] when there is none."""
    done: set[str] = set()
    for start in needs:
        way: list[str] = []
        waiting = [iter([start])]
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if way:
                    done.add(way.pop())
            elif name in way:
                return way[way.index(name) :]
            elif name not in done and name in needs:
                way.append(name)
                waiting.append(iter(needs[name]))
    return []


def before(name: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    """All the steps that are settled when this one begins."""
    found: set[str] = set()
    waiting = list(needs.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(needs.get(one, ()))
    return found


def levels(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The steps in rows: each needs only steps of rows above. There must be no cycle."""
    rows: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(needs):
        row = [name for name in needs if name not in placed and placed.issuperset(needs[name])]
        placed.update(row)
        rows.append(row)
    return rows
