"""Tables of benchmark results."""

from __future__ import annotations

import pytest

from benchmarks.compare.contenders import LIMIT, NODE, PLAIT, SDK
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import Row
from benchmarks.compare.table import (
    Table,
    amount,
    plait_table,
    ratio_table,
    reasons,
    times_table,
)

CALL = Row("stdio", "stdio", "Call")
HEAL = Row("heal", "after a kill", "Call")
MEMORY = Row("memory", "memory", "Call", unit="bytes")
ROWS = [CALL, HEAL, MEMORY]
CONTENDERS = [LIMIT, PLAIT, SDK, NODE]


def measured() -> Results:
    results = Results()
    calls = {LIMIT: (50e-6, 40e-6), PLAIT: (100e-6, 100e-6), SDK: (200e-6, 180e-6)}
    for contender, (wall, cpu) in calls.items():
        results.add(contender.id, 0, {"stdio": {"samples": [wall], "cpu": cpu}})
    results.dashes[NODE.id, "stdio"] = "cannot"
    results.add(PLAIT.id, 0, {"heal": {"samples": [0.0402], "cpu": 0.001}})
    results.add(SDK.id, 0, {"heal": {"samples": [], "cpu": None, "lost": "Connection closed"}})
    results.add(LIMIT.id, 0, {"memory": {"samples": [1e6], "cpu": None}})
    results.add(PLAIT.id, 0, {"memory": {"samples": [2.5e6], "cpu": None}})
    return results


def test_ratios_to_the_limit_have_wall_time_and_cpu() -> None:
    table = ratio_table(measured(), ROWS, CONTENDERS)

    assert table.header[1:] == ("limit", "plait", "mcp.Client", "JS adapter")
    assert table.lines == (
        ("Call: stdio", "50 µs", "2.00 / 2.50", "4.00 / 4.50", "–"),
        ("Call: after a kill", "–", "40.2 ms", "lost", "–"),
        ("Call: memory", "1 MB", "2.50", "–", "–"),
    )


def test_plait_is_compared_with_the_limit_and_its_peers() -> None:
    table = plait_table(measured(), [CALL])

    assert table.lines == (("Call: stdio", "2.00 / –", "0.50 / –", "– / –", "– / –"),)


def test_times_have_p50_p99_and_cpu() -> None:
    table = times_table(measured(), ROWS, [PLAIT, SDK])

    assert table.lines == (
        ("Call: stdio", "100 µs, 100 µs, 100 µs", "200 µs, 200 µs, 180 µs"),
        ("Call: after a kill", "40.2 ms, 40.2 ms, 1 ms", "lost"),
        ("Call: memory", "2.5 MB", "–"),
    )


def test_every_dash_has_a_reason_and_a_missing_contender_only_one() -> None:
    results = measured()
    results.missing[SDK.id] = "no such version"

    assert reasons(results, ROWS, CONTENDERS) == [
        "`mcp.Client`, session held: no environment: no such version",
        "@langchain/mcp-adapters on Node: cannot (Call: stdio)",
    ]


def test_a_table_is_laid_out_for_the_terminal_and_as_markdown() -> None:
    table = Table(("row", "plait"), (("first", "1.00"), ("x", "10.0")))

    assert table.to_text() == "row    plait\nfirst   1.00\nx       10.0"
    assert table.to_markdown() == (
        "| row | plait |\n| --- | ---: |\n| first | 1.00 |\n| x | 10.0 |"
    )


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (47.3e-6, "s", "47.3 µs"),
        (999.4e-6, "s", "999 µs"),
        (999.6e-6, "s", "1 ms"),
        (0.0123, "s", "12.3 ms"),
        (14.31, "s", "14.3 s"),
        (3_400_000, "bytes", "3.4 MB"),
        (1_234_000_000, "bytes", "1234 MB"),
        (0, "bytes", "0 MB"),
    ],
)
def test_an_amount_has_three_digits_and_a_unit(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text
