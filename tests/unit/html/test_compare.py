"""Two runs side by side, and the list of runs."""

from __future__ import annotations

from plait.html.compare import compare_page
from plait.html.runs import run_row, runs_section
from plait.traces.differences import aligned, differences
from tests.unit.html.parsed import parsed
from tests.unit.html.sample_runs import failed_run, full_run, hostile_run, long_run


def test_equal_runs_are_the_same() -> None:
    one, other = full_run(), full_run(run="another")
    page = parsed(compare_page(one, other))

    assert differences(one, other) == []
    assert "The runs are the same." in page.all("main")[0].text
    assert page.all("del") == page.all("ins") == []


def test_turns_are_aligned_and_what_differs_is_marked() -> None:
    one, other = full_run(), full_run(warmer=-3, extra_turn=True)
    rows = [(row.same, row.first is None, row.second is None) for row in aligned(one, other)]
    page = parsed(compare_page(one, other, names=("before", "after")))

    assert rows == [
        (True, False, False),  # system prompt
        (True, False, False),  # question
        (False, False, False),  # the forecast differs
        (True, False, False),  # the booking
        (False, True, False),  # a second booking
        (False, False, False),  # the last turn
        (False, False, False),  # the answer
    ]
    assert "21.5" in [one.text for one in page.all("del")]
    assert "18.5" in [one.text for one in page.all("ins")]
    text = page.all("main")[0].text
    assert "4 steps differ." in text
    assert "2 steps the same" in text
    assert "only here" in text


def test_a_run_with_one_more_turn_differs_only_there() -> None:
    long, longer = long_run(30), long_run(33)
    changed = [row for row in aligned(long, longer) if not row.same]

    assert [row.first is None for row in changed] == [True]
    assert len([line for line in differences(long, longer) if line.startswith("-")]) <= 3


def test_rows_are_all_the_same_exactly_if_there_are_no_differences() -> None:
    runs = [full_run(), full_run(warmer=1), full_run(extra_turn=True), failed_run(), long_run(30)]
    for one in runs:
        for other in runs:
            same = all(row.same for row in aligned(one, other))
            assert same == (differences(one, other) == [])


def test_hostile_runs_are_compared_as_text() -> None:
    page = parsed(compare_page(hostile_run(big=50_000), full_run(), names=("<b>", '"><b>')))

    assert len(page.all("script")) == 1
    assert page.all("img") == []


def test_the_list_of_runs_can_be_filtered_and_two_of_them_compared() -> None:
    traces = [full_run(), full_run(run="b" * 12), failed_run(), hostile_run(big=100)]
    rows = [run_row(trace, href=f"run/{place}") for place, trace in enumerate(traces)]
    page = parsed(runs_section(rows, compare="compare"))

    items = [one for one in page.all("tr") if "data-item" in one.attributes]
    assert [one.attributes["data-outcome"] for one in items] == [
        "completed",
        "completed",
        "failed",
        "failed",
    ]
    assert items[0].attributes["data-server"].split("\n") == ["weather", "trains"]
    names = {one.attributes.get("data-filter") for one in page.all("select")}
    assert names == {"model", "server", "outcome"}
    assert {one.attributes.get("data-filter-min") for one in page.all("input")} >= {"cost", "time"}
    assert [
        one.attributes["value"] for one in page.all("input") if one.attributes["type"] == "checkbox"
    ][:2] == ["a1b2c3d4e5f6", "b" * 12]


def test_no_runs_are_an_empty_page_that_says_so() -> None:
    assert "No runs yet." in runs_section([])
