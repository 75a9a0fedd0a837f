"""Reports of suites as HTML pages: rates, plots, and every run with its trace; two compared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from plait.errors import TraceFormatError
from plait.html.compare import compare_section
from plait.html.conversation import RunView, run_section
from plait.html.elements import Child, Html, h
from plait.html.page import SINGLE_FILE, Site, page
from plait.html.pieces import (
    Column,
    choice_filter,
    cost_label,
    count_label,
    facts,
    facts_list,
    folded,
    list_filters,
    seconds_label,
    status_badge,
    table,
    table_row,
)
from plait.html.plots import histograms, rate_plot
from plait.html.text import text_block, value_block
from plait.traces.file import read_traces
from plait.traces.trace import Trace
from plait.verification.report import (
    PassRate,
    compare,
    detectable_text,
    difference_text,
    pass_rate,
    pass_rates,
    share,
)
from plait.verification.results import CaseResult
from plait.verification.statistics import wilson_interval

MAX_TRACE_BYTES = 2_000_000
"""Larger traces stay in their files: browsers take seconds to lay them out."""
MAX_TRACE_BYTES_IN_ALL = 30_000_000
"""A larger page is slow to open, and hard to send."""
_ORDER = {"failed": 0, "error": 1, "passed": 2}

Side = tuple[str, Sequence[CaseResult], Path | None]
"""The name of a report, its results, and the folder of its traces."""


class TraceReader:
    """Reads the traces of a report folder, up to what one page may contain."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._left = MAX_TRACE_BYTES_IN_ALL

    def read(self, result: CaseResult) -> Trace | str:
        """Return the trace of a run, or why it is not shown."""
        if self._folder is None or not result.trace:
            return "no trace was recorded"
        path = result.trace_in(self._folder)
        if path is None:
            return f"the trace is not in the report: {result.trace}"
        try:
            if not path.is_file():  # opening a FIFO would wait
                return f"the trace is not there: {result.trace}"
            size = path.stat().st_size
            if size > min(MAX_TRACE_BYTES, self._left):
                return f"the trace is too long for this page: {result.trace}"
            self._left -= size
            return read_traces(path)[-1]
        except (OSError, TraceFormatError):
            return f"the trace is not there: {result.trace}"


def report_page(
    name: str,
    results: Sequence[CaseResult],
    *,
    folder: Path | None = None,
    site: Site = SINGLE_FILE,
) -> str:
    """Build the report; traces of runs that did not pass are read from `folder`."""
    return page(name, report_section(name, results, folder=folder), site=site)


def report_section(
    name: str,
    results: Sequence[CaseResult],
    *,
    folder: Path | None = None,
    changed: float | None = None,
) -> Html:
    """Build the body of the report; `changed` is when it last did, in seconds since 1970."""
    whole = pass_rate("all", results)
    known = [one.cost_usd for one in results if one.cost_usd is not None]
    rows = (
        ("date", None if changed is None else f"{_time(changed):%Y-%m-%d %H:%M} UTC"),
        ("models", ", ".join(sorted({result.variant for result in results}))),
        ("passed", f"{whole.passed:,} of {whole.passed + whole.failed:,}"),
        ("95 %", f"{whole.interval.low:.0%} to {whole.interval.high:.0%}"),
        ("errors", f"{whole.errors:,}" if whole.errors else None),
        ("cases", f"{len({result.case for result in results}):,}"),
        ("runs", f"{len(results):,}"),
        ("median time", seconds_label(whole.seconds)),
        ("tokens", f"{whole.tokens:,}" if whole.tokens else None),
        ("cost", cost_label(sum(known)) if known else None),
    )
    rate = h("div", h("dt", "pass rate"), h("dd", share(whole.rate), class_="big"))
    tables = (
        _rate_table("by model", pass_rates(results, lambda result: [result.variant])),
        _rate_table("by tag", pass_rates(results, lambda result: result.tags)),
        _rate_table("by check", _check_rates(results), of_runs=False),
    )
    traces = TraceReader(folder)
    ordered = sorted(
        results, key=lambda one: (_ORDER[one.outcome], one.case, one.model, one.repeat)
    )
    filters = list_filters(
        "run",
        len(ordered),
        choice_filter("outcome", (result.outcome for result in ordered)),
        choice_filter("model", (result.variant for result in ordered)),
        choice_filter("tag", (tag for result in ordered for tag in result.tags)),
    )
    runs = [_run(number, result, traces) for number, result in enumerate(ordered)]
    return h(
        "div",
        h("h1", name),
        facts_list(rows, rate),
        h("section", h("h2", "Cases"), h("div", _grid(ordered), class_="wide")),
        h("section", h("h2", "Pass rates"), tables),
        h("section", h("h2", "Time and cost"), h("div", _plots(results), class_="plots")),
        h(
            "section",
            h("h2", "Runs"),
            filters,
            h("div", runs, class_="cases", data_list=True),
        ),
        class_="report",
    )


def _time(changed: float) -> datetime:
    return datetime.fromtimestamp(changed, UTC)


def _grid(ordered: Sequence[CaseResult]) -> Html:
    """Show each case with each model: a dot for each run, which leads to it."""
    dots: dict[tuple[str, str], list[tuple[int, Html]]] = defaultdict(list)
    for number, result in enumerate(ordered):
        title = f"{result.case} #{result.repeat}, {result.variant}: {result.outcome}"
        dot = h(
            "a", href=f"#r{number}", class_=f"dot {result.outcome}", title=title, aria_label=title
        )
        dots[result.case, result.variant].append((result.repeat, dot))
    models = sorted({result.variant for result in ordered})
    # Narrow windows break "engine:model" behind the colon, not in a word.
    titles = [[h("span", part) for part in re.split("(?<=:)", model)] for model in models]
    columns: list[Column] = [("case", "what"), *((title, None) for title in titles)]
    rows = [
        table_row(
            columns, [name, *([dot for _, dot in sorted(dots[name, model])] for model in models)]
        )
        for name in dict.fromkeys(result.case for result in ordered)
    ]
    return table(columns, rows, class_="grid")


_RATE_COLUMNS = (
    *(("0 – 100 %", "plot-cell"), ("pass@1", "n"), ("95 %", "n"), ("passed", "n")),
    *(("pass@k / pass^k", "n k"), ("errors", "n errors"), ("median", "n time")),
)
"""The last three are those of runs, which checks do not have."""


def _rate_table(title: str, rates: Sequence[PassRate], *, of_runs: bool = True) -> Html | None:
    columns = ((title, "what"), *(_RATE_COLUMNS if of_runs else _RATE_COLUMNS[:4]))
    rows: list[Html] = []
    for rate in rates:
        low, high = rate.interval.low, rate.interval.high
        both = f"{share(rate.pass_at_k)} / {share(rate.pass_hat_k)} (k = {rate.k})"
        cells = (
            rate.name,
            rate_plot(rate.rate, low, high),
            share(rate.rate),
            f"{low:.0%}–{high:.0%}",
            f"{rate.passed} of {rate.passed + rate.failed}",
            both,
            str(rate.errors or "–"),
            seconds_label(rate.seconds),
        )
        rows.append(table_row(columns, cells))
    return table(columns, rows, class_="rates") if rows else None


def _check_rates(results: Sequence[CaseResult]) -> list[PassRate]:
    outcomes: dict[str, list[bool]] = defaultdict(list)
    scores: dict[str, list[float]] = defaultdict(list)
    for result in results:
        for check in result.checks:
            name = str(check.get("name"))
            outcomes[name].append(bool(check.get("passed")))
            if isinstance(score := check.get("score"), float):
                scores[name].append(score)
        for trait, passed in result.traits.items():
            outcomes[f"trait {trait}"].append(bool(passed))
    rates: list[PassRate] = []
    for name, found in sorted(outcomes.items()):
        passed, total = sum(found), len(found)
        interval = wilson_interval(passed, total)
        score = f", mean score {fmean(scores[name]):.2f}" if scores[name] else ""
        rate = PassRate(
            name=f"{name}{score}", passed=passed, failed=total - passed, interval=interval
        )
        rates.append(rate)
    return rates


def _plots(results: Sequence[CaseResult]) -> list[Html | None]:
    """Draw times and costs by model; where no cost is known, tokens."""
    by_model: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        by_model[result.variant].append(result)
    models = sorted(by_model.items())
    times = [(name, [(one.seconds, one.outcome) for one in runs]) for name, runs in models]
    costs = [(name, [(one.cost_usd, one.outcome) for one in runs]) for name, runs in models]
    cost_plot = histograms("Cost of a run", costs, lambda value: cost_label(value) or "")
    if cost_plot is None:
        tokens = [
            (name, [(float(one.tokens), one.outcome) for one in runs]) for name, runs in models
        ]
        cost_plot = histograms("Tokens of a run", tokens, lambda value: f"{value:,.0f}")
    return [histograms("Time of a run", times, seconds_label), cost_plot]


def _run(number: int, result: CaseResult, traces: TraceReader) -> Html:
    name = result.case if result.repeat == 1 else f"{result.case} #{result.repeat}"
    known = facts(result.variant, seconds_label(result.seconds), cost_label(result.cost_usd))
    failure = h("span", result.failure, class_="peek") if result.failure else None
    findings: list[Child] = []
    if result.checks:
        rows = [
            h(
                "tr",
                h("td", "✓", class_="mark good")
                if check.get("passed")
                else h("td", "✗", class_="mark bad"),
                h("td", str(check.get("name"))),
                h("td", str(check.get("message") or ""), class_="muted"),
            )
            for check in result.checks
        ]
        findings.append(h("table", rows, class_="checks"))
    failed = [stage for stage in result.stages if stage.outcome in {"failed", "error"}]
    if failed or result.error is not None:
        lines = [*(f"{stage.name}: {stage.message}" for stage in failed), result.error or ""]
        findings.append(h("div", [h("p", line, class_="warning") for line in lines]))
    if result.parsed:
        findings.append(folded("template", value_block(dict(result.parsed))))
    if result.traits:
        findings.append(folded("traits", value_block(dict(result.traits))))
    if result.answer:
        findings.append(folded("answer", text_block(result.answer)))
    if result.outcome != "passed":
        trace = traces.read(result)
        if isinstance(trace, str):
            findings.append(h("p", trace, class_="muted"))
        else:
            view = RunView(prefix=f"r{number}-")
            findings.append(folded("trace", run_section(trace, view=view), class_="trace"))
    return h(
        "details",
        h("summary", status_badge(result.outcome), " ", h("b", name), " ", known, failure),
        h("div", findings, class_="findings"),
        class_="case",
        id=f"r{number}",
        tabindex="-1",
        data_item=True,
        data_outcome=result.outcome,
        data_model=result.variant,
        data_tag="\n".join(result.tags),
    )


def comparison_page(first: Side, second: Side, *, site: Site = SINGLE_FILE) -> str:
    """Build the comparison of two reports: what became better or worse, with both traces."""
    found = compare(first[1], second[1], by_model=True)
    rates = [pass_rate(name, results) for name, results, _ in (first, second)]
    counts = f"{len(found.worse)} worse, {len(found.better)} better"
    lines = [f"{count_label(found.cases, 'case')} in both reports: {counts}."]
    if (difference := found.difference) is not None:
        lines.append(f"Pass rate: {difference_text(difference)}, p = {found.p_value:.3g}.")
        lines.append(f"{detectable_text(difference).capitalize()}.")
    missing = h("p", ", ".join(found.missing))
    body = h(
        "section",
        h("h1", first[0], " → ", second[0]),
        _rate_table("report", rates),
        [h("p", line) for line in lines],
        _changed_cases("Worse", found.worse, first, second),
        _changed_cases("Better", found.better, first, second),
        h("section", h("h2", "In one report only"), missing) if found.missing else None,
        class_="report",
    )
    return page(f"{first[0]} and {second[0]}", body, site=site)


def _changed_cases(title: str, names: Sequence[str], first: Side, second: Side) -> Html | None:
    """Show two runs of each case: of the worse side one that failed, else one that passed."""
    if not names:
        return None
    is_better = title == "Better"
    readers = TraceReader(first[2]), TraceReader(second[2])
    cases: list[Html] = []
    for name in names:
        # `compare` names a case with its model if there are several.
        before, after = (
            [
                one
                for one in results
                if one.outcome != "error" and name in {one.case, f"{one.case} ({one.variant})"}
            ]
            for _, results, _ in (first, second)
        )
        left, right = _example(before, passed=not is_better), _example(after, passed=is_better)
        failure = right.failure if right and not is_better else left.failure if left else ""
        content: Child = h("p", "one of the reports has no run of this case", class_="muted")
        if left is not None and right is not None:
            one, other = readers[0].read(left), readers[1].read(right)
            if isinstance(one, Trace) and isinstance(other, Trace):
                content = compare_section(one, other, names=(first[0], second[0]))
            else:
                reasons = [why for why in (one, other) if isinstance(why, str)]
                content = [h("p", why, class_="muted") for why in reasons]
        scores = " → ".join(
            f"{sum(one.outcome == 'passed' for one in runs)} of {len(runs)}"
            for runs in (before, after)
        )
        summary = h(
            "summary",
            h("b", name),
            " ",
            h("span", scores, class_="muted"),
            h("span", failure, class_="peek"),
        )
        findings = h("div", content, class_="findings")
        cases.append(h("details", summary, findings, class_="case", data_item=True, tabindex="-1"))
    return h("section", h("h2", f"{title}: {len(names)}"), h("div", cases, class_="cases"))


def _example(runs: Sequence[CaseResult], *, passed: bool) -> CaseResult | None:
    matching = [one for one in runs if (one.outcome == "passed") == passed]
    return next(iter([*matching, *runs]), None)
