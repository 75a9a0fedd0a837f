"""Tool results as models read them."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest

from plait.client.calls.outcome import NO_DETAILS, NOTHING, content_for_model, json_text, repeats


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{"a": 1, "b": [true, null]}'], {"b": [True, None], "a": 1}),
        (["words"], "words"),
        (['"words"'], "words"),
        (["3.5"], {"result": 3.5}),
        (["null"], {"result": None}),
        (["[]"], {"result": []}),
        (["1", "2"], [1, 2]),
        (["NaN"], {"result": float("nan")}),
    ],
)
def test_a_text_with_the_same_value_repeats_it(texts: list[str], structured: Any) -> None:
    assert repeats(texts, structured)


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        ([], {}),
        ([], {"result": []}),
        (["1"], {"result": True}),
        (["1", "2"], [2, 1]),
        (["1", "2", "3"], [1, 2]),
        (["words and more"], {"result": "words"}),
        (["7"], {"value": 7}),
        (["7"], {"result": 7, "unit": "m"}),
        (["9" * 5000], {"a": 1}),
        (["[" * 100_000], {"a": 1}),
    ],
)
def test_a_text_with_another_value_does_not_repeat_it(texts: list[str], structured: Any) -> None:
    assert not repeats(texts, structured)


def test_json_is_written_for_a_reader() -> None:
    assert json_text({"name": "Zoë", "n": [1, 2]}) == '{"name": "Zoë", "n": [1, 2]}'


def test_a_value_that_is_no_json_is_written_as_it_can_be() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert json_text({"a": {1}}) == '{"a": "{1}"}'
    assert json_text(endless) == "a value that cannot be written as JSON"
    assert json.loads(json_text({"a": "\ud83d"})) == {"a": "\ud83d"}
    assert not repeats(["x"], endless)


PICTURE = types.ImageContent(data="aGVsbG8=", mime_type="image/png")


def test_structured_content_is_the_last_text_if_the_tool_wrote_none() -> None:
    blank = types.TextContent(text=" ")

    assert content_for_model([PICTURE, blank], {"n": 1}) == (
        PICTURE,
        types.TextContent(text='{"n": 1}'),
    )
    assert content_for_model([PICTURE], {"shown": [PICTURE.data]}) == (PICTURE,)
    text = types.TextContent(text="one")
    assert content_for_model([text], {"n": 1}) == (text,)


def test_a_model_always_has_something_to_read() -> None:
    assert content_for_model([]) == (types.TextContent(text=NOTHING),)
    assert content_for_model([], is_error=True) == (types.TextContent(text=NO_DETAILS),)


def test_what_a_model_reads_is_sanitized() -> None:
    hidden = "\u200b"
    web = types.ResourceLink(uri=f"https://a/{hidden}", name=f"n{hidden}")
    local = types.ResourceLink(uri=f"file:///{hidden}", name="n")
    contents = types.TextResourceContents(uri="a://b", text=f"x{hidden}")
    blocks: list[types.ContentBlock] = [web, local, types.EmbeddedResource(resource=contents)]

    shown = content_for_model(blocks)

    assert shown == (
        types.ResourceLink(uri="https://a/", name="n"),
        types.ResourceLink(uri="file:///", name="n"),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="a://b", text="x")),
    )
    assert content_for_model(blocks, sanitize=False) == tuple(blocks)
