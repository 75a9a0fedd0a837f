"""A trace as Markdown names what happened."""

from __future__ import annotations

import re

from plait.traces.markdown import trace_to_markdown
from tests.unit.traces.runs import begun


def test_each_turn_and_call_has_a_heading() -> None:
    text = trace_to_markdown(begun().trace)

    assert re.findall(r"^##+ .*$", text, re.MULTILINE)[:4] == [
        "## System",
        "## User",
        "## Turn 1",
        "### `now` of `weather`",
    ]
