"""Paths lead to values in JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.calls.result_budget.limiter import PathError, is_single, path_to, select

DATA: dict[str, Any] = {
    "rows": [{"id": 0, "name": "zero"}, {"id": 1}, {"id": 2, "name": "two"}],
    "a b": {"c.d": [10, 20, 30], "": 1, '"': 2},
    "größe": 3,
    "last-run": None,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", DATA),
        ("", DATA),
        ("$.rows[0].name", "zero"),
        ("rows[0].name", "zero"),
        ("$.rows[-1].id", 2),
        ("$.rows[1:].id", [1, 2]),
        ("$.rows[:2]", DATA["rows"][:2]),
        ("$.rows[*].name", ["zero", "two"]),
        ("$.rows.*.id", [0, 1, 2]),
        ("$['a b'][\"c.d\"][ 1 : 3 ]", [20, 30]),
        ('$["a b"]["\\""]', 2),
        ("$['a b']['']", 1),
        ("$.größe", 3),
        ("$.last-run", None),
        ("[0:100]", list(DATA.values())),
    ],
)
def test_a_path_leads_to_a_value(path: str, value: Any) -> None:
    assert select(DATA, path) == value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("$.rows[3]", "3 items"),
        ("$.row", "rows, a b"),
        ("$.rows.id", "is a list"),
        ("$.größe.x", "is a number"),
        ("$.größe[0]", "is a number"),
        ("$.rows[0][1:2].x", "is a string"),
        ("$.rows[*].none", "no 'none'"),
        ("$.rows[?(@.id)]", r"from '\[\?"),
        ("$..id", r"from '\.\.id'"),
        ('$["a', "from"),
    ],
)
def test_a_path_that_leads_nowhere_says_why(path: str, reason: str) -> None:
    with pytest.raises(PathError, match=reason):
        select(DATA, path)


def test_ranges_make_lists() -> None:
    assert is_single("$.a[1].b")
    assert not is_single("$.a[1:2].b")
    assert not is_single("$.a[*]")


@given(st.lists(st.text() | st.integers(0, 5), max_size=5), st.integers())
def test_a_path_that_was_made_leads_back(steps: list[str | int], leaf: int) -> None:
    value: Any = leaf
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [None] * step + [value]
    path: str | None = "$"
    for step in steps:
        path = path_to(path, step)

    assert path is not None
    assert select(value, path) == leaf
