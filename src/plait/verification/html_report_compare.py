"""Two reports of the same cases as one page: what became better or worse, with both traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plait.traces.html.compare import compare_section
from plait.traces.html.elements import Child, Html, h
from plait.traces.html.labels import count_label, seconds_label
from plait.traces.html.page import SINGLE_FILE, Site, page
from plait.verification.html_report import TraceReader
from plait.verification.html_report_plots import rate_plot
from plait.verification.report import (
    Comparison,
    compare,
    detectable_text,
    difference_text,
    pass_rate,
    share,
)
from plait.verification.results import CaseResult

Side = tuple[str, Sequence[CaseResult], Path | None]
"""The name of a report, its results, and the folder of its traces."""


def comparison_page(first: Side, second: Side, *, site: Site = SINGLE_FILE) -> str:
    """Build the comparison of two reports."""
    title = f"{first[0]} and {second[0]}"
    return page(title, comparison_section(first, second), site=site)


def comparison_section(first: Side, second: Side) -> Html:
    """Build the body of the comparison."""
    found = compare(first[1], second[1], by_model=True)
    return h(
        "section",
        h("h1", first[0], " → ", second[0]),
        _rates(first, second),
        [h("p", line) for line in _verdict(found)],
        _changed("Worse", found.worse, first, second),
        _changed("Better", found.better, first, second),
        _missing(found),
        class_="report",
    )


def _rates(first: Side, second: Side) -> Html:
    rows: list[Html] = []
    for name, results, _ in (first, second):
        rate = pass_rate(name, results)
        rows.append(
            h(
                "tr",
                h("td", name, class_="what"),
                h("td", rate_plot(rate.rate, rate.interval), class_="plot-cell"),
                h("td", share(rate.rate), class_="n"),
                h("td", f"{rate.passed} of {rate.passed + rate.failed}", class_="n"),
                h("td", str(rate.errors or "–"), class_="n"),
                h("td", seconds_label(rate.seconds), class_="n"),
            )
        )
    titles = ("report", "0 – 100 %", "pass@1", "passed", "errors", "median")
    head = h("tr", [h("th", title, class_="" if place < 2 else "n")
                    for place, title in enumerate(titles)])  # fmt: skip
    return h("table", h("thead", head), h("tbody", rows), class_="rates")


def _verdict(found: Comparison) -> list[str]:
    counts = f"{len(found.worse)} worse, {len(found.better)} better"
    lines = [f"{count_label(found.cases, 'case')} in both reports: {counts}."]
    if (difference := found.difference) is not None:
        lines.append(f"Pass rate: {difference_text(difference)}, p = {found.p_value:.3g}.")
        lines.append(f"{detectable_text(difference).capitalize()}.")
    return lines


def _changed(title: str, cases: Sequence[str], first: Side, second: Side) -> Html | None:
    if not cases:
        return None
    readers = TraceReader(first[2]), TraceReader(second[2])
    rows = [_case(name, first, second, readers, wanted=title == "Better") for name in cases]
    return h("section", h("h2", f"{title}: {len(cases)}"), h("div", rows, class_="cases"))


def _case(
    name: str,
    first: Side,
    second: Side,
    readers: tuple[TraceReader, TraceReader],
    *,
    wanted: bool,
) -> Html:
    """Show the runs of a case: of the worse side one that failed, of the other one that passed."""
    before = _example(name, first[1], passed=not wanted)
    after = _example(name, second[1], passed=wanted)
    scores = f"{_score(name, first[1])} → {_score(name, second[1])}"
    failure = after.failure if after and not wanted else before.failure if before else ""
    return h(
        "details",
        h("summary", h("b", name), " ", h("span", scores, class_="muted"),
          h("span", failure, class_="peek")),
        h("div", _side_by_side(before, after, readers, (first[0], second[0])), class_="findings"),
        class_="case",
        data_item=True,
        tabindex="-1",
    )  # fmt: skip


def _side_by_side(
    before: CaseResult | None,
    after: CaseResult | None,
    readers: tuple[TraceReader, TraceReader],
    names: tuple[str, str],
) -> Child:
    if before is None or after is None:
        return h("p", "one of the reports has no run of this case", class_="muted")
    left, right = readers[0].read(before), readers[1].read(after)
    if isinstance(left, str) or isinstance(right, str):
        return [h("p", one, class_="muted") for one in (left, right) if isinstance(one, str)]
    return compare_section(left, right, names=names)


def _example(name: str, results: Sequence[CaseResult], *, passed: bool) -> CaseResult | None:
    decided = _decided(name, results)
    matching = [one for one in decided if (one.outcome == "passed") == passed]
    return next(iter([*matching, *decided]), None)


def _decided(name: str, results: Sequence[CaseResult]) -> list[CaseResult]:
    """Return the runs of a case, which `compare` names with its model if there are several."""
    return [
        one
        for one in results
        if one.outcome != "error" and name in {one.case, f"{one.case} ({one.variant})"}
    ]


def _score(name: str, results: Sequence[CaseResult]) -> str:
    decided = _decided(name, results)
    return f"{sum(one.outcome == 'passed' for one in decided)} of {len(decided)}"


def _missing(found: Comparison) -> Html | None:
    if not found.missing:
        return None
    return h("section", h("h2", "In one report only"), h("p", ", ".join(found.missing)))
