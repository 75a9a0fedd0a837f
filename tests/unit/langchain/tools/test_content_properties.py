"""Whatever a server answers, the model reads something and the program gets the rest."""

from __future__ import annotations

import copy
import json
from typing import Any

import mcp_types as types
from hypothesis import given
from hypothesis import strategies as st

from plait import MCPToolArtifact
from plait.client.calls.outcome import ToolResult
from plait.client.protocol.repair import repair_result
from plait.langchain.tools.blocks import Block
from plait.langchain.tools.content import (
    OutputHandling,
    convert_result,
    pending_reads,
    with_resources,
)

Json = dict[str, Any]

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
good_blocks: st.SearchStrategy[Json] = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["image", "audio"]), "data": st.text(), "mimeType": st.text()}
    ),
    st.fixed_dictionaries(
        {"type": st.just("resource_link"), "uri": st.text(), "name": st.text()},
        optional={"size": st.integers(), "mimeType": st.text(), "description": st.text()},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("resource"),
            "resource": st.fixed_dictionaries(
                {"uri": st.text()},
                optional={"text": st.text(), "blob": st.text(), "mimeType": st.text()},
            ),
        }
    ),
)
blocks = (
    good_blocks
    | json_values
    | st.builds(
        lambda good, odd: {**good, **odd},
        good_blocks,
        st.dictionaries(st.sampled_from(["annotations", "_meta", "text", "data"]), json_values),
    )
)
answers = st.fixed_dictionaries(
    {"content": st.lists(blocks, max_size=4)},
    optional={
        "structuredContent": json_values,
        "isError": st.booleans(),
        "_meta": st.dictionaries(st.text(), json_values, max_size=2),
    },
)
routes = st.sampled_from(["content", "artifact"])
handlings = st.builds(
    OutputHandling,
    text=routes,
    image=routes,
    audio=routes,
    resource=routes,
    resource_link=routes,
    structured_content=st.sampled_from(["auto", "content", "artifact"]),
)


def _read(answer: Json) -> types.CallToolResult:
    return types.CallToolResult.model_validate(
        repair_result("tools/call", answer, "2025-11-25").result
    )


def _texts(content: str | list[Block]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


@given(answers, handlings, st.booleans())
def test_every_answer_has_something_to_read_and_a_whole_artifact(
    answer: Json, handling: OutputHandling, standard: bool
) -> None:
    result = _read(answer)
    before = copy.deepcopy(result)

    converted = convert_result(
        ToolResult.from_mcp("s", "t", result), handling=handling, standard_blocks=standard
    )

    assert converted.content
    assert all(text.strip() for text in _texts(converted.content))
    assert converted.artifact.keys() == MCPToolArtifact.__required_keys__
    assert converted.artifact["structured_content"] == answer.get("structuredContent")
    assert json.loads(json.dumps(converted.artifact)) == converted.artifact
    json.dumps(converted.content)
    assert result == before


@given(answers, handlings)
def test_every_block_is_on_at_least_one_side(answer: Json, handling: OutputHandling) -> None:
    result = _read({**answer, "structuredContent": None})
    blank = sum(
        isinstance(one, types.TextContent) and not one.text.strip() for one in result.content
    )

    converted = convert_result(ToolResult.from_mcp("s", "t", result), handling=handling)

    shown = len(converted.content) if isinstance(converted.content, list) else 1
    assert shown + len(converted.artifact["content"]) >= len(result.content) - blank


@given(json_values.filter(lambda value: value is not None), st.sampled_from(["auto", "content"]))
def test_structure_is_never_said_twice(structured: Any, route: Any) -> None:
    handling = OutputHandling(structured_content=route)
    written = json.dumps(structured, indent=1, sort_keys=True)

    for wrapped in (structured, {"result": structured}):
        result = types.CallToolResult(
            content=[types.TextContent(text=written)], structured_content=wrapped
        )
        converted = convert_result(ToolResult.from_mcp("s", "t", result), handling=handling)
        assert converted.content == written


@given(json_values.filter(lambda value: value is not None))
def test_structure_alone_reaches_the_model_whole(structured: Any) -> None:
    result = types.CallToolResult(content=[], structured_content=structured)

    content = convert_result(ToolResult.from_mcp("s", "t", result), sanitize=False).content

    assert isinstance(content, str)
    assert json.loads(content) == structured


@given(answers)
def test_reading_what_is_pending_leaves_nothing_pending(answer: Json) -> None:
    result = ToolResult.from_mcp("s", "t", _read(answer))
    contents = {
        uri: [types.TextResourceContents(uri=uri, text="read")] for uri in pending_reads(result)
    }

    filled = with_resources(result, contents)

    assert pending_reads(filled) == []
    assert len(filled.content) == len(result.content)
    assert with_resources(result, {}) == result
