"""A rich table that leaves columns out where there is no room for whole words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from typing_extensions import override

MAX_WORD_COLUMNS = 40
"""Longer words, such as paths and addresses, may be broken: columns are not given up for them."""


class FittingTable(Table):
    """Leaves dispensable columns out, in order, until no word has to be broken."""

    def __init__(self, *, dispensable: Sequence[str] = (), **settings: Any) -> None:
        """Take the settings of a table, and the headers of the columns that it can do without."""
        super().__init__(**settings)
        self._dispensable = dispensable

    @override
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headers = [column.header for column in self.columns]
        left_out = [header for header in self._dispensable if header in headers]
        shown: Table = self
        while left_out and _needed(shown, console, options) > options.max_width:
            shown = _without(shown, left_out.pop(0))
        if shown is self:
            yield from super().__rich_console__(console, options)
        else:
            yield shown


def _needed(table: Table, console: Console, options: ConsoleOptions) -> int:
    """Return the width at which every word is whole; a cell may take several lines."""
    width = 0
    for column in table.columns:
        cells = [column.header, *column.cells]
        words = (Measurement.get(console, options, one).minimum for one in cells)
        width += min(max(words), MAX_WORD_COLUMNS) + 2
    return width - 2


def _without(table: Table, header: str) -> Table:
    """Copy a table without one of its columns."""
    copy = Table(box=None, pad_edge=False, header_style=table.header_style, padding=table.padding)
    kept = [column for column in table.columns if column.header != header]
    for column in kept:
        copy.add_column(column.header, justify=column.justify, overflow=column.overflow)
    for row in zip(*(column.cells for column in kept), strict=True):
        copy.add_row(*row)
    return copy
