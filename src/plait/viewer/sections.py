"""The pages of runs, reasoning sessions and reports: a list of each, and one, followed live."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from plait.html.compare import compare_page
from plait.html.conversation import (
    RunView,
    TextPart,
    event_text,
    run_heading,
    run_page,
    step_articles,
)
from plait.html.elements import Child, Html, h, join
from plait.html.page import page
from plait.html.pieces import Column, list_filters, table, table_row
from plait.html.plots import overview, rate_plot, total_seconds, trend
from plait.html.runs import RunRow, runs_section
from plait.html.steps import steps_of
from plait.reasoning.diagram import read_document
from plait.reasoning.html import mode_label, thinking, title_of
from plait.reasoning.storage.port import SessionLine, Storage
from plait.traces.trace import Trace
from plait.viewer.library import MAX_FILE_BYTES, TraceLibrary, run_key
from plait.viewer.pages import SITE, Live, hint, not_found

MAX_SENT_STEPS = 600
"""Steps in one answer; a browser shows the first ones while it requests the others."""

_NUMBER = re.compile("-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class RunPages:
    """Answers requests about runs; its functions run in threads, since they read files."""

    library: TraceLibrary
    reports: ReportRenderer | None = None

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/runs", self.list),
            Route("/runs/{file}/{run}", self.run),
            Route("/runs/{file}/{run}/file", self.save),
            Route("/runs/{file}/{run}/steps", self.steps),
            Route("/runs/{file}/{run}/text/{event:int}/{part}", self.text),
            Route("/compare", self.compare),
        ]

    def list(self, request: Request) -> Response:
        """Answer with all runs."""

        def build(mark: Html) -> str:
            rows = self._grouped(self.library.rows())
            places = ", ".join(str(path) for path in self.library.paths)
            example = 'plait run "What time is it in Tokyo?" --trace run.jsonl'
            empty = hint(f"No traces in {places} yet. Record one:", example)
            body = runs_section(rows, compare="/compare") if rows else empty
            limit = f"it has more than {MAX_FILE_BYTES // 1_000_000} MB."
            large = [f"{name} is not shown: {limit}" for name in self.library.too_large()]
            notes = [h("p", text, class_="warning") for text in large]
            return page("Runs", h("h1", "Runs"), notes, body, mark, site=SITE)

        return Live(self.library.version()).answer(request, build)

    def _grouped(self, rows: Sequence[RunRow]) -> Sequence[RunRow]:
        """Return the rows with the reports that they belong to."""
        if self.reports is None:
            return rows
        found = report_keys(self.library.paths, self.reports)
        folders = {
            str(path.resolve()): (path.name or str(path), key) for key, path in found.items()
        }
        grouped: list[RunRow] = []
        for row in rows:
            parents = (str(folder) for folder in Path(row.file).resolve().parents)
            report = next((folders[one] for one in parents if one in folders), None)
            if report is not None:
                row = replace(row, report=report[0], report_href=f"/reports/{report[1]}")  # noqa: PLW2901
            grouped.append(row)
        return grouped

    def run(self, request: Request) -> Response:
        """Answer with one run."""
        trace = self._trace(request)
        if trace is None:
            return not_found("such run")
        address = request.url.path
        is_long = len(trace.events) > MAX_SENT_STEPS
        live = f"{address}/steps" if is_long or trace.ended is None else None
        view = self._view(request, trace, address)
        view = replace(view, first=MAX_SENT_STEPS if is_long else None, save=f"{address}/file")
        text = run_page(trace, site=SITE, view=view, live=live)
        return Response(text, media_type="text/html")

    def steps(self, request: Request) -> Response:
        """Answer with the steps after an event, for a page that follows a run or is long."""
        trace = self._trace(request)
        after = request.query_params.get("after", "-1")
        if trace is None or not _NUMBER.fullmatch(after):
            return JSONResponse({"error": "there is no such run"}, 404)
        last = trace.events[-1].id if trace.events else -1
        if int(after) >= last:
            return JSONResponse({"last": last})
        view = self._view(request, trace, request.url.path.removesuffix("/steps"))
        articles = step_articles(trace, after=int(after), most=MAX_SENT_STEPS, view=view)
        sent = last
        if len(articles) == MAX_SENT_STEPS:
            # The id of a step has the number of its event: `e12`.
            key = articles[-1][0].removeprefix("e")
            sent = -1 if key == "partial" else int(key)
        if sent <= int(after):  # very many calls at once: their results come in one piece
            articles, sent = step_articles(trace, after=int(after), view=view), last
        steps = steps_of(trace)
        total = total_seconds(steps, trace.seconds)
        return JSONResponse(
            {
                "last": sent,
                "more": sent < last,
                "html": join([article for _, article in articles]),
                "head": run_heading(trace),
                # A long run that goes on keeps its picture: it has very many bars.
                "overview": overview(steps, total) if len(steps) < MAX_SENT_STEPS else None,
                "total": total,
                "ended": trace.ended is not None and sent == last,
            }
        )

    def save(self, request: Request) -> Response:
        """Answer with one run as a file that requests nothing."""
        trace = self._trace(request)
        if trace is None:
            return not_found("such run")
        wire = self.library.wire(request.path_params["file"], trace)
        name = f"attachment; filename=run-{run_key(trace)[:12]}.html"
        text = run_page(trace, view=RunView(wire=wire))
        return Response(text, media_type="text/html", headers={"Content-Disposition": name})

    def text(self, request: Request) -> Response:
        """Answer with a long text of an event, as plain text."""
        trace = self._trace(request)
        event, part = request.path_params["event"], request.path_params["part"]
        text = None if trace is None else event_text(trace, event, part)
        if text is None:
            return PlainTextResponse("There is no such text.", 404)
        return PlainTextResponse(text.encode("utf-8", "replace"))

    def compare(self, request: Request) -> Response:
        """Answer with two runs side by side: `?run=…&run=…`, or `?a=…&b=…`."""
        query = request.query_params
        chosen = query.getlist("run") or [query.get("a", ""), query.get("b", "")]
        keys = [name.partition(".") for name in chosen[:2]]
        match [self.library.trace(file, run) for file, _, run in keys]:
            case [Trace() as left, Trace() as right]:
                return Response(compare_page(left, right, site=SITE), media_type="text/html")
            case _:
                return not_found("such pair of runs; select two in the list")

    def _trace(self, request: Request) -> Trace | None:
        return self.library.trace(request.path_params["file"], request.path_params["run"])

    def _view(self, request: Request, trace: Trace, address: str) -> RunView:
        def source(event: int, part: TextPart) -> str:
            return f"{address}/text/{event}/{part}"

        return RunView(source=source, wire=self.library.wire(request.path_params["file"], trace))


MAX_SESSIONS = 500
"""Rows of the list, which is sent again with each change."""
_COLUMNS: tuple[Column, ...] = (
    *(("about", None), ("mode", None), ("status", None)),
    *(("thoughts", "n"), ("changed", None)),
)


class ThinkingPages:
    """Answers requests about the sessions of a store."""

    def __init__(self, store: Storage, name: str) -> None:
        self._store = store
        self._name = name

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/thinking", self.list),
            Route("/thinking/{session:path}", self.session),
        ]

    async def list(self, request: Request) -> Response:
        """Answer with all sessions, the most recently changed first."""
        lines = await self._store.list_sessions(limit=MAX_SESSIONS)
        version = "\n".join(f"{one.session.id} {one.session.version}" for one in lines)

        def build(mark: Html) -> str:
            title = h("h1", "Thinking", h("small", f" {self._name}"))
            return page("Thinking", title, _sessions(lines), mark, site=SITE)

        return Live(version).answer(request, build)

    async def session(self, request: Request) -> Response:
        """Answer with one session."""
        session = await self._store.get_session(request.path_params["session"])
        if session is None:
            return not_found("such session")
        live = Live(f"{session.id} {session.version}")
        if request.headers.get("if-none-match") == live.tag:
            return live.answer(request, str)
        document = await read_document(self._store, session)

        def build(mark: Html) -> str:
            return page(title_of(document), thinking(document), mark, site=SITE)

        return live.answer(request, build)


def _sessions(lines: Sequence[SessionLine]) -> Html:
    if not lines:
        return h("p", "No sessions yet.", class_="empty")
    rows: list[Html] = []
    for line in lines:
        session = line.session
        link = h("a", line.title or session.id, href=f"/thinking/{session.id}", dir="auto")
        state = "good" if session.status == "concluded" else "warn"
        cells: tuple[Child, ...] = (
            [link, h("small", session.id)],
            mode_label(session.mode),
            h("span", session.status, class_=f"badge {state}"),
            str(line.thoughts),
            h("time", session.updated_at[:16].replace("T", " ")),
        )
        rows.append(table_row(_COLUMNS, cells, data_item=True, tabindex="-1"))
    sessions = table(_COLUMNS, rows, class_="sessions", is_list=True)
    return h("section", list_filters("session", len(lines)), h("div", sessions, class_="wide"))


_REPORT_COLUMNS: tuple[Column, ...] = (
    *(("suite", "what"), ("date", None), ("models", None), ("0 – 100 %", "plot-cell")),
    *(("pass rate", "n"), ("95 %", "n"), ("passed", "n"), ("errors", "n"), ("trend", "trend-cell")),
)
MAX_TREND = 20
"""Earlier reports of a suite that its trend has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """What a list says about a report."""

    suite: str
    changed: float
    """Seconds since 1970."""
    models: Sequence[str]
    passed: int
    failed: int
    errors: int
    low: float
    high: float
    """The interval of the pass rate, from 0 to 1."""

    @property
    def rate(self) -> float | None:
        """The pass rate; `None` if no run was decided."""
        decided = self.passed + self.failed
        return self.passed / decided if decided else None


class ReportRenderer(Protocol):
    """Finds reports and renders them; verification and viewer do not know each other."""

    def find(self, path: Path) -> Sequence[Path]:
        """Return the folders of reports at a path."""
        ...

    def summary(self, report: Path) -> ReportLine:
        """Sum up a report."""
        ...

    def body(self, report: Path) -> Html:
        """Render a report, complete or not."""
        ...

    def version(self, report: Path) -> str:
        """Return a text that changes whenever the report does."""
        ...


def report_keys(paths: Sequence[Path], renderer: ReportRenderer) -> dict[str, Path]:
    """Return the folders of reports, by the part of addresses that stands for each."""
    found = [report for path in paths for report in renderer.find(path)]
    return {hashlib.sha256(str(one.resolve()).encode()).hexdigest()[:16]: one for one in found}


@dataclass(frozen=True, slots=True)
class ReportPages:
    """Answers requests about reports; its functions run in threads, since they read files."""

    paths: Sequence[Path]
    renderer: ReportRenderer

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [Route("/reports", self.list), Route("/reports/{report}", self.report)]

    def list(self, request: Request) -> Response:
        """Answer with all reports."""
        reports = report_keys(self.paths, self.renderer)
        version = "\n".join(map(self.renderer.version, reports.values()))

        def build(mark: Html) -> str:
            lines = {key: self.renderer.summary(path) for key, path in reports.items()}
            rows = [
                self._row(key, lines[key], reports[key], [*lines.values()])
                for key in sorted(lines, key=lambda key: lines[key].changed, reverse=True)
            ]
            example = "plait verify init\nplait verify suite.yaml"
            empty = hint("No verification reports yet. Make one:", example)
            listed = table(_REPORT_COLUMNS, rows, class_="rates reports")
            body = h("div", listed, class_="wide") if rows else empty
            return page("Reports", h("h1", "Reports"), body, mark, site=SITE)

        return Live(version).answer(request, build)

    def _row(self, key: str, line: ReportLine, path: Path, lines: Sequence[ReportLine]) -> Html:
        """Show a report, with how its suite went before."""
        earlier = sorted(
            (one for one in lines if one.suite == line.suite and one.changed <= line.changed),
            key=lambda one: one.changed,
        )
        rates = [one.rate for one in earlier if one.rate is not None][-MAX_TREND:]
        change = None
        if line.rate is not None and len(rates) > 1:
            points = round(100 * (rates[-1] - rates[-2]))
            change = (
                h("span", f"{points:+d}", class_="good" if points > 0 else "bad") if points else "="
            )
        changed = datetime.fromtimestamp(line.changed, UTC)
        cells: tuple[Child, ...] = (
            [h("a", line.suite, href=f"/reports/{key}"), h("small", str(path))],
            h("time", h("span", f"{changed:%Y-%m-%d}"), " ", h("span", f"{changed:%H:%M}")),
            ", ".join(line.models) or "–",
            rate_plot(line.rate, line.low, line.high),
            "–" if line.rate is None else f"{line.rate:.0%}",
            f"{line.low:.0%}–{line.high:.0%}",
            f"{line.passed:,} of {line.passed + line.failed:,}",
            f"{line.errors:,}" if line.errors else "–",
            [trend(rates), change],
        )
        return table_row(_REPORT_COLUMNS, cells, data_item=True, tabindex="-1")

    def report(self, request: Request) -> Response:
        """Answer with one report."""
        path = report_keys(self.paths, self.renderer).get(request.path_params["report"])
        if path is None:
            return not_found("such report")

        def build(mark: Html) -> str:
            return page(path.name, self.renderer.body(path), mark, site=SITE)

        return Live(self.renderer.version(path)).answer(request, build)
