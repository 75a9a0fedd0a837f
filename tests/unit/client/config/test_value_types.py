"""Durations are seconds in snake_case keys and milliseconds in camelCase ones."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.config.raw_value import (
    Location,
    Problems,
    RawValue,
    RejectedError,
    Unit,
    Variables,
    unit_of,
)
from plait.client.config.value_types import read_delay, read_seconds

units = st.sampled_from(["seconds", "milliseconds"])
amounts = st.integers(1, 10**9) | st.floats(1e-3, 1e9)


def raw_value(value: object, unit: Unit) -> RawValue:
    variables = Variables(environ={}, folder=Path("/"), home=Path("/"))
    return RawValue(value, Location(Problems()), variables, unit)


@given(amounts, units)
def test_a_number_is_in_the_unit_of_its_key(amount: float, unit: Unit) -> None:
    read = read_seconds(raw_value(amount, unit))

    assert read == (amount / 1000 if unit == "milliseconds" else amount)


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=9999)), units)
def test_a_timedelta_has_its_own_unit(duration: timedelta, unit: Unit) -> None:
    assert read_seconds(raw_value(duration, unit)) == duration.total_seconds()


@given(amounts)
def test_the_two_units_agree(amount: float) -> None:
    milliseconds = read_delay(raw_value(amount * 1000, "milliseconds"))

    assert milliseconds == pytest.approx(read_delay(raw_value(amount, "seconds")))


@given(
    st.floats(max_value=-1e-9)
    | st.integers(max_value=-1)
    | st.sampled_from([math.nan, math.inf, 10**400, True, False, timedelta(-1)])
    | st.text()
    | st.none()
    | st.lists(st.integers()),
    units,
)
def test_what_is_no_duration_is_refused(value: object, unit: Unit) -> None:
    raw = raw_value(value, unit)

    with pytest.raises(RejectedError):
        read_delay(raw)
    assert len(raw.location.problems.errors) == 1


@given(st.floats(0, 1e6), units)
def test_only_a_long_number_of_seconds_is_doubted(amount: float, unit: Unit) -> None:
    raw = raw_value(amount, unit)

    read_delay(raw)

    doubted = [problem.code for problem in raw.location.problems.warnings]
    assert doubted == (["suspicious_duration"] if unit == "seconds" and amount > 3600 else [])


@pytest.mark.parametrize(
    ("spelling", "unit"),
    [
        ("timeout", "seconds"),
        ("connect_timeout", "seconds"),
        ("connectTimeout", "milliseconds"),
        ("sseReadTimeout", "milliseconds"),
    ],
)
def test_the_spelling_of_a_key_decides_its_unit(spelling: str, unit: str) -> None:
    assert unit_of(spelling) == unit
