"""The alignment of two lists: which element of the old one became which element of the new one.

Work is near-linear for long lists with few changes, and bounded for any: common ends are stripped, elements that
occur once on each side anchor the rest, and what is between anchors is searched with a budget. Where the budget
ends, elements are paired by position, so the answer gets longer than it need be, but never wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

Pairs = list[tuple[int, int]]

_SEARCH_STEPS_MAX = 400_000  # per list: about a tenth of a second
_DISTANCE_MAX = 400  # edits between two anchors; the memory of the search grows with its square
_LIKENESSES_MAX = 40_000  # per list: 200 elements against 200


class Likeness(Protocol):
    """What alignment wants to know of elements that are not the same."""

    def identity(self, side: int, index: int) -> Hashable | None: ...

    def likeness(self, old_index: int, new_index: int) -> float: ...


@dataclass(frozen=True)
class Alignment:
    """Pairs of indexes, (old, new): `kept` rise on both sides; `moved` cross them. All others came or went."""

    kept: Pairs
    moved: Pairs


def align(old: Sequence[int], new: Sequence[int], likeness: Likeness) -> Alignment:
    """Pair the elements of two lists, given by their numbers: the same first, then what has one id, then alike."""
    kept = common(old, new)
    twins = _twins(old, new, kept, likeness)
    settled = sorted(kept + _in_order(twins, kept))
    chosen = set(settled)
    moved = [pair for pair in twins if pair not in chosen]
    gone, come = {i for i, _ in moved}, {j for _, j in moved}
    budget = _LIKENESSES_MAX
    alike: Pairs = []
    for start, end in _gaps(settled, len(old), len(new)):
        free_old = [i for i in range(start[0] + 1, end[0]) if i not in gone]
        free_new = [j for j in range(start[1] + 1, end[1]) if j not in come]
        cells = len(free_old) * len(free_new)
        if cells <= budget:
            budget -= cells
            alike += _best_pairs(free_old, free_new, likeness)
        else:
            alike += [pair for pair in zip(free_old, free_new, strict=False) if likeness.likeness(*pair) > 0]
    return Alignment(kept=sorted(settled + alike), moved=moved)


def common(old: Sequence[int], new: Sequence[int]) -> Pairs:
    """A long common subsequence, as rising pairs of indexes."""
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < shorter - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    pairs = [(i, i) for i in range(start)]
    middle_old, middle_new = range(start, len(old) - tail), range(start, len(new) - tail)
    if middle_old and middle_new:
        pairs += _common_middle(old, new, middle_old, middle_new)
    return pairs + [(len(old) - left, len(new) - left) for left in range(tail, 0, -1)]


def _common_middle(old: Sequence[int], new: Sequence[int], middle_old: range, middle_new: range) -> Pairs:
    anchors = _longest_rising(_same_once([(old[i], i) for i in middle_old], [(new[j], j) for j in middle_new]))
    pairs: Pairs = list(anchors)
    steps_left = _SEARCH_STEPS_MAX
    before = (middle_old.start - 1, middle_new.start - 1)
    for anchor in [*anchors, (middle_old.stop, middle_new.stop)]:
        gap_old, gap_new = range(before[0] + 1, anchor[0]), range(before[1] + 1, anchor[1])
        # Only what occurs on both sides of a gap can match, so two different gaps cost nothing.
        shared = {old[i] for i in gap_old} & {new[j] for j in gap_new}
        left, right = [i for i in gap_old if old[i] in shared], [j for j in gap_new if new[j] in shared]
        if shared and steps_left > 0:
            found, steps = _search([old[i] for i in left], [new[j] for j in right], steps_left)
            steps_left -= steps
            pairs += [(left[x], right[y]) for x, y in found]
        before = anchor
    return sorted(pairs)


def _search(old: list[int], new: list[int], steps_max: int) -> tuple[Pairs, int]:
    """Myers' greedy search for the shortest edit; the pairs that it keeps (none, if it gave up) and its steps."""
    reach: dict[int, int] = {1: 0}
    trace: list[dict[int, int]] = []
    steps = 0
    for distance in range(min(len(old) + len(new), _DISTANCE_MAX) + 1):
        trace.append(dict(reach))
        for k in range(-distance, distance + 1, 2):
            down = k == -distance or (k != distance and reach[k - 1] < reach[k + 1])
            x = start = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(old) and x - k < len(new) and old[x] == new[x - k]:
                x += 1
            reach[k] = x
            steps += 1 + x - start
            if x >= len(old) and x - k >= len(new):
                return _walk_back(trace, len(old), len(new)), steps
        if steps > steps_max:
            break
    return [], steps


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> Pairs:
    pairs: Pairs = []
    for distance in range(len(trace) - 1, -1, -1):
        reach, k = trace[distance], x - y
        down = k == -distance or (k != distance and reach[k - 1] < reach[k + 1])
        previous_k = k + 1 if down else k - 1
        previous_x = reach[previous_k]
        previous_y = previous_x - previous_k
        while x > max(previous_x, 0) and y > max(previous_y, 0):
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = previous_x, previous_y
    return pairs[::-1]


def _twins(old: Sequence[int], new: Sequence[int], kept: Pairs, likeness: Likeness) -> Pairs:
    """What is left over on both sides and is the same or has the same identity, if that tells it apart."""
    kept_old, kept_new = {i for i, _ in kept}, {j for _, j in kept}
    left = [i for i in range(len(old)) if i not in kept_old]
    right = [j for j in range(len(new)) if j not in kept_new]
    if not left or not right:
        return []
    pairs = _same_once([(old[i], i) for i in left], [(new[j], j) for j in right])
    taken_old, taken_new = {i for i, _ in pairs}, {j for _, j in pairs}
    ids_old = [(likeness.identity(0, i), i) for i in left if i not in taken_old]
    ids_new = [(likeness.identity(1, j), j) for j in right if j not in taken_new]
    return sorted(pairs + _same_once(ids_old, ids_new))


def _same_once(old: Sequence[tuple[Hashable, int]], new: Sequence[tuple[Hashable, int]]) -> Pairs:
    """Pairs of indexes whose name occurs exactly once on each side; which of many it was, nobody can tell."""
    counts_old, counts_new = Counter(name for name, _ in old), Counter(name for name, _ in new)
    places = {name: j for name, j in new if counts_new[name] == 1 and name is not None}
    return [(i, places[name]) for name, i in old if counts_old[name] == 1 and name in places]


def _in_order(twins: Pairs, kept: Pairs) -> Pairs:
    """As many of the twins as fit between the kept pairs without crossing."""
    kept_old, kept_new = [i for i, _ in kept], [j for _, j in kept]
    by_gap: defaultdict[int, Pairs] = defaultdict(list)
    for i, j in twins:
        gap = bisect_left(kept_old, i)
        if gap == bisect_left(kept_new, j):
            by_gap[gap].append((i, j))
    return [pair for inside in by_gap.values() for pair in _longest_rising(inside)]


def _unique_identities(side: int, indexes: list[int], likeness: Likeness) -> dict[Hashable, int]:
    names = [(name, i) for i in indexes if (name := likeness.identity(side, i)) is not None]
    counts = Counter(name for name, _ in names)
    return {name: i for name, i in names if counts[name] == 1}


def _longest_rising(pairs: Pairs) -> Pairs:
    """The longest part of the pairs, which rise by their old index, that rises by the new index too."""
    ends: list[int] = []  # ends[n]: the smallest new index that a rising part of n + 1 pairs can end with
    at: list[int] = []  # the pair that it ends with
    previous: list[int] = []
    for place, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        previous.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        at[length : length + 1] = [place]
    rising: Pairs = []
    place = at[-1] if at else -1
    while place >= 0:
        rising.append(pairs[place])
        place = previous[place]
    return rising[::-1]


def _gaps(kept: Pairs, old_length: int, new_length: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The pairs round each stretch in which both sides have something of their own."""
    before = (-1, -1)
    for pair in [*kept, (old_length, new_length)]:
        if pair[0] - before[0] > 1 and pair[1] - before[1] > 1:
            yield before, pair
        before = pair


def _best_pairs(old: list[int], new: list[int], likeness: Likeness) -> Pairs:
    """The rising pairs whose likenesses have the largest sum."""
    if not old or not new:
        return []
    scores = [[likeness.likeness(i, j) for j in new] for i in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for x in range(len(old) - 1, -1, -1):
        for y in range(len(new) - 1, -1, -1):
            pair = best[x + 1][y + 1] + scores[x][y] if scores[x][y] > 0 else 0.0
            best[x][y] = max(pair, best[x + 1][y], best[x][y + 1])
    pairs: Pairs = []
    x = y = 0
    while x < len(old) and y < len(new):
        if scores[x][y] > 0 and best[x][y] == best[x + 1][y + 1] + scores[x][y]:
            pairs.append((old[x], new[y]))
            x, y = x + 1, y + 1
        elif best[x][y] == best[x + 1][y]:
            x += 1
        else:
            y += 1
    return pairs
