"""Agents get results within their budget, and can read everything that is left out of them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from plait import MCPToolsMiddleware, MultiServerMCPClient, Toolbox, ToolResult
from plait.errors import ResultExpiredError
from plait.testing import ScriptedChatModel, tool_call
from tests.integration.agents.helpers import END, arun, named, one_by_one, run
from tests.integration.budget import large_server
from tests.integration.budget.large_server import log_text, picture, row_list
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

LARGE = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("large_server.py"))],
    "exclude": ["read_more"],
}
Next = Callable[[ToolMessage], Any]


@asynccontextmanager
async def large(**options: Any) -> AsyncGenerator[MultiServerMCPClient]:
    server = {"server": large_server.server, "exclude": ["read_more"], **options.pop("server", {})}
    async with MultiServerMCPClient({"large": server}, **options) as client:
        yield client


def reading_on(first: Any, following: Next) -> Callable[[list[BaseMessage]], Any]:
    """Script a model that makes a call, and reads on until there is nothing to read."""

    def turn(messages: list[BaseMessage]) -> Any:
        last = messages[-1]
        if not isinstance(last, ToolMessage):
            return [first]
        assert last.status == "success", last.text
        asked = following(last)
        return END if asked is None else [asked]

    return turn


def bytes_of(message: ToolMessage) -> int:
    """Say how much of a message is text."""
    return len(message.text.encode())


def handle_in(message: ToolMessage) -> str:
    """Find the handle as a model finds it."""
    found = re.search(r"handle=\\?\"(r_\w+)", message.text)
    assert found is not None
    return found[1]


async def test_an_agent_reads_five_megabytes_to_the_end() -> None:
    whole = log_text(240_000)
    assert len(whole.encode()) > 5_000_000
    async with MultiServerMCPClient({"large": LARGE}, result_budget=200_000) as client:
        handles: list[str] = []

        def following(last: ToolMessage) -> Any:
            if not handles:
                handles.append(handle_in(last))
                return tool_call("read_more", handle=handles[0], start=0)
            start = re.search(r"the next is start=(\d+)", str(last.content[1]))
            return start and tool_call("read_more", handle=handles[0], start=int(start[1]))

        script = reading_on(tool_call("log", lines=240_000), following)
        first, *more = await arun(script, await client.get_tools())

        assert bytes_of(first) <= 800_000
        assert len(json.dumps(first.artifact)) < 1_500_000
        assert all(bytes_of(answer) <= 800_000 for answer in more)
        pieces: list[Any] = [answer.content[0] for answer in more]
        assert "".join(piece["text"] for piece in pieces) == whole
        assert client.read_full_result(handles[0]).text == whole


async def test_an_agent_reads_a_thousand_rows_to_the_end() -> None:
    async with large(result_budget=5000) as client:
        middleware = MCPToolsMiddleware(client)
        handles: list[str] = []

        def following(last: ToolMessage) -> Any:
            if not handles:
                handles.append(handle_in(last))
                start = len(json.loads(last.text)["rows"]) - 1
            elif found := re.search(r"the next is start=(\d+)", str(last.content[1])):
                start = int(found[1])
            else:
                return None
            return tool_call("read_more", handle=handles[0], path="$.rows", start=start)

        first, *more = await arun(reading_on(tool_call("rows", count=1000), following), middleware)

        *kept, mark = json.loads(first.text)["rows"]
        assert list(mark) == ["…"]
        assert first.artifact["plait/full_result"] == handles[0]
        assert first.artifact["structured_content"] == json.loads(first.text)
        for answer in (first, *more):
            assert bytes_of(answer) <= 20_000
        for answer in more:
            block: Any = answer.content[0]
            kept += json.loads(block["text"])
        assert kept == row_list(1000)


async def test_an_agent_reads_the_pictures_that_are_left_out() -> None:
    async with large(result_budget=20_000) as client:
        handles: list[str] = []

        def following(last: ToolMessage) -> Any:
            if not handles:
                handles.append(handle_in(last))
            blocks: list[Any] = list(last.content)
            named_next = re.search(
                r"block=(\d+)", " ".join(str(one) for one in blocks if one["type"] == "text")
            )
            return named_next and tool_call(
                "read_more", handle=handles[0], block=int(named_next[1])
            )

        call = tool_call("pictures", count=30, size=30_000)
        answers = await arun(reading_on(call, following), await client.get_tools())

        blocks: list[Any] = [block for answer in answers for block in answer.content]
        images = [block["base64"] for block in blocks if block["type"] == "image"]
        assert images == [picture(number, 30_000) for number in range(30)]
        assert len(answers) == 3
        for answer in answers:
            shown: list[Any] = list(answer.content)
            assert sum(block["type"] == "image" for block in shown) <= 12


async def test_without_a_budget_results_are_whole_and_nothing_reads_on() -> None:
    async with large() as client:
        tools = await client.get_tools()
        (answer,) = await arun(one_by_one(tool_call("log", lines=5000)), tools)

        assert answer.text == log_text(5000)
        assert "plait/full_result" not in answer.artifact
        assert "read_more" not in [tool.name for tool in tools]


async def test_the_budget_of_a_server_is_enough_and_names_do_not_collide() -> None:
    async with large(server={"result_budget": {"bytes": "2kB"}, "exclude": []}) as client:
        tools = await client.get_tools()
        names = [tool.name for tool in tools]
        assert names[-2:] == ["read_more", "mcp_read_more"]

        (answer,) = await arun(one_by_one(tool_call("log", lines=5000)), tools)
        assert bytes_of(answer) <= 2000
        assert "mcp_read_more(handle=" in answer.text
        handle = handle_in(answer)
        (mine, more) = await arun(
            one_by_one(tool_call("read_more"), tool_call("mcp_read_more", handle=handle, length=6)),
            tools,
        )
        assert mine.text == "mine"
        block: Any = more.content[0]
        assert block["text"] == log_text(1)[:6]


async def test_files_are_kept_out_of_checkpoints_and_resources_count_too() -> None:
    async with large(result_budget=1000) as client:
        saver = InMemorySaver()
        model = ScriptedChatModel([[tool_call("file", size=1_000_000)], END])
        agent: Any = create_agent(model, await client.get_tools(), checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}

        state = await agent.ainvoke({"messages": [("user", "go")]}, config)

        message = state["messages"][-2]
        assert len(json.dumps(message.artifact)) < 8000
        whole = client.read_full_result(message.artifact["plait/full_result"])
        assert whole.to_dict()["content"][0]["resource"]["text"] == "x" * 1_000_000


async def test_interceptors_see_whole_results() -> None:
    seen: list[int] = []

    async def shorten(request: Any, handler: Any) -> Any:
        result = await handler(request)
        if request.name == "log":
            (block,) = result.content
            seen.append(len(block.text))
            block.text = block.text[:100]
            return result.model_copy(update={"structured_content": None})
        return result

    async with large(result_budget=1000, tool_interceptors=[shorten]) as client:
        (answer,) = await arun(one_by_one(tool_call("log", lines=5000)), await client.get_tools())

        assert seen == [len(log_text(5000))]
        assert answer.text == log_text(5000)[:100]
        assert "plait/full_result" not in answer.artifact


def test_code_without_a_loop_reads_on_too() -> None:
    with MultiServerMCPClient({"large": large_server.server}, result_budget=1000) as client:
        tools = client.get_tools_blocking()
        (answer,) = run(one_by_one(tool_call("rows", count=1000)), tools)
        asked = tool_call("mcp_read_more", handle=handle_in(answer), path="$.rows[998:].id")
        (more,) = run(one_by_one(asked), tools)

        block: Any = more.content[0]
        assert block["text"] == "[998, 999]"


def user_of(config: Mapping[str, Any]) -> dict[str, str]:
    return {"X-User": config["configurable"]["user"]}


def run_of(user: str, thread: str = "1") -> Any:
    return {"configurable": {"user": user, "thread_id": thread}}


async def test_nobody_reads_the_results_of_others() -> None:
    with fault_server() as server:
        config = {"server": {"url": server.url, "headers": user_of}}
        async with (
            MultiServerMCPClient(config, result_budget=1000) as client,
            MultiServerMCPClient(config, result_budget=1000) as other_client,
        ):
            tools = await client.get_tools(config=run_of("ann"))
            other_tools = await other_client.get_tools(config=run_of("ann"))
            big = named(tools, "big")
            cut = await big.ainvoke(tool_call("big", size_bytes=50_000), run_of("ann"))
            read = tool_call("read_more", handle=cut.artifact["plait/full_result"])
            reader, other_reader = named(tools, "read_more"), named(other_tools, "read_more")

            own = await reader.ainvoke(read, run_of("ann"))
            refused = [
                await reader.ainvoke(read, run_of("bob")),
                await reader.ainvoke(read, run_of("ann", thread="2")),
                await other_reader.ainvoke(read, run_of("ann")),
            ]

            assert own.status == "success"
            assert [answer.status for answer in refused] == ["error"] * 3
            assert len({answer.content for answer in refused}) == 1
            assert "call the tool again" in refused[0].text


async def test_a_handle_that_has_expired_says_what_to_do() -> None:
    budget = {"tokens": 1000, "keep_bytes": 60_000}
    async with large(result_budget=budget) as client:
        tools = await client.get_tools()
        first, _ = await arun(
            one_by_one(tool_call("log", lines=2000), tool_call("log", lines=2000)), tools
        )
        handle = first.artifact["plait/full_result"]
        (answer,) = await arun(one_by_one(tool_call("read_more", handle=handle)), tools)

        assert answer.status == "error"
        assert "call the tool again" in answer.text
        with pytest.raises(ResultExpiredError):
            client.read_full_result(handle)


async def test_a_toolbox_has_the_same_budget_and_the_same_tool() -> None:
    async with Toolbox(
        {"large": large_server.server}, result_budget=1000, exclude=["read_more"]
    ) as box:
        result = await box.call("large", "rows", {"count": 1000})
        (reader,) = box.own_tools(taken=["read_more"])
        asked = {"handle": result.full_result, "path": "$.rows[*].id"}
        ids: list[int] = []
        while len(ids) < 1000:
            more = await box.call(reader.server, reader.wire_name, {**asked, "start": len(ids)})
            assert isinstance(more, ToolResult)
            ids += json.loads(more.to_dict()["content"][0]["text"])

        assert len(result.text.encode()) <= 4000
        assert result.structured_content == json.loads(result.text)
        assert reader.name == "mcp_read_more"
        assert ids == list(range(1000))
        assert result.full_result is not None
        assert box.read_full_result(result.full_result).structured_content == {
            "total": 1000,
            "rows": row_list(1000),
        }
        assert [tool.wire_name for tool in await box.tools()] == ["log", "rows", "pictures", "file"]
