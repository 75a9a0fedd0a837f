"""Checks durations that programs pass: finite numbers of seconds."""

from __future__ import annotations

import math
from datetime import timedelta

from plait.errors import ConfigError


def checked_seconds(value: object, setting: str, *, may_be_zero: bool = False) -> float:
    """Return a duration in seconds, or raise `ConfigError`: NaN, infinity and bool are none."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    try:
        usable = isinstance(number, int | float) and math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        usable = False
    if isinstance(number, bool) or not isinstance(number, int | float) or not usable:
        raise ConfigError(f"{setting}: expected a finite number of seconds, found {value!r}")
    if number < 0 or (number == 0 and not may_be_zero):
        bound = "not be negative" if may_be_zero else "be more than 0"
        raise ConfigError(f"{setting}: must {bound}, found {value!r}")
    return float(number)


def checked_limit(value: object, setting: str) -> float | None:
    """Return the seconds of a limit, which may be 0; `None` stays `None`."""
    return None if value is None else checked_seconds(value, setting, may_be_zero=True)
