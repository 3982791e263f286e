"""Drift: what is found in labelled runs and in runs with loops put into them, what is accused wrongly, how soon."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.driftforms import HELD_BACK, SEEN_ONCE
from benchmarks.driftrules import RULES, Rule
from benchmarks.options import Options
from benchmarks.result import Result, Target
from holdfast.drift.detector import DriftDetector
from holdfast.drift.errorrate import ErrorRate
from holdfast.drift.forms import FORMS
from holdfast.drift.injection import HEALTHY, LOOPS, Form, inject
from holdfast.drift.latency import Latency
from holdfast.drift.normal import Normal
from holdfast.drift.protocol import Detector, Event
from holdfast.drift.recording import RecordedRun, runs_in
from holdfast.drift.training import learned

SAMPLE = Path(__file__).with_name("drift_sample.jsonl")
_LABEL = "Repetition"
_DRIFTS_FROM = 3  # labels of repetition in a run; runs with fewer, but some, are judged by nobody
_NOTED_MAX = 60

Make = Callable[[], Detector]


@dataclass(frozen=True)
class Judged:
    """A run with what should be found in it."""

    run: RecordedRun
    file: str
    drifts: bool


def measure(options: Options) -> list[Result]:
    files = {path.name: runs_in(path.open(encoding="utf-8")) for path in options.files or (SAMPLE,)}
    judged = [one for name, runs in files.items() for one in judge(name, runs)]
    chance = random.Random(20260)
    hosts = [run.events for runs in files.values() for run in runs if len(run.events) >= 8 and quiet(run.events)]
    chance.shuffle(hosts)
    known, unseen = hosts[::2], hosts[1::2]
    trained, other = learned(known, FORMS, chance), learned(unseen, FORMS, chance)
    makes: dict[str, Make] = {
        "Holdfast": DriftDetector,
        "Holdfast, trained": lambda: DriftDetector(combination=trained),
        **{name: (lambda rule=rule: Rule(rule)) for name, rule in RULES.items()},
    }
    count = options.some(500, 60)
    # A run is judged by what was trained without it.
    seen = {id(events) for events in known}
    results = [
        in_runs(
            judged, makes, lambda run: DriftDetector(combination=other if id(run.events) in seen else trained), chance
        )
    ]
    for title, forms in (
        ("forms that nothing was tuned on", HELD_BACK),
        ("forms that changes were made for", SEEN_ONCE),
        ("forms known while tuning", FORMS),
    ):
        results.append(injected(title, unseen, forms, makes, count, chance))
    return [*results, waiting(unseen, count, chance), rises(options.some(200, 40), chance), cost(files)]


def judge(file: str, runs: Iterable[RecordedRun]) -> list[Judged]:
    """Labelled runs by their labels, others only when they succeeded: then nothing should be found."""
    judged = []
    for run in runs:
        repeats = run.labels.count(_LABEL)
        if repeats >= _DRIFTS_FROM or (any(run.labels) and repeats == 0) or (not any(run.labels) and run.success):
            judged.append(Judged(run, file, repeats >= _DRIFTS_FROM))
    return judged


def in_runs(
    judged: Sequence[Judged], makes: dict[str, Make], trained: Callable[[RecordedRun], Detector], chance: random.Random
) -> Result:
    result = Result(
        name="drift-runs",
        title="Drift in recorded runs",
        how=(
            f"A run drifts when {_DRIFTS_FROM} of its events or more are labelled {_LABEL}, and does not when none is, "
            "or when it has no labels and succeeded. It is found, or accused, with the first alarm. In brackets the "
            "95 % interval of F1 over runs drawn anew 2,000 times. Early: how many events the alarm was before the "
            "third label."
        ),
        columns=("detector", "found", "accused", "of them succeeded", "precision", "recall", "F1", "early, median"),
    )
    for name, make in makes.items():
        alarms = [
            first_alarm(trained(one.run) if name.endswith("trained") else make(), one.run.events) for one in judged
        ]
        told = [(one.drifts, alarm is not None) for one, alarm in zip(judged, alarms, strict=True)]
        found = sum(drifts and alarm for drifts, alarm in told)
        wrong = [
            (one, alarm) for one, alarm in zip(judged, alarms, strict=True) if alarm is not None and not one.drifts
        ]
        early = [
            third_label(one.run) - alarm
            for one, alarm in zip(judged, alarms, strict=True)
            if one.drifts and alarm is not None
        ]
        low, high = interval(told, chance)
        result.add(
            name,
            f"{found} of {sum(drifts for drifts, _ in told)}",
            f"{len(wrong)} of {sum(not drifts for drifts, _ in told)}",
            f"{sum(bool(one.run.success) for one, _ in wrong)} of {sum(bool(one.run.success) for one in judged)}",
            *(shown(value) for value in (precision(told), recall(told))),
            f"{shown(f1(told))} ({shown(low)} … {shown(high)})",
            f"{median(early):g}" if early else "",
        )
        result.figures |= {
            f"{name}: precision": precision(told),
            f"{name}: recall": recall(told),
            f"{name}: F1": f1(told),
        }
        if name == "Holdfast":
            result.notes += [f"accused: {one.file}, {one.run.name}, {why(one.run)}" for one, _ in wrong][:_NOTED_MAX]
            result.notes += [
                f"missed: {one.file}, {one.run.name}"
                for one, alarm in zip(judged, alarms, strict=True)
                if one.drifts and alarm is None
            ]
            result.notes += [
                f"found: {one.file}, {one.run.name}, {why(one.run)}"
                for one, alarm in zip(judged, alarms, strict=True)
                if one.drifts and alarm is not None
            ][:_NOTED_MAX]
            accused = sum(bool(one.run.success) for one, _ in wrong)
            result.targets += [
                Target(what="runs that drift, found", measured=recall(told) * 100, at_least=92, unit=" %"),
                Target(
                    what="runs labelled without repetition, accused",
                    measured=sum(any(one.run.labels) for one, _ in wrong),
                    at_most=1,
                ),
                Target(what="successful runs accused", measured=accused, at_most=1),
            ]
    return result


def injected(
    title: str,
    hosts: Sequence[Sequence[Event]],
    forms: Sequence[Form],
    makes: dict[str, Make],
    count: int,
    chance: random.Random,
) -> Result:
    result = Result(
        name="drift-injected",
        title=f"Loops put into runs: {title}",
        how=(
            f"{count} of each kind, put into runs in which nothing was found and on which nothing was trained; forms: "
            f"{', '.join(form.name for form in forms)}. In brackets the median delay in events after the loop's third "
            "round, where a loop was found. The last lines are healthy: there the share that is accused."
        ),
        columns=("kind", *makes),
    )
    delays: list[int] = []
    for kind in [*LOOPS, *HEALTHY]:
        made = [inject(chance.choice(hosts), kind, forms[number % len(forms)], chance) for number in range(count)]
        cells = []
        for name, make in makes.items():
            alarms = [first_alarm(make(), one.events[: one.ends + 1], one.begins) for one in made]
            late = [alarm - one.third for one, alarm in zip(made, alarms, strict=True) if alarm is not None]
            share = len(late) / count * 100
            loop = kind in LOOPS
            cells.append(f"{share:.1f} %" + (f" ({median(late):g})" if loop and late else ""))
            if name == "Holdfast":
                bound = {"at_least": 95.0} if loop else {"at_most": 2.0}
                result.targets.append(
                    Target(what=f"{kind} {'found' if loop else 'accused'}", measured=share, unit=" %", **bound)
                )
                delays += late if loop else []
        result.add(kind, *cells)
    result.targets.append(Target(what="median delay of all loops", measured=median(delays), at_most=2, unit=" events"))
    return result


def waiting(hosts: Sequence[Sequence[Event]], count: int, chance: random.Random) -> Result:
    """An agent that waits by nature: it asks in vain, sleeps, asks again, until the answer is another."""
    result = Result(
        name="drift-waiting",
        title="An agent that waits by nature",
        how=(
            f"{count} agents ask 5 to 9 times for one thing, sleeping in between, until there is news; six times, with "
            "other work in between. Then the thing never comes. Accused: alarms in the last three of the six waits, "
            "which were healthy. Found: an alarm in the endless one, within 40 questions."
        ),
        columns=("detector", "accused", "found", "questions until found, median"),
    )
    for name, make in {
        "Holdfast": DriftDetector,
        "Holdfast, with Normal()": lambda: DriftDetector(normal=Normal()),
    }.items():
        accused, found = 0, []
        for _ in range(count):
            detector, works = make(), chance.sample(hosts, 6)
            for wait in range(6):
                drifts = [detector.observe(event) for event in wait_of(chance.randrange(5, 10), wait)]
                drifts += [detector.observe(event) for event in works[wait][:10]]
                accused += wait >= 3 and any(drift and not drift.ongoing for drift in drifts)
            alarm = first_alarm(detector, wait_of(40, 6))
            found += [alarm // 2 + 1] if alarm is not None else []
        result.add(
            name, f"{accused / count / 3:.1%}", f"{len(found) / count:.1%}", f"{median(found):g}" if found else ""
        )
    return result


def wait_of(questions: int, number: int) -> list[Event]:
    events = []
    for asked in range(questions):
        state = "done" if asked == questions - 1 and questions < 40 else "queued"
        told = f'{{"job": {number}, "state": "{state}", "asked_at": {1_790_000_000 + asked * 30}}}'
        events += [
            Event(action="job_state", arguments={"job": number}, outcome=told),
            Event(action="sleep", arguments={"s": 30}),
        ]
    return events


def rises(count: int, chance: random.Random) -> Result:
    result = Result(
        name="drift-rises",
        title="Errors and durations that rise",
        how=(
            f"{count} streams of 100 events in which all is new, then the rise; medians over streams. The second "
            "figure in a cell is with ErrorRate(excess=3) and Latency(excess=3)."
        ),
        columns=("what", "found within 60 events", "events until then", "false alarms per 1,000 events before"),
    )
    makes: tuple[Make, ...] = (
        DriftDetector,
        lambda: DriftDetector(error_rate=ErrorRate(excess=3), latency=Latency(excess=3)),
    )
    for what, rate, slow in (
        ("errors from 5 % to 40 %", 0.4, 1.0),
        ("errors from 5 % to 80 %", 0.8, 1.0),
        ("durations doubled", 0.05, 2.0),
        ("durations five times as long", 0.05, 5.0),
    ):
        cells = []
        for make in makes:
            tried = [rise(make(), rate, slow, chance) for _ in range(count)]
            late = [delay for delay, _ in tried if delay is not None]
            false = sum(false for _, false in tried) / count * 10
            cells.append((f"{len(late) / count:.0%}", f"{median(late):g}" if late else "", f"{false:.2g}"))
        result.add(what, *(" / ".join(pair) for pair in zip(*cells, strict=True)))
    return result


def rise(detector: Detector, rate: float, slow: float, chance: random.Random) -> tuple[int | None, int]:
    """How many events after the rise it was found, and how many false alarms there were before."""
    false = 0
    for number in range(160):
        after = number >= 100
        failed = chance.random() < (rate if after else 0.05)
        event = Event(
            action="work",
            arguments=number,
            outcome=f"result {number}",
            error=f"{_name(number)} broke" if failed else None,
            duration_seconds=math.exp(chance.gauss(0, 0.3)) * (slow if after else 1.0),
        )
        drift = detector.observe(event)
        if drift and not after:
            false += not drift.ongoing
        elif drift:
            return number - 99, false
    return None, false


def cost(files: dict[str, list[RecordedRun]]) -> Result:
    result = Result(
        name="drift-cost",
        title="What it costs",
        how=(
            "All events of the files, one detector per run; CPU time, the best of five passes. The state is JSON, at "
            "the end of a run."
        ),
        columns=("detector", "events", "µs per event", "state, median bytes", "largest"),
    )
    runs = [run.events for all_runs in files.values() for run in all_runs]
    events = sum(map(len, runs))
    for name, make in {
        "Holdfast": DriftDetector,
        "Holdfast, with Normal()": lambda: DriftDetector(normal=Normal()),
    }.items():
        best, sizes = math.inf, []
        for _ in range(5):
            detectors = [make() for _ in runs]
            started = time.process_time()
            for detector, run in zip(detectors, runs, strict=True):
                for event in run:
                    detector.observe(event)
            best = min(best, time.process_time() - started)
            sizes = [len(json.dumps(detector.state())) for detector in detectors]
        result.add(name, f"{events:,}", f"{best / events * 1e6:.0f}", f"{median(sizes):,.0f}", f"{max(sizes):,}")
        result.figures[f"{name}: seconds per event"] = best / events
    result.targets.append(
        Target(what="per event", measured=result.figures["Holdfast: seconds per event"] * 1e6, at_most=50, unit=" µs")
    )
    return result


# --- parts


def _name(number: int) -> str:
    """A word that no other number has."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number)) + "x"


def first_alarm(detector: Detector, events: Iterable[Event], begins: int = 0) -> int | None:
    """The place of the first event with an alarm, not before a place."""
    for place, event in enumerate(events):
        if detector.observe(event) is not None and place >= begins:
            return place
    return None


def quiet(events: Iterable[Event]) -> bool:
    return first_alarm(DriftDetector(), events) is None


def why(run: RecordedRun) -> str:
    detector = DriftDetector()
    for number, event in enumerate(run.events, start=1):
        drift = detector.observe(event)
        if drift:
            return f"event {number} of {len(run.events)}: {drift.reason}"
    return ""


def third_label(run: RecordedRun) -> int:
    return [place for place, label in enumerate(run.labels) if label == _LABEL][_DRIFTS_FROM - 1]


def precision(told: Sequence[tuple[bool, bool]]) -> float:
    alarms = [drifts for drifts, alarm in told if alarm]
    return sum(alarms) / len(alarms) if alarms else math.nan


def recall(told: Sequence[tuple[bool, bool]]) -> float:
    drifting = [alarm for drifts, alarm in told if drifts]
    return sum(drifting) / len(drifting) if drifting else math.nan


def f1(told: Sequence[tuple[bool, bool]]) -> float:
    both = sum(drifts and alarm for drifts, alarm in told)
    either = sum(drifts for drifts, _ in told) + sum(alarm for _, alarm in told)
    return 2 * both / either if either else math.nan


def interval(told: Sequence[tuple[bool, bool]], chance: random.Random) -> tuple[float, float]:
    drawn = sorted(value for _ in range(2000) if not math.isnan(value := f1(chance.choices(told, k=len(told)))))
    return (drawn[int(len(drawn) * 0.025)], drawn[int(len(drawn) * 0.975)]) if drawn else (math.nan, math.nan)


def shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"
