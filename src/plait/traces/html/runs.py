"""The list of runs, with search and filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plait.traces.html.conversation import outcome_badge, run_title
from plait.traces.html.elements import Child, Html, h
from plait.traces.html.labels import cost_label, count_label, seconds_label
from plait.traces.html.page import SINGLE_FILE, Site, page
from plait.traces.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What a list says about one run."""

    run: str
    title: str
    status: str
    href: str
    """The page of the run."""
    file: str = ""
    began: str = ""
    """In UTC: `2026-02-03T04:05:06.789Z`."""
    model: str = ""
    engine: str = ""
    servers: tuple[str, ...] = ()
    turns: int = 0
    calls: int = 0
    failed_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


class _Column(NamedTuple):
    name: str
    title: str
    is_number: bool = False

    @property
    def css(self) -> str:
        return f"n {self.name}" if self.is_number else self.name


_COLUMNS = (
    _Column("pick", ""),
    _Column("what", "question"),
    _Column("ended", "ended"),
    _Column("model", "model"),
    _Column("servers", "servers"),
    *(_Column(name, name, is_number=True) for name in ("turns", "calls", "tokens", "cost", "time")),
    _Column("began", "began"),
)
_FORM = "compare-runs"
_NONE = "–"


def run_row(trace: Trace, *, href: str, file: str = "") -> RunRow:
    """Sum up a run."""
    started = trace.started
    return RunRow(
        run=trace.run,
        title=run_title(trace),
        status=trace.status,
        href=href,
        file=file,
        began=started.time if started else "",
        model=trace.actual_model or (started.model if started else None) or "",
        engine=started.interface if started else "",
        servers=started.servers if started else (),
        turns=trace.turns,
        calls=len(trace.calls),
        failed_calls=trace.failed_calls,
        tokens=trace.usage.total_tokens,
        cost_usd=trace.usage.cost_usd,
        seconds=trace.seconds,
    )


def runs_page(
    rows: Sequence[RunRow],
    *,
    title: str = "Runs",
    site: Site = SINGLE_FILE,
    compare: str | None = None,
) -> str:
    """Build the list of runs; `compare` is the address that gets `run=…` twice."""
    return page(title, h("h1", title), runs_section(rows, compare=compare), site=site)


def runs_section(rows: Sequence[RunRow], *, compare: str | None = None) -> Html:
    """Build the filters and the table of runs."""
    if not rows:
        return h("p", "No runs yet.", class_="empty")
    table = h(
        "table",
        h("thead", h("tr", [h("th", one.title, class_=one.css) for one in _COLUMNS])),
        h("tbody", [_row(row, compare) for row in rows], data_list=True),
        class_="runs",
    )
    form = h("form", h("div", table, class_="wide"), action=compare or "#", id=_FORM)
    return h("section", _filters(rows, compare), form)


def _filters(rows: Sequence[RunRow], compare: str | None) -> Html:
    button = h("button", "Compare two", type="submit", form=_FORM, class_="compare")
    return h(
        "div",
        h(
            "input",
            type="search",
            placeholder="Search runs  /",
            data_filter="text",
            autocomplete="off",
        ),
        _choice("model", (row.model for row in rows)),
        _choice("server", (server for row in rows for server in row.servers)),
        _choice("outcome", (row.status for row in rows)),
        _number("cost", "cost ≥ $"),
        _number("time", "time ≥ s"),
        h("span", count_label(len(rows), "run"), class_="count muted", data_count="run"),
        button if compare else None,
        class_="toolbar",
    )


def _choice(name: str, values: Iterable[str]) -> Html | None:
    found = sorted({value for value in values if value})
    if len(found) < 2:
        return None
    options = [h("option", f"any {name}", value="")]
    options += [h("option", value, value=value) for value in found]
    return h("select", options, data_filter=name, aria_label=name)


def _number(name: str, label: str) -> Html:
    field = h("input", type="number", min="0", step="any", data_filter_min=name)
    return h("label", label, " ", field, class_="number")


def _cell(column: _Column, content: Child) -> Html:
    return h(
        "td",
        content,
        class_=column.css,
        data_label=column.name,
        data_none=content == _NONE,
    )


def _row(row: RunRow, compare: str | None) -> Html:
    servers = ", ".join(row.servers)
    cells: dict[str, Child] = {
        "pick": h("input", type="checkbox", name="run", value=row.run, aria_label="compare")
        if compare
        else None,
        "what": [
            h("a", row.title, href=row.href, dir="auto"),
            h("small", row.file) if row.file else None,
        ],
        "ended": outcome_badge(row.status, row.failed_calls),
        "model": h("span", row.model, title=row.model) if row.model else _NONE,
        "servers": h("span", servers, title=servers) if servers else _NONE,
        "turns": f"{row.turns:,}",
        "calls": f"{row.calls:,}",
        "tokens": f"{row.tokens:,}" if row.tokens else _NONE,
        "cost": cost_label(row.cost_usd) or _NONE,
        "time": seconds_label(row.seconds),
        "began": h("time", row.began[:16].replace("T", " "), datetime=row.began),
    }
    return h(
        "tr",
        [_cell(one, cells[one.name]) for one in _COLUMNS],
        data_item=True,
        data_model=row.model,
        data_server="\n".join(row.servers),
        data_outcome=row.status,
        data_cost=row.cost_usd or 0,
        data_time=row.seconds,
        tabindex="-1",
    )
