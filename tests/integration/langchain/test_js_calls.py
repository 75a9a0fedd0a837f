"""What the suite of `@langchain/mcp-adapters` checks of calls, in our words, on real servers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from plait import CallTimeoutError, MultiServerMCPClient, PlaitError
from plait.testing import ScriptedChatModel, eventually, tool_call
from tests.integration.langchain.js import differs, message_of, tools_of
from tests.servers.js_servers import PIXEL, SOUND

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]


async def test_a_call_within_its_limit_is_answered(url: Json) -> None:
    async with MultiServerMCPClient({"a": {**url, "defaultToolTimeout": 20_000}}) as client:
        sleep = (await tools_of(client))["sleep_tool"]
        assert await sleep.ainvoke({"milliseconds": 20}) == "done"
        assert await sleep.ainvoke({"milliseconds": 20}, {"timeout": 10}) == "done"  # pyright: ignore[reportArgumentType]


@differs("A call that takes too long, or whose arguments do not fit")
@pytest.mark.parametrize("where", ["call", "server", "client"])
async def test_a_call_beyond_its_limit_is_a_failure(where: str, url: Json) -> None:
    entry = {**url, "defaultToolTimeout": 100} if where == "server" else url
    options: Json = {"defaultToolTimeout": 100} if where == "client" else {}
    config: Any = {"timeout": 0.1} if where == "call" else None
    async with MultiServerMCPClient({"mcpServers": {"a": entry}, **options}) as client:
        sleep = (await tools_of(client))["sleep_tool"]
        assert "timeout" in await sleep.ainvoke({"milliseconds": 5000}, config)
        client.handle_tool_errors = False
        strict = (await tools_of(client))["sleep_tool"]
        with pytest.raises(CallTimeoutError) as late:
            await strict.ainvoke({"milliseconds": 5000}, config)
        assert isinstance(late.value, TimeoutError)


async def test_the_limit_of_a_call_may_be_longer_than_that_of_its_server(url: Json) -> None:
    async with MultiServerMCPClient({"a": {**url, "defaultToolTimeout": 100}}) as client:
        sleep = (await tools_of(client))["sleep_tool"]
        config: Any = {"timeout": 20}
        assert await sleep.ainvoke({"milliseconds": 300}, config) == "done"


async def test_a_cancelled_call_ends_at_once(url: Json) -> None:
    async with MultiServerMCPClient({"a": url}) as client:
        sleep = (await tools_of(client))["sleep_tool"]
        call = asyncio.create_task(sleep.ainvoke({"milliseconds": 30_000}))
        await eventually(lambda: client.status()["a"].in_flight == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


TEXT = {"type": "text", "text": "hey"}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}
PAGE_OF_MCP = {
    "type": "resource",
    "resource": {"uri": "mem://test.txt", "mimeType": "text/plain", "text": "A resource."},
}


@differs("Blocks of a result", "Artifact of a call")
@pytest.mark.parametrize("standard", [None, True, False])
async def test_images_are_blocks_of_either_style(standard: bool | None, url: Json) -> None:
    options: Json = {} if standard is None else {"useStandardContentBlocks": standard}
    async with MultiServerMCPClient({"mcpServers": {"a": url}, **options}) as client:
        message = await message_of((await tools_of(client))["image_tool"], text="hey")

    block = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    if standard is False:
        block = {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{PIXEL}"},
        }
    assert message.content == [TEXT, block]
    assert message.artifact["content"] == []


@differs("Sounds in the content", "Embedded resources in the content")
async def test_sounds_and_resources_are_a_line_with_the_rest_in_the_artifact(url: Json) -> None:
    async with MultiServerMCPClient({"a": url}) as client:
        tools = await tools_of(client)
        sound = await message_of(tools["audio_tool"], text="hey")
        page = await message_of(tools["resource_tool"], text="hey")

    assert sound.content == [TEXT, {"type": "text", "text": "[audio/wav, 8 B, not shown]"}]
    assert sound.artifact["content"] == [AUDIO]
    line = {"type": "text", "text": "Resource: mem://test.txt (text/plain, 11 B)"}
    assert page.content == [TEXT, line]
    assert page.artifact["content"] == [PAGE_OF_MCP]


@differs('`outputHandling: "artifact"`')
async def test_everything_may_go_to_the_artifact(url: Json) -> None:
    options = {"mcpServers": {"a": url}, "outputHandling": "artifact"}
    async with MultiServerMCPClient(options) as client:
        tools = await tools_of(client)
        for name, block in (
            ("image_tool", IMAGE),
            ("audio_tool", AUDIO),
            ("resource_tool", PAGE_OF_MCP),
        ):
            message = await message_of(tools[name], text="hey")
            assert "hey" not in message.content
            assert message.artifact["content"] == [TEXT, block]


@pytest.mark.parametrize("standard", [True, False])
async def test_everything_may_go_to_the_content(standard: bool, url: Json) -> None:
    options: Json = {"outputHandling": "content", "useStandardContentBlocks": standard}
    async with MultiServerMCPClient({"mcpServers": {"a": url}, **options}) as client:
        tools = await tools_of(client)
        page = await message_of(tools["resource_tool"], text="hey")
        image = await message_of(tools["image_tool"], text="hey")

    assert page.artifact["content"] == image.artifact["content"] == []
    texts = [block["text"] for block in page.content if isinstance(block, dict)]
    assert texts[0] == "hey"
    assert texts[-1] == "A resource."
    assert any("mem://test.txt" in text for text in texts)
    assert len(image.content) == 2


async def test_kinds_of_content_are_handled_one_by_one(url: Json) -> None:
    handling = {"text": "content", "image": "artifact", "resource": "content"}
    options: Json = {"mcpServers": {"a": url}, "outputHandling": handling}
    async with MultiServerMCPClient(options) as client:
        tools = await tools_of(client)
        image = await message_of(tools["image_tool"], text="hey")
        page = await message_of(tools["resource_tool"], text="hey")

    assert image.content == "hey"
    assert image.artifact["content"] == [IMAGE]
    assert page.artifact["content"] == []


async def test_what_a_server_says_about_content_wins_over_the_client(url: Json) -> None:
    own = {"image": "content", "resource": "artifact"}
    options = {
        "mcpServers": {"a": {**url, "outputHandling": own}},
        "outputHandling": "artifact",
        "useStandardContentBlocks": False,
    }
    async with MultiServerMCPClient(options) as client:
        tools = await tools_of(client)
        image = await message_of(tools["image_tool"], text="hey")
        page = await message_of(tools["resource_tool"], text="hey")

    (block,) = (one for one in image.content if isinstance(one, dict))
    assert block["type"] == "image_url"
    assert image.artifact["content"] == [TEXT]
    assert page.artifact["content"] == [TEXT, PAGE_OF_MCP]


async def test_structured_content_and_meta_are_in_the_artifact(url: Json) -> None:
    async with MultiServerMCPClient({"a": url}) as client:
        message = await message_of((await tools_of(client))["structured_tool"], text="hey")

    assert message.content == "hey"
    assert message.artifact["structured_content"] == {"said": "hey"}
    assert message.artifact["_meta"]["traced"] == 7


@differs("`listResources`, `listResourceTemplates`, `readResource`")
async def test_resources_and_templates_are_listed_and_read(url: Json) -> None:
    async with MultiServerMCPClient({"a": url}) as client:
        (listed,) = await client.list_resources()
        (template,) = await client.list_resource_templates()
        read = await client.read_resource("a", "mem://test.txt")
        with pytest.raises(PlaitError):
            await client.read_resource("a", "mem://nothing.txt")

    assert (listed.server, listed.item.name, listed.item.uri) == (
        "a",
        "Test Resource",
        "mem://test.txt",
    )
    assert listed.item.mime_type == "text/plain"
    assert template.item.uri_template == "mem://user/{user}/profile"
    (content,) = read.contents
    assert getattr(content, "text", None) == "A resource."
    assert (str(content.uri), content.mime_type) == ("mem://test.txt", "text/plain")


async def test_a_hook_changes_arguments_and_another_one_the_result(connection: Json) -> None:
    options: Json = {
        "mcpServers": {"a": connection},
        "beforeToolCall": lambda call, *_: {"args": {**call.args, "input": "changed"}},
    }
    async with MultiServerMCPClient(options) as client:
        tool = (await tools_of(client))["test_tool"]
        assert json.loads(await tool.ainvoke({"input": "orig"}))["input"] == "changed"

    options["afterToolCall"] = lambda *_: {"result": ["after", []]}
    async with MultiServerMCPClient(options) as client:
        assert await (await tools_of(client))["test_tool"].ainvoke({"input": "orig"}) == "after"


@differs("A `ToolMessage` of `afterToolCall`")
async def test_a_hook_may_return_a_text_or_a_message(url: Json) -> None:
    answers = iter(["a text", ToolMessage("a message", tool_call_id="1")])
    options = {"mcpServers": {"a": url}, "afterToolCall": lambda *_: {"result": next(answers)}}
    async with MultiServerMCPClient(options) as client:
        tool = (await tools_of(client))["test_tool"]
        assert await tool.ainvoke({"input": "orig"}) == "a text"
        message = await tool.ainvoke({"input": "orig"})
        assert isinstance(message, ToolMessage)
        assert message.content == "a message"


@differs("Headers for a program")
async def test_headers_of_a_hook_reach_the_server_if_it_takes_any(connection: Json) -> None:
    options = {
        "mcpServers": {"a": connection},
        "beforeToolCall": lambda *_: {"headers": {"X-Check": "present"}},
    }
    async with MultiServerMCPClient(options) as client:
        found = await (await tools_of(client))["check_headers"].ainvoke({"name": "X-Check"})

    assert found == ("not found" if connection["transport"] == "stdio" else "present")


async def test_progress_and_log_messages_are_reported(url: Json) -> None:
    steps: list[int] = []
    logs: list[str] = []
    options = {
        "mcpServers": {"a": {**url, "protocol": "legacy"}},
        "onMessage": lambda params, *_: logs.append(str(params.data)),
        "onProgress": lambda done, total, *_: steps.append(round(done / (total or 1) * 100)),
    }
    async with MultiServerMCPClient(options) as client:
        await (await tools_of(client))["test_tool"].ainvoke({"input": "evt"})
        await eventually(lambda: steps == [33, 67, 100] and "test_tool invoked" in logs)


async def test_hooks_see_an_empty_state_and_the_config_outside_a_graph(url: Json) -> None:
    seen: list[tuple[Any, Any]] = []
    options = {
        "mcpServers": {"a": url},
        "beforeToolCall": lambda call, state, config: seen.append((state, config)),
        "afterToolCall": lambda call, state, config: seen.append((state, config)),
    }
    async with MultiServerMCPClient(options) as client:
        tool = (await tools_of(client))["test_tool"]
        await tool.ainvoke({"input": "orig"}, {"tags": ["mine"]})

    assert [state for state, _ in seen] == [{}, {}]
    assert all("mine" in config["tags"] for _, config in seen)


async def test_hooks_see_the_state_of_an_agent(url: Json) -> None:
    lengths: list[int] = []

    def before(call: Any, state: Any, config: Any) -> Json:
        lengths.append(len(state["messages"]))
        return {"args": {"input": "changed"}}

    options = {
        "mcpServers": {"a": url},
        "beforeToolCall": before,
        "afterToolCall": lambda call, state, config: lengths.append(len(state["messages"])),
    }
    async with MultiServerMCPClient(options) as client:
        model = ScriptedChatModel([[tool_call("test_tool", input="orig")], "done"])
        agent: Any = create_agent(model, await client.get_tools())
        outcome = await agent.ainvoke({"messages": [("user", "orig")]})

    assert lengths == [2, 2]
    assert json.loads(outcome["messages"][-2].content)["input"] == "changed"
