"""Tools that come and go with their servers, turn by turn, and a model that is told."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.tools import tool
from mcp.server import MCPServer

from plait import ConnectError, MCPToolsMiddleware, MultiServerMCPClient
from plait.testing import ScriptedChatModel
from plait.testing.fixtures import StartFaultServer
from tests.integration.agents.helpers import (
    END,
    agent_of,
    answers_of,
    arun,
    one_by_one,
    question,
    run,
    tool_call,
)
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

QUICK: dict[str, Any] = {"reconnect": {"max_attempts": 1}}
MISSING: dict[str, Any] = {"command": "no-such-program", **QUICK}


def instructions(messages: list[BaseMessage]) -> str:
    return "\n".join(message.text for message in messages if isinstance(message, SystemMessage))


async def test_a_model_is_told_of_servers_that_cannot_be_reached_until_they_can() -> None:
    async with MultiServerMCPClient({"good": stdio_config(), "bad": MISSING}) as client:
        agent, model = agent_of(one_by_one(tool_call("pid")), MCPToolsMiddleware(client))
        await agent.ainvoke(question())
        assert "unavailable at the moment: bad" in instructions(model.seen[0])

        client.connections["bad"] = MCPServer("bad", log_level="ERROR")
        agent, model = agent_of([END], MCPToolsMiddleware(client))
        await agent.ainvoke(question())
        assert "unavailable" not in instructions(model.seen[0])


async def test_a_run_goes_on_without_tools_when_the_only_server_is_gone(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server()
    client = MultiServerMCPClient({"server": {"url": server.url, **QUICK}}, cache=False)

    def kill_the_server(_: Any) -> Any:
        server.kill()
        return [tool_call("echo", text="x")]

    agent, model = agent_of([[tool_call("pid")], kill_the_server, END], MCPToolsMiddleware(client))
    pid, lost = answers_of(await agent.ainvoke(question()))

    assert pid.status == "success"
    assert lost.status == "error"
    assert "unavailable at the moment: server" in instructions(model.seen[-1])
    await client.aclose()


@pytest.mark.parametrize("options", [{"required": True}, {}], ids=["required", "unreported"])
async def test_a_server_on_which_the_program_insists_ends_the_run(options: Any) -> None:
    async with MultiServerMCPClient({"bad": {**MISSING, **options}}) as client:
        middleware = MCPToolsMiddleware(client, report_unavailable=bool(options))
        with pytest.raises(ConnectError):
            await arun([END], middleware)


async def test_instructions_in_blocks_keep_their_marks() -> None:
    marked = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    async with MultiServerMCPClient({"good": stdio_config(), "bad": MISSING}) as client:
        model = ScriptedChatModel([END])
        prompt = SystemMessage([marked])
        middleware: list[AgentMiddleware[Any, Any, Any]] = [MCPToolsMiddleware(client)]
        agent: Any = create_agent(model, [], system_prompt=prompt, middleware=middleware)
        await agent.ainvoke(question())

    first, note = model.seen[0][0].content
    assert first == marked
    assert "bad" in str(note)


def test_tools_of_the_program_stand_beside_those_of_servers() -> None:
    @tool
    def pid() -> str:
        """Return something else than the server does."""
        return "my own"

    with MultiServerMCPClient({"server": stdio_config()}) as client:
        model = ScriptedChatModel(one_by_one(tool_call("pid"), tool_call("echo", text="x")))
        middleware: list[AgentMiddleware[Any, Any, Any]] = [MCPToolsMiddleware(client)]
        agent: Any = create_agent(model, [pid], middleware=middleware)
        answers = answers_of(agent.invoke(question()))

        assert [answer.content for answer in answers] == ["my own", "x"]
        assert model.bound[0].count("pid") == 1


def test_schemas_fit_the_model_that_is_asked() -> None:
    server = MCPServer("odd", log_level="ERROR")

    @server.tool()
    def pick(size: int | None = None) -> str:
        """Pick one."""
        return str(size)

    with MultiServerMCPClient({"odd": server}) as client:
        shapes: dict[str, Any] = {}
        for provider in ("scripted", "google_genai"):
            model = ScriptedChatModel([END], provider=provider)
            middleware: list[AgentMiddleware[Any, Any, Any]] = [MCPToolsMiddleware(client)]
            agent: Any = create_agent(model, [], middleware=middleware)
            agent.invoke(question())
            shapes[provider] = model.bound_tools[0]["pick"]["parameters"]

    assert "anyOf" in shapes["scripted"]["properties"]["size"]
    assert "anyOf" not in shapes["google_genai"]["properties"]["size"]


def test_a_model_that_takes_no_images_is_told_of_them() -> None:
    with MultiServerMCPClient({"server": stdio_config()}) as client:
        for able in (True, False):
            script = one_by_one(tool_call("image"))
            model = ScriptedChatModel(script, profile={"image_inputs": able})
            middleware: list[AgentMiddleware[Any, Any, Any]] = [MCPToolsMiddleware(client)]
            agent: Any = create_agent(model, [], middleware=middleware)
            (kept,) = answers_of(agent.invoke(question()))

            kinds = [block["type"] for block in model.seen[1][-1].content_blocks]
            assert kinds == ["text", "image" if able else "text"]
            assert [block["type"] for block in kept.content_blocks] == ["text", "image"]


def test_only_the_chosen_tools_are_offered_and_found() -> None:
    with MultiServerMCPClient({"server": stdio_config()}) as client:
        middleware = MCPToolsMiddleware(client, include=["echo", "fail"], exclude=["fail"])
        calls = [tool_call("echo", text="x"), tool_call("fail", text="x")]

        found, gone = run(one_by_one(*calls), middleware)

    assert found.content == "x"
    assert gone.status == "error"
    assert "There is no tool 'fail'" in str(gone.content)
