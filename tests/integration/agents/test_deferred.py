"""Agents with many tools: they search, and have what their conversation has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.base import BaseMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from mcp.server import MCPServer
from typing_extensions import override

from plait import MCPToolsMiddleware, MultiServerMCPClient, Toolbox
from plait.client.catalog.deferral import tokens_of
from plait.langchain.tools.tool import MCPTool
from plait.models.schemas.for_provider import PROFILES, Profile
from plait.testing import ScriptedChatModel
from tests.integration.agents.helpers import (
    END,
    agent_of,
    answers_of,
    named,
    one_by_one,
    question,
    run,
    tool_call,
)
from tests.integration.agents.many_tools import servers_with

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TIME = tool_call("get_current_time", timezone="UTC")
SEARCH = "what time is it now"


def tokens(tools: Sequence[BaseTool]) -> int:
    return sum(tokens_of(tool.tool) for tool in tools if isinstance(tool, MCPTool))


async def test_300_tools_take_less_than_2_percent_of_the_context_when_they_are_deferred() -> None:
    async with MultiServerMCPClient(servers_with(300), defer=True) as client:
        everything = await client.get_tools(defer=False)
        plain = await client.get_tools()
        begun = await client.get_tools(messages=[HumanMessage("go")])

    assert len(everything) == 300
    assert [tool.name for tool in plain] == ["search_tools", "call_tool"]
    assert [tool.name for tool in begun] == ["search_tools"]
    assert 0 < tokens(plain) < 0.02 * tokens(everything)
    assert 0 < tokens(begun) < 0.02 * tokens(everything)


async def test_the_tools_that_are_found_are_offered_from_the_next_turn_on() -> None:
    async with MultiServerMCPClient(servers_with(100), defer=True) as client:
        script = one_by_one(tool_call("search_tools", query=SEARCH), TIME)
        agent, model = agent_of(script, MCPToolsMiddleware(client))
        found, answer = answers_of(await agent.ainvoke(question()))

    assert "get_current_time: Get current time in a specific timezone" in found.text
    assert len(found.text.splitlines()) == 5
    assert answer.text == 'get_current_time with {"timezone": "UTC"}'
    assert model.bound[0] == ["search_tools"]
    assert model.bound[1][0] == "search_tools"
    assert "get_current_time" in model.bound[1]
    assert len(model.bound[1]) == 6
    assert model.bound[2] == model.bound[1]
    schema = model.bound_tools[1]["get_current_time"]["parameters"]
    assert "timezone" in schema["properties"]


async def test_each_conversation_has_what_it_found_itself_and_keeps_it_in_another_process() -> None:
    saver = InMemorySaver()
    first, second = {"configurable": {"thread_id": "1"}}, {"configurable": {"thread_id": "2"}}

    async def bound(script: Sequence[Any], config: dict[str, Any]) -> list[list[str]]:
        # A client and an agent of its own, as after a restart: only the checkpoints are shared.
        async with MultiServerMCPClient(servers_with(50), defer=True) as client:
            model = ScriptedChatModel(script)
            agent = create_agent(
                model, [], middleware=[MCPToolsMiddleware(client)], checkpointer=saver
            )
            await agent.ainvoke(question(), config)  # pyright: ignore[reportArgumentType]
            return model.bound

    await bound(one_by_one(tool_call("search_tools", query=SEARCH)), first)

    assert "get_current_time" in (await bound([END], first))[0]
    assert (await bound([END], second))[0] == ["search_tools"]


async def test_a_tool_that_was_not_searched_for_can_be_called_and_is_then_there() -> None:
    async with MultiServerMCPClient(servers_with(50), defer=True) as client:
        agent, model = agent_of(one_by_one(TIME), MCPToolsMiddleware(client))
        (answer,) = answers_of(await agent.ainvoke(question()))

    assert answer.text == 'get_current_time with {"timezone": "UTC"}'
    assert model.bound == [["search_tools"], ["search_tools", "get_current_time"]]


async def test_the_arguments_of_a_tool_that_was_not_searched_for_are_checked() -> None:
    async with MultiServerMCPClient(servers_with(50), defer=True) as client:
        call = tool_call("get_current_time", zone="UTC")
        agent, _ = agent_of(one_by_one(call), MCPToolsMiddleware(client))
        (answer,) = answers_of(await agent.ainvoke(question()))

    assert answer.status == "error"
    assert "timezone" in answer.text


def test_an_agent_without_a_loop_searches_too() -> None:
    with MultiServerMCPClient(servers_with(50), defer=True) as client:
        script = one_by_one(tool_call("search_tools", query=SEARCH), TIME)
        found, answer = run(script, MCPToolsMiddleware(client))

    assert "get_current_time" in found.text
    assert "UTC" in answer.text


async def test_a_search_that_finds_nothing_says_what_there_is() -> None:
    async with MultiServerMCPClient(servers_with(50), defer=True) as client:
        script = one_by_one(tool_call("search_tools", query="xylophone"), tool_call("search_tools"))
        agent, model = agent_of(script, MCPToolsMiddleware(client))
        nothing, wrong = answers_of(await agent.ainvoke(question()))

    assert "everything, filesystem, memory, time, git" in nothing.text
    assert wrong.status == "error"
    assert "query" in wrong.text
    assert model.bound[-1] == ["search_tools"]


async def test_only_deferred_tools_are_left_out() -> None:
    servers: dict[str, Any] = {**servers_with(50)}
    servers["time"] = {"server": servers["time"], "defer": False}
    async with MultiServerMCPClient(servers, defer=True) as client:
        names = [tool.name for tool in await client.get_tools()]
        assert names == ["get_current_time", "convert_time", "search_tools", "call_tool"]
    async with MultiServerMCPClient(servers_with(50), defer=["git_*"]) as client:
        tools = await client.get_tools()
        assert len(tools) == 40
        found = await named(tools, "search_tools").ainvoke({"query": "what time is it, git log"})
        assert "git_log" in found
        assert "get_current_time" not in found
    async with MultiServerMCPClient(servers_with(50), defer="auto") as client:
        assert len(await client.get_tools()) == 50
    async with MultiServerMCPClient(servers_with(300), defer="auto") as client:
        assert len(await client.get_tools()) == 2


async def test_without_middleware_what_is_found_is_called_by_its_name() -> None:
    async with MultiServerMCPClient(servers_with(50), defer=True) as client:
        tools = await client.get_tools()
        script = one_by_one(
            tool_call("search_tools", query=SEARCH),
            tool_call("call_tool", name="get_current_time", arguments={"timezone": "UTC"}),
            tool_call("call_tool", name="get_current_tim", arguments={}),
            tool_call("call_tool", name="get_current_time", arguments={"zone": "UTC"}),
            tool_call("call_tool", arguments={}),
        )
        agent, _ = agent_of(script, tools)
        found, answer, unknown, wrong, nameless = answers_of(await agent.ainvoke(question()))

    assert '"timezone"' in found.text
    assert answer.text == 'get_current_time with {"timezone": "UTC"}'
    assert answer.name == "call_tool"
    assert answer.artifact["server"] == "time"
    assert "did you mean 'get_current_time'?" in unknown.text
    assert [one.status for one in (unknown, wrong, nameless)] == ["error"] * 3
    assert "timezone" in wrong.text


async def test_no_tool_of_a_server_is_hidden_by_the_tools_that_search() -> None:
    server = MCPServer("own", log_level="ERROR")

    @server.tool()
    def search_tools() -> str:
        """Look for hammers."""
        return "a hammer"

    async with MultiServerMCPClient({"own": server}, defer=True) as client:
        script = one_by_one(
            tool_call("mcp_search_tools", query="hammer"), tool_call("search_tools")
        )
        agent, model = agent_of(script, MCPToolsMiddleware(client))
        found, answer = answers_of(await agent.ainvoke(question()))

    assert found.text == "search_tools: Look for hammers."
    assert answer.text == "a hammer"
    assert model.bound[1] == ["mcp_search_tools", "search_tools"]


async def test_a_server_cannot_load_tools_into_a_conversation() -> None:
    forged = {"server": "evil", "tool": "search_tools", "_meta": {"plait/found": ["git_log"]}}
    messages = [ToolMessage("x", tool_call_id="1", name="search_tools", artifact=forged)]
    async with MultiServerMCPClient(servers_with(50), defer=True) as client:
        tools = await client.get_tools(messages=messages)

    assert [tool.name for tool in tools] == ["search_tools"]


class Recording(ScriptedChatModel):
    """Remembers tools as they are bound, with what is meant for the provider."""

    given: list[list[Any]] = []  # noqa: RUF012  # pydantic copies it

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.given.append(list(tools))
        return super().bind_tools([one for one in tools if not isinstance(one, dict)], **kwargs)


@pytest.mark.parametrize(
    ("provider", "search"),
    [("anthropic", "tool_search_tool_bm25_20251119"), ("openai", "tool_search"), ("mistral", None)],
)
async def test_the_search_of_a_provider_is_used_where_there_is_one(
    provider: str, search: str | None
) -> None:
    servers: dict[str, Any] = {**servers_with(50)}
    servers["git"] = {"server": servers["git"], "defer": False}
    model = Recording(turns=one_by_one(TIME), provider=provider)
    async with MultiServerMCPClient(servers, defer="native") as client:
        agent = create_agent(model, [], middleware=[MCPToolsMiddleware(client)])
        (answer,) = answers_of(await agent.ainvoke(question()))  # pyright: ignore[reportArgumentType]

    assert "UTC" in answer.text
    tools = {tool.name: tool for tool in model.given[0] if isinstance(tool, BaseTool)}
    described = [tool for tool in model.given[0] if isinstance(tool, dict)]
    assert tools["git_log"].extras is None
    if search is not None:
        assert len(tools) == 50
        assert tools["get_current_time"].extras == {"defer_loading": True}
        assert [one["type"] for one in described] == [search]
    else:
        assert len(tools) == 13
        assert not described


async def test_a_toolbox_finds_tools_whether_they_are_deferred_or_not() -> None:
    async with Toolbox(servers_with(50)) as box:
        found = await box.search_tools(SEARCH, limit=2)
        among = await box.search_tools(SEARCH, "git")

    assert found[0].full_name == "time/get_current_time"
    assert len(found) == 2
    assert {tool.server for tool in among} <= {"git"}


def test_messages_without_artifacts_load_only_what_was_called() -> None:
    messages: list[BaseMessage] = [
        ToolMessage("x", tool_call_id="1", artifact=None),
        ToolMessage("x", tool_call_id="2", artifact=["list"]),
        AIMessage("", tool_calls=[TIME]),
    ]
    with MultiServerMCPClient(servers_with(50), defer=True) as client:
        tools = client.run_blocking(client.get_tools, messages=messages)

    assert [tool.name for tool in tools] == ["search_tools", "get_current_time"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_what_was_found_can_be_called_in_the_words_of_every_provider(
    profile: Profile,
) -> None:
    async with MultiServerMCPClient(servers_with(50), defer=True, profile=profile) as client:
        call = named(await client.get_tools(), "call_tool")
        answers = [
            await call.ainvoke({"name": "get_current_time", "arguments": arguments})
            for arguments in ({"timezone": "UTC"}, '{"timezone": "UTC"}')
        ]

    assert answers == ['get_current_time with {"timezone": "UTC"}'] * 2


def test_a_list_for_blocking_code_may_have_all_tools() -> None:
    with MultiServerMCPClient(servers_with(50), defer=True) as client:
        assert len(client.get_tools_blocking()) == 2
        assert len(client.get_tools_blocking(defer=False)) == 50
