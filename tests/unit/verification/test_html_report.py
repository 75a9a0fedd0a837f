"""The report of a suite as a page, and two of them compared."""

from __future__ import annotations

from pathlib import Path

from plait.verification.html_report import comparison_page, report_page
from tests.unit.html.parsed import Parsed, parsed
from tests.unit.verification.sample_reports import case, hostile_result, write_report


def _cases(page: Parsed) -> list[tuple[str, str]]:
    items = page.all("details", "case")
    return [(one.attributes["data-outcome"], one.attributes["data-model"]) for one in items]


def test_a_report_has_rates_by_model_tag_and_check_with_intervals(tmp_path: Path) -> None:
    results = write_report(tmp_path)
    page = parsed(report_page("trips", results, folder=tmp_path))

    tables = page.all("table", "rates")
    assert [table.text.split("0 –")[0] for table in tables] == ["by model", "by tag", "by check"]
    assert "langchain:small67%39%–86%8 of 1275% / 50% (k = 3)" in tables[0].text
    assert "travel33%14%–61%4 of 12" in tables[1].text
    assert "no_tool_errors76%57%–89%19 of 25" in tables[2].text
    assert len(page.all("svg", "rate")) == 2 + 3 + 2
    assert page.all("dd", "big")[0].text == "67%"


def test_each_row_has_its_own_k_and_scores_their_mean() -> None:
    scored = [
        case("a", "passed", repeat=n, checks=({"name": "python", "passed": True, "score": n / 4},))
        for n in (1, 2)
    ]
    page = parsed(report_page("x", [*scored, case("b", "passed", model="other")]))

    by_model, _, by_check = (one.text for one in page.all("table", "rates"))
    assert "(k = 2)" in by_model
    assert "(k = 1)" in by_model
    assert "python, mean score 0.38" in by_check


def test_times_and_costs_are_drawn_by_model(tmp_path: Path) -> None:
    page = parsed(report_page("trips", write_report(tmp_path)))

    captions = [one.text for one in page.all("figcaption")]
    assert captions == ["Time of a run", "Cost of a run"]
    assert len(page.all("div", "histogram")) == 4
    bars = [one for one in page.all("rect") if "histogram" in one.inside]
    assert sum(float(one.attributes["height"]) for one in bars) == 25 + 25

    unknown = [case("a", "passed", cost_usd=None)]
    captions = [one.text for one in parsed(report_page("x", unknown)).all("figcaption")]
    assert captions == ["Time of a run", "Tokens of a run"]


def test_runs_that_did_not_pass_come_first_with_their_traces(tmp_path: Path) -> None:
    page = parsed(report_page("trips", write_report(tmp_path), folder=tmp_path))

    outcomes = [outcome for outcome, _ in _cases(page)]
    assert outcomes == ["failed"] * 8 + ["error"] + ["passed"] * 16
    traces = page.all("details", "trace")
    assert len(traces) == 8
    assert all("payment service unavailable (503)" in one.text for one in traces)
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(set(ids)) == len(ids)


def test_a_trace_that_is_gone_is_named(tmp_path: Path) -> None:
    results = write_report(tmp_path)
    path = tmp_path / next(one.trace for one in results if one.outcome == "failed" and one.trace)
    path.unlink()
    text = parsed(report_page("trips", results, folder=tmp_path)).all("main")[0].text

    assert f"the trace is not there: {path.relative_to(tmp_path)}" in text
    assert "no trace was recorded" in text


def test_a_hostile_result_is_shown_as_text(tmp_path: Path) -> None:
    page = parsed(report_page('<script>"', [hostile_result(tmp_path)], folder=tmp_path))

    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert not [name for one in page.elements for name in one.attributes if name.startswith("on")]
    assert "style" not in {name for one in page.elements for name in one.attributes}


def test_a_report_of_a_thousand_runs_stays_small() -> None:
    results = [case(f"case {number}", "passed", trace=None) for number in range(1_000)]

    assert len(report_page("big", results)) < 1_500_000


def test_two_reports_are_compared_case_by_case(tmp_path: Path) -> None:
    first = write_report(tmp_path / "a")
    second = write_report(tmp_path / "b", better=True)
    page = parsed(
        comparison_page(("before", first, tmp_path / "a"), ("after", second, tmp_path / "b"))
    )

    titles = [one.text for one in page.all("h2")]
    assert titles == ["Better: 3", "Keys"]
    cases = page.all("details", "case")
    assert [one.text.partition(" of ")[0] for one in cases] == [
        "book a train (claude_tool:large) 0",
        "book two (claude_tool:large) 2",
        "book two (langchain:small) 2",
    ]
    assert "Pass rate: difference +" in page.all("main")[0].text
    assert len(page.all("section", "compare")) == 3
    assert "Once more." in cases[0].text
