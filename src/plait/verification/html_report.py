"""The report of a suite as one HTML page: rates, plots, and every run with its trace folded in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from plait.errors import TraceFormatError
from plait.traces.file import read_traces
from plait.traces.html.conversation import RunView, run_section, status_badge
from plait.traces.html.elements import Child, Html, h
from plait.traces.html.labels import cost_label, count_label, seconds_label
from plait.traces.html.page import SINGLE_FILE, Site, page
from plait.traces.html.text import facts, text_block, value_block
from plait.traces.trace import Trace
from plait.verification.html_report_plots import histograms, rate_plot
from plait.verification.report import PassRate, pass_rate, pass_rates, share
from plait.verification.results import CaseResult
from plait.verification.statistics import wilson_interval

REPORT_FILE = "report.html"
_MOST_BYTES = 2_000_000
"""Larger traces stay in their files."""
_MOST_BYTES_IN_ALL = 30_000_000
_ORDER = {"failed": 0, "error": 1, "passed": 2}


class TraceReader:
    """Reads the traces of a report folder, up to what one page may contain."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._left = _MOST_BYTES_IN_ALL

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
            if size > min(_MOST_BYTES, self._left):
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


def report_section(name: str, results: Sequence[CaseResult], *, folder: Path | None = None) -> Html:
    """Build the body of the report."""
    whole = pass_rate("all", results)
    return h(
        "div",
        h("h1", name),
        _summary(whole, results),
        _rates(results),
        _plots(results),
        _cases(results, TraceReader(folder)),
        class_="report",
    )


def _summary(whole: PassRate, results: Sequence[CaseResult]) -> Html:
    costs = [result.cost_usd for result in results]
    known = [cost for cost in costs if cost is not None]
    rows = (
        ("passed", f"{whole.passed:,} of {whole.passed + whole.failed:,}"),
        ("95 %", f"{whole.interval.low:.0%} to {whole.interval.high:.0%}"),
        ("errors", f"{whole.errors:,}" if whole.errors else None),
        ("cases", f"{len({result.case for result in results}):,}"),
        ("runs", f"{len(results):,}"),
        ("median time", seconds_label(whole.seconds)),
        ("tokens", f"{whole.tokens:,}" if whole.tokens else None),
        ("cost", cost_label(sum(known)) if known else None),
    )
    cells = [h("div", h("dt", name), h("dd", value)) for name, value in rows if value]
    rate = h("div", h("dt", "pass rate"), h("dd", share(whole.rate), class_="big"))
    return h("dl", rate, cells, class_="facts-list")


def _rates(results: Sequence[CaseResult]) -> Html:
    groups = (
        ("by model", pass_rates(results, lambda result: [result.variant])),
        ("by tag", pass_rates(results, lambda result: result.tags)),
    )
    parts = [_rate_table(title, rates) for title, rates in groups if rates]
    return h("section", h("h2", "Pass rates"), parts, _check_table(results))


def _rate_table(title: str, rates: Sequence[PassRate]) -> Html:
    rows = [
        h(
            "tr",
            h("td", rate.name, class_="what"),
            h("td", rate_plot(rate.rate, rate.interval), class_="plot-cell"),
            h("td", share(rate.rate), class_="n", data_label="pass@1"),
            h("td", f"{rate.interval.low:.0%}–{rate.interval.high:.0%}", class_="n"),
            h("td", f"{rate.passed} of {rate.passed + rate.failed}", class_="n"),
            h("td", f"{share(rate.pass_at_k)} / {share(rate.pass_hat_k)}", class_="n k"),
            h("td", str(rate.errors or "–"), class_="n errors"),
            h("td", seconds_label(rate.seconds), class_="n time"),
        )
        for rate in rates
    ]
    k = max((rate.k for rate in rates), default=1)
    return _table((title, "0 – 100 %", "pass@1", "95 %", "passed", f"pass@{k} / pass^{k}",
                   "errors", "median"), rows)  # fmt: skip


def _table(titles: Sequence[str], rows: Sequence[Html]) -> Html:
    classes = ("what", "plot-cell", "n", "n", "n", "n k", "n errors", "n time")
    pairs = zip(titles, classes, strict=False)
    head = h("thead", h("tr", [h("th", title, class_=class_) for title, class_ in pairs]))
    return h("table", head, h("tbody", rows), class_="rates")


def _check_table(results: Sequence[CaseResult]) -> Html | None:
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        for check in result.checks:
            outcomes[str(check.get("name"))].append(bool(check.get("passed")))
        for trait, passed in result.traits.items():
            outcomes[f"trait {trait}"].append(bool(passed))
    if not outcomes:
        return None
    rows: list[Html] = []
    for name, found in sorted(outcomes.items()):
        passed, rate = sum(found), sum(found) / len(found)
        interval = wilson_interval(passed, len(found))
        rows.append(
            h(
                "tr",
                h("td", name, class_="what"),
                h("td", rate_plot(rate, interval), class_="plot-cell"),
                h("td", share(rate), class_="n"),
                h("td", f"{interval.low:.0%}–{interval.high:.0%}", class_="n"),
                h("td", f"{passed} of {len(found)}", class_="n"),
            )
        )
    return _table(("by check", "0 – 100 %", "rate", "95 %", "passed"), rows)


def _plots(results: Sequence[CaseResult]) -> Html:
    by_model: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        by_model[result.variant].append(result)
    groups = sorted(by_model.items())
    times = histograms("Time of a run", groups, lambda one: one.seconds, seconds_label)
    costs = histograms(
        "Cost of a run", groups, lambda one: one.cost_usd, lambda value: cost_label(value) or ""
    )
    tokens = None
    if costs is None:
        tokens = histograms(
            "Tokens of a run", groups, lambda one: float(one.tokens), lambda n: f"{n:,.0f}"
        )
    return h("section", h("h2", "Time and cost"), h("div", times, costs, tokens, class_="plots"))


def _cases(results: Sequence[CaseResult], traces: TraceReader) -> Html:
    ordered = sorted(
        results, key=lambda one: (_ORDER[one.outcome], one.case, one.model, one.repeat)
    )
    return h(
        "section",
        h("h2", "Runs"),
        _filters(ordered),
        h(
            "div",
            [_run(number, result, traces) for number, result in enumerate(ordered)],
            class_="cases",
            data_list=True,
        ),
    )


def _filters(results: Sequence[CaseResult]) -> Html:
    search = {"placeholder": "Search runs  /", "data_filter": "text", "autocomplete": "off"}
    return h(
        "div",
        h("input", type="search", **search),
        _choice("outcome", (result.outcome for result in results)),
        _choice("model", (result.variant for result in results)),
        _choice("tag", (tag for result in results for tag in result.tags)),
        h("span", count_label(len(results), "run"), class_="muted", data_count="run"),
        class_="toolbar",
    )


def _choice(name: str, values: Iterable[str]) -> Html | None:
    found = sorted(set(values))
    if len(found) < 2:
        return None
    options = [h("option", value, value=value) for value in found]
    return h(
        "select", h("option", f"any {name}", value=""), options, data_filter=name, aria_label=name
    )


def _run(number: int, result: CaseResult, traces: TraceReader) -> Html:
    name = result.case if result.repeat == 1 else f"{result.case} #{result.repeat}"
    known = facts(result.variant, seconds_label(result.seconds), cost_label(result.cost_usd))
    failure = h("span", result.failure, class_="peek") if result.failure else None
    return h(
        "details",
        h("summary", status_badge(result.outcome), " ", h("b", name), " ", known, failure),
        h("div", _findings(number, result, traces), class_="findings"),
        class_="case",
        id=f"r{number}",
        tabindex="-1",
        data_item=True,
        data_outcome=result.outcome,
        data_model=result.variant,
        data_tag="\n".join(result.tags),
    )


def _findings(number: int, result: CaseResult, traces: TraceReader) -> list[Child]:
    parts: list[Child] = [_checks(result.checks), _stages(result)]
    if result.parsed:
        parts.append(_folded("template", value_block(dict(result.parsed))))
    if result.traits:
        parts.append(_folded("traits", value_block(dict(result.traits))))
    if result.answer:
        parts.append(_folded("answer", text_block(result.answer)))
    if result.outcome != "passed":
        trace = traces.read(result)
        if isinstance(trace, str):
            parts.append(h("p", trace, class_="muted"))
        else:
            view = RunView(prefix=f"r{number}-")
            parts.append(_folded("trace", run_section(trace, view=view), class_="trace"))
    return parts


def _folded(label: str, *content: Child, class_: str | None = None) -> Html:
    return h("details", h("summary", label), *content, class_=class_)


def _checks(checks: Sequence[Mapping[str, object]]) -> Html | None:
    if not checks:
        return None
    rows = [
        h(
            "tr",
            h("td", "✓" if check.get("passed") else "✗", class_=_mark(bool(check.get("passed")))),
            h("td", str(check.get("name"))),
            h("td", str(check.get("message") or ""), class_="muted"),
        )
        for check in checks
    ]
    return h("table", rows, class_="checks")


def _mark(passed: bool) -> str:
    return "mark good" if passed else "mark bad"


def _stages(result: CaseResult) -> Html | None:
    failed = [stage for stage in result.stages if stage.outcome in {"failed", "error"}]
    if not failed and result.error is None:
        return None
    lines = [f"{stage.name}: {stage.message}" for stage in failed]
    return h("div", [h("p", line, class_="warning") for line in [*lines, result.error or ""]])
