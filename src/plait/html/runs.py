"""The list of runs, with search and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait.html.conversation import run_title
from plait.html.elements import Attribute, Child, Html, h
from plait.html.pieces import (
    choice_filter,
    cost_label,
    count_label,
    list_filters,
    seconds_label,
    status_badge,
    table,
)
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
    report: str = ""
    """The report that the run belongs to, and the address of that."""
    report_href: str = ""


_NUMBERS = ("turns", "calls", "tokens", "cost", "time")
_COLUMNS = (
    *(("", "pick"), ("question", "what"), ("ended", "ended")),
    *(("model", "model"), ("servers", "servers")),
    *((name, f"n {name}") for name in _NUMBERS),
    ("began", "began"),
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


def runs_section(rows: Sequence[RunRow], *, compare: str | None = None) -> Html:
    """Build the filters and the table of runs."""
    if not rows:
        return h("p", "No runs yet.", class_="empty")
    number = {"type": "number", "min": "0", "step": "any"}
    columns = [(_sort_button(title), class_) for title, class_ in _COLUMNS]
    tables: list[Html] = []
    # Runs of a report stand below it: a suite has very many.
    for report in dict.fromkeys(("", *(row.report for row in rows))):
        group = [row for row in rows if row.report == report]
        runs = table(columns, [_row(row, compare) for row in group], class_="runs", is_list=True)
        if not report and group:
            tables.append(h("div", runs, class_="wide"))
        elif group:
            passed = sum(row.status == "completed" for row in group)
            link = h("a", report, href=group[0].report_href)
            count = f" · {count_label(len(group), 'run')}, {passed:,} completed"
            label = h("summary", "report ", link, h("span", count, class_="muted"))
            tables.append(h("details", label, h("div", runs, class_="wide"), class_="group"))
    form = h("form", tables, action=compare or "#", id=_FORM)
    button = h("button", "Compare two", type="submit", form=_FORM, class_="compare")
    filters = list_filters(
        "run",
        len(rows),
        choice_filter("model", (row.model for row in rows)),
        choice_filter("server", (server for row in rows for server in row.servers)),
        choice_filter("outcome", (row.status for row in rows)),
        *(
            h("label", label, " ", h("input", **number, data_filter_min=name), class_="number")
            for name, label in (("cost", "cost ≥ $"), ("time", "time ≥ s"))
        ),
        last=button if compare else None,
    )
    return h("section", filters, form)


def _sort_button(title: str) -> Html | None:
    """Build the title of a column as a button that sorts by it."""
    name = {"question": "title", "ended": "outcome", "servers": "server"}.get(title, title)
    number = title in {*_NUMBERS, "began"}
    attributes: dict[str, Attribute] = {"data_do": "sort", "data_sort": name, "data_number": number}
    return h("button", title, type="button", **attributes) if title else None


def _row(row: RunRow, compare: str | None) -> Html:
    pick = h("input", type="checkbox", name="run", value=row.run, aria_label="compare")
    link = h("a", row.title, href=row.href, dir="auto")
    servers = ", ".join(row.servers)
    cells: tuple[Child, ...] = (
        pick if compare else None,
        [link, h("small", row.file) if row.file else None],
        status_badge(row.status, row.failed_calls),
        h("span", row.model, title=row.model) if row.model else _NONE,
        h("span", servers, title=servers) if servers else _NONE,
        f"{row.turns:,}",
        f"{row.calls:,}",
        f"{row.tokens:,}" if row.tokens else _NONE,
        cost_label(row.cost_usd) or _NONE,
        seconds_label(row.seconds),
        h("time", row.began[:16].replace("T", " "), datetime=row.began),
    )
    return h(
        "tr",
        [
            # A narrow screen has no head of the table: a cell has its label, or is left out.
            h("td", cell, class_=class_, data_label=label or None, data_none=cell == _NONE)
            for (label, class_), cell in zip(_COLUMNS, cells, strict=True)
        ],
        data_item=True,
        data_model=row.model,
        data_server="\n".join(row.servers),
        data_outcome=row.status,
        data_cost=row.cost_usd or 0,
        data_time=row.seconds,
        data_title=row.title,
        data_turns=row.turns,
        data_calls=row.calls,
        data_tokens=row.tokens,
        data_began=row.began,
        tabindex="-1",
    )
