"""A trace as Markdown names what happened."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from plait.traces.messages.message import Message, ToolUseContent
from plait.traces.trace_markdown import trace_to_markdown
from tests.unit.traces.runs import begun


def test_each_turn_and_call_has_a_heading() -> None:
    text = trace_to_markdown(begun().trace)

    assert re.findall(r"^##+ .*$", text, re.MULTILINE)[:4] == [
        "## System",
        "## User",
        "## Turn 1",
        "### `now` of `weather`",
    ]


def test_no_text_of_a_run_is_an_image_a_link_html_or_hidden() -> None:
    hostile = (
        "![a](https://evil.example/b)\n<img src=c> [d](https://evil.example) `e`\n```\n## f\u202e"
    )
    recorder = begun()
    recorder.turn(Message.assistant(hostile, [ToolUseContent("c3", hostile, {"g": hostile})]))
    recorder.tool_called("c3", hostile, {"g": hostile}, server=hostile, tool=hostile)
    recorder.retry(hostile, hostile, 2, reason=hostile)
    recorder.elicitation(hostile, hostile)
    recorder.heal(hostile)
    recorder.summary(hostile)
    recorder.tool_returned("c3", hostile, is_error=True)
    recorder.failed(ValueError(hostile))

    text = trace_to_markdown(recorder.trace)

    blocks = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {token.type for block in blocks for token in (block, *(block.children or ()))}
    assert kinds.isdisjoint({"image", "link_open", "html_block", "html_inline"})
    assert "\u202e" not in text
    assert "evil.example" in text
