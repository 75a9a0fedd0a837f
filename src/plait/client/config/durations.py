"""Durations: seconds in snake_case keys, milliseconds in camelCase ones."""

from __future__ import annotations

import math
from datetime import timedelta

from plait.client.config.raw_value import UNSET, RawValue, Unit, Unset

_LONGEST_USUAL_SECONDS = 3600
"""A longer wait is more often a number of milliseconds under a key that takes seconds."""

_SHORTEST_USUAL_MILLISECONDS = 100
"""A shorter wait is more often a number of seconds under a key that takes milliseconds."""


def seconds_from(value: float | timedelta, unit: Unit) -> float:
    """Convert a duration to seconds; a timedelta carries its own unit."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value / 1000 if unit == "milliseconds" else float(value)


def read_seconds(raw: RawValue) -> float | Unset:
    """Read a wait, which must be longer than nothing."""
    seconds = read_delay(raw)
    if seconds == 0:
        return raw.reject("bad_duration", "must be more than 0")
    if seconds is not UNSET and raw.unit == "milliseconds":
        _doubt_short(raw)
    return seconds


def read_optional_seconds(raw: RawValue) -> float | Unset:
    """Read a wait of which 0 means that it is not set."""
    return UNSET if _is_zero(raw) else read_seconds(raw)


def read_idle_seconds(raw: RawValue) -> float | Unset | None:
    """Read a wait of which 0, false and null mean for ever."""
    if raw.value is None or raw.value is False or _is_zero(raw):
        return None
    return read_seconds(raw)


def read_delay(raw: RawValue) -> float | Unset:
    """Read a duration that may be 0."""
    value = raw.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        hint = f"without quotes: {value}" if str(value).isdecimal() else None
        return raw.wrong_type(f"a number of {raw.unit}", hint)
    try:
        seconds = seconds_from(value, raw.unit)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        return raw.reject("bad_duration", "must be a finite number")
    if seconds < 0:
        return raw.reject("bad_duration", "must not be negative")
    if raw.unit == "seconds" and not isinstance(value, timedelta):
        _doubt_long(raw, seconds)
    return seconds


def read_seconds_by_tool(raw: RawValue) -> dict[str, float] | Unset:
    """Read waits by tool name or glob; 0 and null leave a tool to the other settings."""
    if not raw.is_object(f"an object of tool names and {raw.unit}"):
        return UNSET
    waits = {
        tool: read_optional_seconds(entry)
        for tool, entry in raw.entries()
        if entry.value is not None
    }
    return {tool: seconds for tool, seconds in waits.items() if seconds is not UNSET}


def _is_zero(raw: RawValue) -> bool:
    value = raw.value
    return isinstance(value, (int, float, timedelta)) and value is not False and not value


def _doubt_long(raw: RawValue, seconds: float) -> None:
    if seconds > _LONGEST_USUAL_SECONDS:
        raw.location.warn(
            "suspicious_duration",
            f"{seconds:g} seconds is more than an hour; milliseconds?",
            f"snake_case durations are in seconds: {seconds / 1000:g}",
        )


def _doubt_short(raw: RawValue) -> None:
    value = raw.value
    if isinstance(value, (int, float)) and value < _SHORTEST_USUAL_MILLISECONDS:
        raw.location.warn(
            "suspicious_duration",
            f"{value:g} milliseconds is very short; seconds?",
            f"camelCase durations are in milliseconds: {value * 1000:g}",
        )
