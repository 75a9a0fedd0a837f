"""No text acts on a terminal, wherever in the output it is."""

from __future__ import annotations

import io

import pytest
from rich.table import Table

from plait.cli.safe_console import SafeConsole

TITLE = "\x1b]0;owned\x9c"


def _shown(*, terminal: bool) -> str:
    out = io.StringIO()
    table = Table("id", title=f"t{TITLE}")
    table.add_row(f"call_1{TITLE}\u202e", style="red")
    SafeConsole(file=out, force_terminal=terminal, width=100).print(table)
    return out.getvalue()


def test_escape_sequences_in_cells_and_titles_are_shown_and_styles_work() -> None:
    shown = _shown(terminal=True)
    assert "\x1b]" not in shown
    assert "\x9c" not in shown
    assert "\u202e" not in shown
    assert "call_1\\x1b]" in shown
    assert "\x1b[31m" in shown


@pytest.mark.parametrize("part", ["call_1", TITLE])
def test_a_pipe_gets_the_exact_text(part: str) -> None:
    assert part in _shown(terminal=False)
