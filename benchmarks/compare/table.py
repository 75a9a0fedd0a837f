"""Tables of results, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.compare.contenders import (
    ADAPTERS,
    LIMIT,
    NODE,
    OWN_LOOP,
    PLAIT,
    SDK,
    Contender,
)
from benchmarks.compare.results import Ratio, Results
from benchmarks.compare.scenarios import Row

DASH = "–"
DOCUMENTED = frozenset(
    [
        "stdio",
        "http",
        "websocket",
        "graph",
        "at-once-stdio",
        "at-once-http",
        "payload-256k",
        "payload-20m",
        "tools-1000",
        "bind-1000",
        "memory-1000",
        "import",
        "cold-1",
        "cold-http",
        "cold-8",
        "heal",
    ]
)
"""The rows in the documentation; the report of a run has all."""


@dataclass(frozen=True)
class Table:
    """Text cells; the first column names the rows."""

    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def to_text(self) -> str:
        """Lay out columns of equal width."""
        every = [self.header, *self.lines]
        widths = [max(len(line[column]) for line in every) for column in range(len(self.header))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in every
        )

    def to_markdown(self) -> str:
        """Write a Markdown table with numbers to the right."""
        rule = ("---", *("---:" for _ in self.header[1:]))
        return "\n".join(f"| {' | '.join(line)} |" for line in (self.header, rule, *self.lines))


def ratio_table(results: Results, rows: Sequence[Row], contenders: Sequence[Contender]) -> Table:
    """Compare everybody with the limit: ratios of wall time and CPU.

    Where the limit has no number, cells hold times.
    """
    others = [contender for contender in contenders if contender != LIMIT]
    lines: list[tuple[str, ...]] = []
    for row in rows:
        base = results.summary(LIMIT.id, row.id)
        cells = [_ratio_cell(results, contender, row) for contender in others]
        lines.append((_title(row), amount(base.p50, row.unit) if base else DASH, *cells))
    return Table(("wall ratio / CPU ratio", "limit", *(o.short for o in others)), tuple(lines))


def wall_table(results: Results, rows: Sequence[Row], contenders: Sequence[Contender]) -> Table:
    """Compare everybody with the limit in wall time only, for the documentation."""
    shown = [one for one in contenders if one.is_quick and one != OWN_LOOP]
    full = ratio_table(results, [row for row in rows if row.id in DOCUMENTED], shown)
    cells = (tuple(cell.partition(" / ")[0] for cell in line) for line in full.lines)
    return Table(("wall ratio", *full.header[1:]), tuple(cells))


def plait_table(results: Results, rows: Sequence[Row]) -> Table:
    """Compare plait in both loop modes with the limit and its main peers, in wall time."""
    references = (LIMIT, SDK, NODE, ADAPTERS)
    lines = [
        (
            _title(row),
            *(
                " / ".join(
                    _number(results.ratio(ours.id, reference.id, row.id).wall)
                    for ours in (PLAIT, OWN_LOOP)
                )
                for reference in references
            ),
        )
        for row in rows
    ]
    header = ("caller's loop / own loop", *(f"to {reference.short}" for reference in references))
    return Table(header, tuple(lines))


def times_table(results: Results, rows: Sequence[Row], contenders: Sequence[Contender]) -> Table:
    """List p50, p99 and CPU of everybody."""
    lines = [
        (_title(row), *(_times_cell(results, contender, row) for contender in contenders))
        for row in rows
    ]
    return Table(("p50, p99, CPU", *(c.short for c in contenders)), tuple(lines))


def reasons(results: Results, rows: Sequence[Row], contenders: Sequence[Contender]) -> list[str]:
    """Explain every dash, one line per contender and reason."""
    titles = {row.id: _title(row) for row in rows}
    found: list[str] = []
    for contender in contenders:
        if contender.id in results.missing:
            found.append(f"{contender.title}: no environment: {results.missing[contender.id]}")
            continue
        by_reason: dict[str, list[str]] = {}
        for row, title in titles.items():
            if (contender.id, row) in results.dashes:
                by_reason.setdefault(results.dashes[contender.id, row], []).append(title)
        found += [
            f"{contender.title}: {reason} ({'; '.join(where)})"
            for reason, where in by_reason.items()
        ]
    return found


def amount(value: float, unit: str) -> str:
    """Write a time or a size with three digits and a unit."""
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB" if value < 1e9 else f"{value / 1e6:.0f} MB"
    for factor, name in ((1e6, "µs"), (1e3, "ms"), (1, "s")):
        if value * factor < 999.5 or name == "s":
            return f"{value * factor:.3g} {name}"
    raise AssertionError("unreachable: seconds take every value")


def _title(row: Row) -> str:
    return f"{row.group}: {row.title}"


def _number(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _ratio_cell(results: Results, contender: Contender, row: Row) -> str:
    if (contender.id, row.id) in results.lost:
        return "lost"
    summary = results.summary(contender.id, row.id)
    if summary is None:
        return DASH
    ratio: Ratio = results.ratio(contender.id, LIMIT.id, row.id)
    if ratio.wall is None:
        return amount(summary.p50, row.unit)
    return _number(ratio.wall) + ("" if ratio.cpu is None else f" / {_number(ratio.cpu)}")


def _times_cell(results: Results, contender: Contender, row: Row) -> str:
    if (contender.id, row.id) in results.lost:
        return "lost"
    summary = results.summary(contender.id, row.id)
    if summary is None:
        return DASH
    if summary.cpu is None:
        return amount(summary.p50, row.unit)
    figures = (summary.p50, summary.p99, summary.cpu)
    return ", ".join(amount(value, row.unit) for value in figures)
