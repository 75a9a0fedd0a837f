"""Durations: seconds in snake_case keys, milliseconds in camelCase ones."""

from __future__ import annotations

import math
from datetime import timedelta

from plait.client.config.raw_value import UNSET, Given, Unit, Unset

_LONGEST_USUAL_SECONDS = 3600
"""A longer wait is more often a number of milliseconds under a key that takes seconds."""

_SHORTEST_USUAL_MILLISECONDS = 100
"""A shorter wait is more often a number of seconds under a key that takes milliseconds."""


def seconds_from(value: float | timedelta, unit: Unit) -> float:
    """Convert a duration to seconds; a timedelta carries its own unit."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value / 1000 if unit == "milliseconds" else float(value)


def read_seconds(given: Given) -> float | Unset:
    """Read a wait, which must be longer than nothing."""
    seconds = read_pause(given)
    if seconds == 0:
        return given.refuse("bad_duration", "must be more than 0")
    if seconds is not UNSET and given.unit == "milliseconds":
        _doubt_short(given)
    return seconds


def read_optional_seconds(given: Given) -> float | Unset:
    """Read a wait of which 0 means that it is not set."""
    return UNSET if _is_zero(given) else read_seconds(given)


def read_idle_seconds(given: Given) -> float | Unset | None:
    """Read a wait of which 0, false and null mean for ever."""
    if given.value is None or given.value is False or _is_zero(given):
        return None
    return read_seconds(given)


def read_pause(given: Given) -> float | Unset:
    """Read a duration that may be 0."""
    value = given.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        hint = f"without quotes: {value}" if str(value).isdecimal() else None
        return given.wrong_type(f"a number of {given.unit}", hint)
    try:
        seconds = seconds_from(value, given.unit)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        return given.refuse("bad_duration", "must be a finite number")
    if seconds < 0:
        return given.refuse("bad_duration", "must not be negative")
    if given.unit == "seconds" and not isinstance(value, timedelta):
        _doubt_long(given, seconds)
    return seconds


def read_seconds_by_tool(given: Given) -> dict[str, float] | Unset:
    """Read waits by tool name or glob; 0 and null leave a tool to the other settings."""
    if not given.is_object(f"an object of tool names and {given.unit}"):
        return UNSET
    waits = {
        tool: read_optional_seconds(entry)
        for tool, entry in given.entries()
        if entry.value is not None
    }
    return {tool: seconds for tool, seconds in waits.items() if seconds is not UNSET}


def _is_zero(given: Given) -> bool:
    value = given.value
    return isinstance(value, (int, float, timedelta)) and value is not False and not value


def _doubt_long(given: Given, seconds: float) -> None:
    if seconds > _LONGEST_USUAL_SECONDS:
        given.place.warn(
            "suspicious_duration",
            f"{seconds:g} seconds is more than an hour; milliseconds?",
            f"snake_case durations are in seconds: {seconds / 1000:g}",
        )


def _doubt_short(given: Given) -> None:
    value = given.value
    if isinstance(value, (int, float)) and value < _SHORTEST_USUAL_MILLISECONDS:
        given.place.warn(
            "suspicious_duration",
            f"{value:g} milliseconds is very short; seconds?",
            f"camelCase durations are in milliseconds: {value * 1000:g}",
        )
