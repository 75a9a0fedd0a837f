"""Checks durations and other numbers that programs pass: NaN, infinity and bool are none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeGuard, cast

from plait.errors import ConfigError


def is_finite_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that can be counted with."""
    try:
        is_finite = isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False
    return is_finite and not isinstance(value, bool)


def checked_seconds(value: object, setting: str, *, may_be_zero: bool = False) -> float:
    """Return a duration in seconds, or raise `ConfigError`."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_finite_number(number):
        found = "a number too large" if type(value) is int else repr(value)
        raise ConfigError(f"{setting}: expected a finite number of seconds, found {found}")
    if number < 0 or (number == 0 and not may_be_zero):
        bound = "not be negative" if may_be_zero else "be more than 0"
        raise ConfigError(f"{setting}: must {bound}")
    return float(number)


def checked_limit(value: object, setting: str) -> float | None:
    """Return the seconds of a limit, which may be 0; `None` stays `None`."""
    return None if value is None else checked_seconds(value, setting, may_be_zero=True)


def check_durations(settings: Any, *names: str, may_be_zero: bool = False) -> None:
    """Check fields of a frozen dataclass, and store them in seconds; `None` is kept.

    A field may also be a mapping of durations.
    """

    def seconds_of(value: object, name: str) -> object:
        if isinstance(value, Mapping):
            entries = cast("Mapping[str, object]", value)
            return {key: seconds_of(entry, f"{name}[{key!r}]") for key, entry in entries.items()}
        return checked_seconds(value, name, may_be_zero=may_be_zero)

    for name in names:
        value = getattr(settings, name)
        if value is not None:
            object.__setattr__(settings, name, seconds_of(value, name))


def check_counts(settings: object, *names: str) -> None:
    """Check that fields are whole numbers of at least 1, or `None`."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"{name}: expected a whole number of at least 1")
