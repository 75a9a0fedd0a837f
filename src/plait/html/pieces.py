"""The pieces that pages share: labels of numbers, badges, tables, filters and folded parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from plait.html.elements import Attribute, Child, Html, h
from plait.traces.messages.message import UsageMetadata

Column: TypeAlias = tuple[Child, str | None]
"""The title of a column, and the class of its cells."""


def seconds_label(seconds: float | None) -> str:
    """Format a duration: `4 ms`, `0.92 s`, `12.4 s`, `3 min 5 s`; a dash for `None`."""
    if seconds is None:
        return "–"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "<1 ms"
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count_label(count: int, noun: str) -> str:
    """Format a count: `1 tool`, `2,000 tools`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def cost_label(cost_usd: float | None) -> str | None:
    """Format a cost: `$0.0012`, `$12.30`; `None` if it is unknown."""
    if cost_usd is None:
        return None
    return f"${cost_usd:,.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def tokens_label(usage: UsageMetadata | None) -> str | None:
    """Format the tokens of a turn: `1,200 → 80 tokens`; `None` if there are none."""
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return None
    return f"{usage.input_tokens:,} → {usage.output_tokens:,} tokens"


def status_badge(status: str, failed_calls: int = 0) -> Html:
    """Show how a run or a case ended; a run in which calls failed is not shown as plainly good."""
    if status == "completed" and failed_calls:
        label = f"{status}, {count_label(failed_calls, 'call')} failed"
        return h("span", label, class_="badge warn")
    good = {"completed": "good", "passed": "good", "failed": "bad", "error": "bad"}
    return h("span", status, class_=f"badge {good.get(status, 'warn')}")


def facts(*texts: str | None) -> Html | None:
    """Show short facts in one line, as far as there are any."""
    line = " · ".join(text for text in texts if text)
    return h("span", line, class_="facts") if line else None


def facts_list(rows: Iterable[tuple[str, str | None]], first: Html | None = None) -> Html:
    """Show named values side by side, as far as there are any."""
    cells = [h("div", h("dt", name), h("dd", value)) for name, value in rows if value]
    return h("dl", first, cells, class_="facts-list")


def folded(label: Child, *content: Child, class_: str | None = None) -> Html:
    """Show a label, and its content when it is unfolded."""
    return h("details", h("summary", label), *content, class_=class_)


def table(
    columns: Sequence[Column],
    rows: Iterable[Html],
    *,
    class_: str | None = None,
    is_list: bool = False,
) -> Html:
    """Build a table of rows; those of a list can be filtered."""
    titles = [h("th", title, class_=cells) for title, cells in columns]
    body = h("tbody", list(rows), data_list=is_list)
    return h("table", h("thead", h("tr", titles)), body, class_=class_)


def table_row(columns: Sequence[Column], cells: Sequence[Child], **attributes: Attribute) -> Html:
    """Build a row of a table; it may have fewer cells than the table has columns."""
    pairs = zip(columns, cells, strict=False)
    return h("tr", [h("td", cell, class_=class_) for (_, class_), cell in pairs], **attributes)


def search_field(what: str) -> Html:
    """Build the field that searches the items of a list."""
    label = f"Search {what}  /"
    return h("input", type="search", placeholder=label, data_filter="text", autocomplete="off")


def list_filters(noun: str, count: int, *fields: Html | None, last: Html | None = None) -> Html:
    """Build the filters of a list, which the script of the page applies to its items."""
    shown = h("span", count_label(count, noun), class_="count muted", data_count=noun)
    return h(
        "div", search_field(f"{noun}s"), fields, shown, last, class_="toolbar", data_address=True
    )


def choice_filter(name: str, values: Iterable[str]) -> Html | None:
    """Build the filter by a property that items of a list have; `None` if all have the same."""
    found = sorted({value for value in values if value})
    if len(found) < 2:
        return None
    options = [h("option", value, value=value) for value in found]
    every = h("option", f"any {name}", value="")
    return h("select", every, options, data_filter=name, aria_label=name)
