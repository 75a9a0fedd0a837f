"""Whichever engine runs, no character that hides or acts reaches the API of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.lowlevel import Server

from plait import Message, ModelConfig, MultiServerMCPClient, get_agent
from plait._support.sanitize import _SUSPECT_OR_ROW
from plait.testing import AnthropicServer, Call, OpenAIServer, Say

pytestmark = pytest.mark.anyio

HIDDEN = "\u200b\u202e\U000e0041\u200e\u200f\u200e\u2066\u2069a\ufe0f\x1b[31m\u00ad"
KEY = "key-0123456789abcdef"


def _blocks() -> list[types.ContentBlock]:
    link: dict[str, Any] = {"uri": f"file:///x{HIDDEN}", "mime_type": f"text/x{HIDDEN}"}
    plain: dict[str, Any] = {**link, "mime_type": "text/plain"}
    text = types.TextResourceContents(text=f"body{HIDDEN}", **plain)
    return [
        types.TextContent(text=f"text{HIDDEN}"),
        types.ResourceLink(name=f"n{HIDDEN}", title=f"t{HIDDEN}", description=HIDDEN, **link),
        types.EmbeddedResource(resource=text),
        types.EmbeddedResource(resource=types.BlobResourceContents(blob="AAAA", **link)),
        types.ImageContent(data="AAAA", mime_type=f"image/x{HIDDEN}"),
        types.AudioContent(data="AAAA", mime_type=f"audio/x{HIDDEN}"),
    ]


async def _list(_context: Any, _params: Any) -> types.ListToolsResult:
    texts: dict[str, Any] = dict.fromkeys(("title", "description", "default"), f"d{HIDDEN}")
    argument = {"type": "string", "enum": [HIDDEN], "examples": [HIDDEN], **texts}
    schema = {"type": "object", "properties": {f"a{HIDDEN}": argument}, "description": HIDDEN}
    names = ("work", "fail", "refuse", "structure", "na\u200bme")
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, title=HIDDEN, description=HIDDEN, input_schema=schema)
            for name in names
        ]
    )


async def _call(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    match params.name:
        case "refuse":
            raise MCPError(code=-32000, message=f"refused{HIDDEN}")
        case "structure":
            structure = {f"key{HIDDEN}": [f"value{HIDDEN}", {"a": HIDDEN}]}
            return types.CallToolResult(content=[], structured_content=structure)
        case name:
            return types.CallToolResult(content=_blocks(), is_error=name == "fail")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from (key, *_texts(one))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


@pytest.mark.parametrize("engine", ["langchain", "claude_tool"])
async def test_nothing_that_hides_or_acts_reaches_a_model(
    engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls = tuple(Call(name, {}) for name in ("work", "fail", "refuse", "structure"))
    turns = iter([Say("I begin.", calls=calls), Say("Done.")])
    hiding = Server(
        f"s{HIDDEN}", instructions=f"i{HIDDEN}", on_list_tools=_list, on_call_tool=_call
    )
    is_openai = engine == "langchain"
    with (OpenAIServer if is_openai else AnthropicServer)(lambda _: next(turns)) as api:
        facts: dict[str, Any] = {"anthropic_base_url": api.url, "anthropic_api_key": KEY}
        if is_openai:
            options = {"base_url": f"{api.url}/v1", "api_key": KEY}
            facts = {"model_provider": "openai", "extra_kwargs": options}
        model = ModelConfig.model_validate(
            {"id": "m", "model_name": "test-model", "interface": engine, "max_retries": 0, **facts}
        )
        server: Any = {"type": "sdk", "instance": hiding, "trust_instructions": True}
        await get_agent(model).arun([Message.user("Go on.")], None, {"hiding": server})
        texts = [text for body in api.bodies for text in _texts(body)]

    read = "\n".join(texts)
    words = ("text", "refused", "value", "file:///x", "na_me")
    assert [word for word in words if word not in read] == []
    assert [text for text in texts if _SUSPECT_OR_ROW.search(text)] == []
    logged = [record.getMessage() for record in caplog.records]
    assert any(r"na\u200bme" in message for message in logged)
    assert [message for message in logged if _SUSPECT_OR_ROW.search(message)] == []


async def test_the_text_of_a_resource_that_a_model_reads_hides_nothing() -> None:
    server = Server("hiding", on_list_tools=_list, on_call_tool=_call)
    async with MultiServerMCPClient(
        {"hiding": server}, output_handling={"resource": "content"}
    ) as client:
        work = (await client.get_tools())[0]
        message = await work.ainvoke({"name": "work", "args": {}, "id": "1", "type": "tool_call"})

    texts = list(_texts(message.content))
    assert any(text.startswith("body") for text in texts)
    assert [text for text in texts if _SUSPECT_OR_ROW.search(text)] == []
