"""What a text says once everything volatile in it is masked: times, durations, ids, addresses; never small numbers."""

from __future__ import annotations

import re
from typing import Final

_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?"
_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTH: Final = rf"(?:{_MONTHS})[a-z]*\.?"
_NAMES_A_MONTH: Final = re.compile(_MONTHS)
_UNIT: Final = r"(?:ns|us|µs|ms|msecs?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)"
# Tried where a word begins that has a digit in it.
_VOLATILE: Final = "|".join(
    (
        # 2026-11-19T20:36:28.123+02:00, 2026/11/19 20:36, 20:36:28,123 PM
        r"\d{4}[-/.]\d\d?[-/.]\d\d?(?:[T ,]+\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?",
        r"\d\d?[/.]\d\d?[/.]\d{4}",
        r"\d{8}[T_-]\d{4,6}Z?",
        r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?[AaPp][Mm]\b)?",
        # 0x7f3e9c10, 10.0.3.17:5432
        r"0x[0-9a-fA-F]+",
        r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?",
        r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
        # letters between digits or digits between letters, as in names that were made up: 9fKx2, 3f9ab17
        r"(?=[A-Za-z0-9]{5})(?:\d+[A-Za-z]+\d|[A-Za-z]+\d+[A-Za-z])[A-Za-z0-9]*",
        r"(?=[0-9a-f]{7})(?:[a-f]+\d|\d+[a-f])[0-9a-f]*\b",
        # 0.12s, 2 minutes, 1h 3m 20s
        rf"(?:\d+(?:\.\d+)? ?{_UNIT}(?:\b ?|(?=\d)))+(?<! )",
        # INC48213
        r"[A-Za-z]{1,5}[1-9]\d{4,}\b",
        # epochs and serial numbers, but no count of bytes that grows
        r"(?<!\d\.)\d{9,}+(?:\.\d+)?(?! ?(?:/|of\b|bytes\b|B\b))",
    )
)
_WORDS: Final = re.compile(rf"(?<![A-Za-z0-9])(?=[A-Za-z]*+\d)(?:{_VOLATILE})")
# Thu, Nov 19 2026; Thu, 19 Nov 2026. Looked for only where a month is named, because few texts name one.
_DATES: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_DAY} )?(?:{_MONTH} \d\d?\b(?:,? \d{{4}}\b(?!:))?"
    rf"|\d\d?[ -]{_MONTH}\b(?! \d\d?\b)(?:[ -]\d{{4}})?)"
)
# request_id=48213, "elapsed": 12, port 8080
_KEYED: Final = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z_-]*+)([\"']?(?: ?[:=#] ?| )[\"']?)(?=[A-Za-z.+/_-]*+\d)([\w.+/-]+)"
)
_KEYS: Final = frozenset(
    re.findall(
        r"\w+",
        "id pid tid uid uuid guid port nonce token seq took elapsed uptime latency duration timestamp ts time eta age "
        "expires request req session trace span correlation",
    )
)
_ENDINGS: Final = ("Id", "ID", "At", "Ms", "Seconds", "Time")  # requestId
_UNITS: Final = frozenset(["at", "on", "ns", "us", "ms", "s", "sec", "secs", "seconds"])  # took_ms
# job 48213, but step 12
_NUMBERED: Final = frozenset(
    re.findall(
        r"\w+",
        "job worker process thread task build run connection conn client instance container pod node message msg event "
        "transaction txn nr no ref reference",
    )
)
# worker[4821], #4821, Thread-48213
_BRACKETED: Final = re.compile(r"[\[(#_-](?:(?<=[\[(#])\d{3,}|(?<=[A-Za-z][_-])[1-9]\d{4,})\b")
_TEMPORARY: Final = re.compile(r"(/tmp|/var/folders|/temp)/[\w./-]+")
_DIGIT: Final = re.compile(r"\d")
_NUMBERED_MIN: Final = 4
_KEPT_MAX: Final = 300


def masked(text: str) -> str:
    """The text on one line with its volatile parts masked; of a long one the middle is kept without its digits.

    >>> masked("job 7f3a9c1e: 3 of 10 done at 2026-11-19T20:36:28Z (took 1.4 s)")
    'job ~: 3 of 10 done at ~ (took ~)'
    """
    if len(text) > 2 * _KEPT_MAX:
        middle = text[_KEPT_MAX:-_KEPT_MAX].encode("utf-8", "surrogatepass").translate(None, b"0123456789")
        ends = masked(text[:_KEPT_MAX]), masked(text[-_KEPT_MAX:])
        return f"{ends[0]} {middle.decode('utf-8', 'surrogatepass')} {ends[1]}"
    text = " ".join(text.split())
    if "/t" in text or "/var" in text:
        text = _TEMPORARY.sub(r"\1/~", text)
    if _DIGIT.search(text) is None:
        return text
    if _NAMES_A_MONTH.search(text) is not None:
        text = _DATES.sub("~", text)
    text = _WORDS.sub("~", text)
    if _DIGIT.search(text) is None:
        return text
    return _BRACKETED.sub("#", _KEYED.sub(_value_masked, text))


def _value_masked(found: re.Match[str]) -> str:
    key, between, value = found.groups()
    head, _, last = key.replace("-", "_").rpartition("_")
    volatile = last.lower() in _KEYS or last.endswith(_ENDINGS) or (head and last in _UNITS)
    numbered = last.lower() in _NUMBERED and value.isdigit() and len(value) >= _NUMBERED_MIN
    return f"{key}{between}~" if volatile or numbered else found[0]
