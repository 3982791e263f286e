"""Points in time and durations as text, exactly: ISO 8601, and behind it in brackets what ISO has no place for."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, timezone, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo

from holdfast.errors import UnknownValueType

_Clock = TypeVar("_Clock", datetime, time)
# The zone's own name comes last, because it may be any text at all.
_KEY = re.compile(r"[A-Za-z0-9_+\-/]+")
_MARKS = re.compile(rf"([^\[]*)(?:\[({_KEY.pattern})\])?(\[fold=1\])?(?:\[tz=(.*)\])?", re.DOTALL)
_UNDER_A_SECOND = re.compile(r".*([+-])00:00:00(\.\d{6})", re.ASCII)
_DURATION = re.compile(r"(-?\d+)d(\d+)s(\d+)us", re.ASCII)


def datetime_text(value: datetime) -> str:
    """As in `2024-10-27T02:30:00+01:00[Europe/Paris][fold=1]`: the instant, the offset, and the zone if it has a key.

    Zones other than `ZoneInfo` and `timezone` come back as a `timezone` of the same offset.
    """
    return value.isoformat() + _marks(value)


def parse_datetime(text: str) -> datetime:
    iso, key, fold, name = _split(text)
    value = _with_marks(datetime.fromisoformat(iso), iso, fold, name)
    if key is None:
        return value
    in_zone = value.replace(tzinfo=_zone(key))
    # Zone rules change between machines and years: the stored instant and offset win over the zone's name.
    return in_zone if in_zone.utcoffset() == value.utcoffset() else value


def time_text(value: time) -> str:
    return value.isoformat() + _marks(value)


def parse_time(text: str) -> time:
    iso, key, fold, name = _split(text)
    value = _with_marks(time.fromisoformat(iso), iso, fold, name)
    return value if key is None else value.replace(tzinfo=_zone(key))


def timedelta_text(value: timedelta) -> str:
    return f"{value.days}d{value.seconds}s{value.microseconds}us"


def parse_timedelta(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.60} is no duration")
    days, seconds, microseconds = match.groups()
    return timedelta(days=int(days), seconds=int(seconds), microseconds=int(microseconds))


def _marks(value: datetime | time) -> str:
    zone = value.tzinfo
    marks = ""
    if isinstance(zone, ZoneInfo) and _KEY.fullmatch(zone.key or ""):  # Made from a file, it has no key.
        marks = f"[{zone.key}]"
    elif zone is not None and value.utcoffset() is None:
        raise TypeError("A zone without an offset or a key can't be kept")
    if value.fold:
        marks += "[fold=1]"
    if type(zone) is timezone and zone.tzname(None) != timezone(zone.utcoffset(None)).tzname(None):
        marks += f"[tz={zone.tzname(None)}]"
    return marks


def _split(text: str) -> tuple[str, str | None, int, str | None]:
    match = _MARKS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.60} is no time")
    iso, key, fold, name = match.groups()
    return iso, key, int(fold is not None), name


def _with_marks(value: _Clock, iso: str, fold: int, name: str | None) -> _Clock:
    zone: tzinfo | None = value.tzinfo
    if (tiny := _UNDER_A_SECOND.fullmatch(iso)) is not None:  # CPython reads such an offset as none at all.
        zone = timezone(timedelta(seconds=float("".join(tiny.groups()))))
    if name is not None:
        if zone is None:
            raise ValueError("A zone has a name but no offset")
        zone = timezone(zone.utcoffset(None) or timedelta(0), name)
    return value.replace(tzinfo=zone, fold=fold)


def _zone(key: str) -> ZoneInfo:
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError):
        raise UnknownValueType(
            f"A stored time is in the zone {key!r:.60}, which this machine does not know",
            hint="Install the tzdata package.",
        ) from None
