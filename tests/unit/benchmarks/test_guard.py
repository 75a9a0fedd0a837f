"""The bounds on CPU compared with the SDK's client."""

from __future__ import annotations

from benchmarks.compare.contenders import OWN_LOOP, PLAIT, SDK
from benchmarks.compare.guard import BOUNDS, Bound, cpu_ratios, violations
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import ROWS

STDIO = {"stdio": Bound(1, callers_loop=2.0, own_loop=3.0)}


def test_ratios_up_to_their_bounds_pass() -> None:
    ratios = {("stdio", "plait"): 2.0, ("stdio", "plait-own"): 2.9}

    assert violations(ratios, STDIO) == []


def test_a_row_above_its_bound_is_named_with_both_numbers() -> None:
    ratios = {("stdio", "plait"): 2.01, ("stdio", "plait-own"): 6.0}

    assert violations(ratios, STDIO) == [
        "stdio, plait: measured 2.01, bound 2.00",
        "stdio, plait-own: measured 6.00, bound 3.00",
    ]


def test_a_row_without_a_number_fails() -> None:
    assert violations({("stdio", "plait"): None}, STDIO) == [
        "stdio, plait: not measured, bound 2.00"
    ]


def test_every_bound_belongs_to_a_row_of_the_comparison() -> None:
    assert BOUNDS.keys() <= {row.id for row in ROWS}


def test_ratios_are_read_for_every_bound_in_both_loop_modes() -> None:
    results = Results()
    for row in BOUNDS:
        for contender, cpu in ((SDK, 1.0), (PLAIT, 1.5), (OWN_LOOP, 2.5)):
            results.add(contender.id, 0, {row: {"samples": [1.0], "cpu": cpu}})

    ratios = cpu_ratios(results)

    assert ratios == {
        **{(row, "plait"): 1.5 for row in BOUNDS},
        **{(row, "plait-own"): 2.5 for row in BOUNDS},
    }
