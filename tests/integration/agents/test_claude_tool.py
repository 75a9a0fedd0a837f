"""Agents on Anthropic's tool runner, against a stand-in for its API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Image

from plait import AgentConfig, AgentResult, ConfigError, Message, ModelConfig, StaticTool
from plait.agents.engines.claude_tool.agent import ClaudeToolAgent
from plait.testing import (
    AnthropicServer,
    Call,
    Say,
    running_server,
    stdio_config,
)
from plait.testing.llm.anthropic import signature_of
from plait.testing.llm.turns import Script
from plait.traces import Role, ThinkingContent, ToolUseContent, read_trace

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789"
ASK = [Message.user("Go on.")]
PIXEL = bytes.fromhex("89504e470d0a1a0a") + b"a pixel"


@pytest.fixture(scope="module")
def server() -> Iterator[AnthropicServer]:
    """Give the module one stand-in, that endpoints of others are like: it knows no threads."""
    with AnthropicServer(key=KEY, threads="unknown") as running:
        yield running


@pytest.fixture
def api(server: AnthropicServer) -> AnthropicServer:
    server.play(None)
    return server


def calculator() -> MCPServer:
    made = MCPServer("calc", log_level="ERROR")
    second = anyio.Event()
    given: list[int] = []

    @made.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @made.tool()
    async def ticket() -> str:
        """Give the first ticket only when the second has been given."""
        given.append(len(given) + 1)
        mine = given[-1]
        if mine == 1:
            await second.wait()
        second.set()
        return f"ticket {mine}"

    @made.tool(structured_output=False)
    def picture() -> list[Any]:
        return ["Voilà:", Image(data=PIXEL, format="png")]

    @made.tool()
    def fail() -> str:
        raise RuntimeError("secret details")

    @made.tool()
    async def hang() -> str:
        await asyncio.sleep(60)
        return "late"

    return made


def sdk(made: MCPServer | None = None) -> Any:
    return {"calc": {"type": "sdk", "instance": made or calculator()}}


def agent(api: AnthropicServer, **settings: Any) -> ClaudeToolAgent:
    facts = {"id": "c", "model_name": "claude-x", "interface": "claude_tool"}
    where = {"anthropic_base_url": api.url, "anthropic_api_key": KEY}
    return ClaudeToolAgent(ModelConfig.model_validate({**facts, **where, **settings}))


async def play(
    api: AnthropicServer,
    script: Script,
    servers: Any = None,
    config: AgentConfig | None = None,
    *,
    tools: Sequence[StaticTool] = (),
    messages: Sequence[Message] = ASK,
    **settings: Any,
) -> AgentResult:
    """Run an agent whose model follows a script."""
    api.play(script)
    return await agent(api, **settings).arun(messages, tools, servers or {}, config)


def call(name: str, call_id: str | None = None, **arguments: Any) -> Say:
    return Say(calls=(Call(name, arguments, call_id),))


def texts(messages: Sequence[Message]) -> list[str]:
    results = [result for message in messages for result in message.tool_results]
    return [("! " if one.is_error else "") + one.content for one in results]


def results_sent(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results in the last message of a request."""
    return [block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"]


ONE_OF_EACH = [
    Say("I add. ✓", calls=(Call("add", {"a": 20, "b": 22}, "c1"),), thinking="Hm."),
    Say("Es sind 42 – 你好 🎉", usage={"input_tokens": 9, "cache_read_tokens": 4}),
]


async def test_a_run_has_the_trace_and_the_usage_of_what_was_said(api: AnthropicServer) -> None:
    result = await play(api, ONE_OF_EACH, sdk())

    assert result.trace_messages == [
        Message(
            Role.ASSISTANT,
            [
                ThinkingContent("Hm.", signature_of("Hm.")),
                *Message.assistant("I add. ✓").content,
                ToolUseContent("c1", "add", {"a": 20, "b": 22}),
            ],
        ),
        Message.tool_result("c1", "42"),
        Message.assistant("Es sind 42 – 你好 🎉"),
    ]
    assert result.final_response == "Es sind 42 – 你好 🎉"
    assert (result.turns, result.limit_reached, result.timeout_reached) == (2, False, False)
    assert result.usage == api.spent
    assert result.actual_model == "claude-x"
    assert "thread" not in api.bodies[0]


async def test_calls_of_one_turn_run_together_and_are_told_apart(api: AnthropicServer) -> None:
    both = Say(calls=(Call("ticket", {}, "first"), Call("ticket", {}, "second")))

    result = await play(api, [both, "done"], sdk())

    made = {
        one.tool_use_id: one.content for two in result.trace_messages for one in two.tool_results
    }
    sent = {one["tool_use_id"]: one["content"] for one in results_sent(api.bodies[1])}
    assert sent == made
    assert list(made) == ["first", "second"]
    assert sorted(made.values()) == ["ticket 1", "ticket 2"]


async def test_answers_that_may_be_long_are_streamed(api: AnthropicServer) -> None:
    both = Say(
        "…", calls=(Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4})), thinking="Hm."
    )

    result = await play(api, [both, call("add", a=5, b=6), "done"], sdk(), max_tokens=20_000)

    assert all(body["stream"] for body in api.bodies)
    assert texts(result.trace_messages) == ["3", "7", "11"]
    assert (result.final_response, result.usage) == ("done", api.spent)


async def test_a_model_sees_images_errors_and_lines(api: AnthropicServer) -> None:
    looks = Say(calls=(Call("picture"), Call("fail"), Call("add", {"a": "x"}), Call("gone")))

    result = await play(api, [looks, call("add", a=1, b=2), "done"], sdk())

    shown, failed, wrong, unknown = results_sent(api.bodies[1])
    assert [block["type"] for block in shown["content"]] == ["text", "image"]
    assert shown["content"][1]["source"]["media_type"] == "image/png"
    assert "is_error" not in shown
    assert failed["is_error"] is wrong["is_error"] is unknown["is_error"] is True
    assert "secret details" not in json.dumps(api.bodies)
    known = "the tools are: add, ticket, picture, fail, hang"
    assert unknown["content"] == f"there is no tool 'gone'; {known}"
    seen = texts(result.trace_messages)
    assert seen[0] == f"Voilà:\n[image: image/png, {len(PIXEL)} B]"
    assert seen[3:] == [f"! there is no tool 'gone'; {known}", "3"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_that_dies_in_a_run_comes_back(
    api: AnthropicServer, tmp_path: Path, transport: str
) -> None:
    config = AgentConfig(trace=tmp_path / "run.jsonl")
    if transport == "stdio":
        twice = [call("echo", text="3"), call("echo", text="7"), "done"]
        result = await play(api, twice, {"echo": stdio_config(exit_after=1)}, config)
    else:
        turns = iter([call("add_numbers", a=1, b=2), call("add_numbers", a=3, b=4), Say("done")])
        with running_server() as calc:

            def restarting(_: Mapping[str, Any]) -> Say:
                if len(api.bodies) == 2:
                    calc.restart()
                return next(turns)

            result = await play(api, restarting, {"calc": {"url": calc.url}}, config)

    assert texts(result.trace_messages) == ["3", "7"]
    assert (result.final_response, result.usage) == ("done", api.spent)
    assert read_trace(tmp_path / "run.jsonl").messages == result.trace_messages


@pytest.mark.parametrize("turns", [1, 2])
async def test_the_number_of_turns_is_exact(api: AnthropicServer, turns: int) -> None:
    more = [Say("Turn.", calls=(Call("add", {"a": n, "b": 1}),)) for n in range(3)]

    result = await play(api, more, sdk(), AgentConfig(max_turns=turns))

    assert (result.turns, len(api.bodies), result.limit_reached) == (turns, turns, True)
    assert texts(result.trace_messages) == ["1", "2"][:turns]
    assert result.usage == api.spent


async def test_an_answer_in_the_last_turn_is_an_answer(api: AnthropicServer) -> None:
    result = await play(api, [call("add", a=1, b=2), "3"], sdk(), AgentConfig(max_turns=2))

    assert (result.final_response, result.limit_reached) == ("3", False)


async def test_an_empty_answer_is_an_answer(api: AnthropicServer) -> None:
    result = await play(api, [call("add", a=1, b=2), ""], sdk())

    assert result.trace_messages[-1] == Message.assistant()
    assert (result.final_response, result.turns) == ("[No final response extracted]", 2)
    assert not result.limit_reached


async def test_without_tools_it_is_a_plain_question(api: AnthropicServer) -> None:
    result = await agent(api, system_prompt="Be brief.").arun([Message.user("hi")])

    assert result.final_response == "echo: hi"
    (body,) = api.bodies
    assert "tools" not in body
    assert body["system"][0]["text"] == "Be brief."


async def test_tools_of_the_program_are_used_like_others(api: AnthropicServer) -> None:
    twice = StaticTool("twice", "Doubles.", function=lambda n: 2 * n)
    named = StaticTool("named")
    both = Say(calls=(Call("twice", {"n": 4}), Call("named"), Call("add", {"a": 1, "b": 2})))

    result = await play(api, [both, "done"], sdk(), tools=[twice, named])

    eight, unusable, three = texts(result.trace_messages)
    assert (eight, three) == ("8", "3")
    assert unusable.startswith("! named cannot be called")
    marks = [tool.get("cache_control") for tool in api.bodies[0]["tools"]]
    assert marks[:-1] == [None] * (len(marks) - 1)
    assert marks[-1] == {"type": "ephemeral"}


async def test_the_policy_decides_on_calls(api: AnthropicServer) -> None:
    rules = [
        {"tool": "fail", "do": "deny"},
        {"tool": "add", "when": {"a": 1}, "do": "deny", "reason": "not one"},
        {"tool": "add", "do": "ask"},
    ]
    asked: list[Mapping[str, Any]] = []

    async def approve(request: Any) -> Any:
        asked.append(request.arguments)
        return request.arguments["a"] == 2

    calls = Say(calls=tuple(Call("add", {"a": n, "b": 0}) for n in (1, 2, 3)))
    options = {"policy": {"rules": rules, "default": "allow"}, "on_approval": approve}

    result = await play(api, [calls, "done"], sdk(), AgentConfig(tool_options=options))

    denied, approved, rejected = texts(result.trace_messages)
    assert denied.startswith("! ")
    assert "not one" in denied
    assert approved == "2"
    assert rejected.startswith("! ")
    assert sorted(one["a"] for one in asked) == [2, 3]
    assert "fail" not in [tool["name"] for tool in api.bodies[0]["tools"]]


async def test_what_was_said_before_is_sent_as_it_was(api: AnthropicServer) -> None:
    wish = ToolUseContent("old", "add", {"a": 1, "b": 1})
    before = [
        Message.user("1 + 1?"),
        Message(Role.ASSISTANT, [ThinkingContent("Hm.", signature_of("Hm.")), wish]),
        Message.tool_result("old", "none", is_error=True),
        Message.assistant("I cannot."),
        Message.user("Try again."),
    ]

    result = await play(api, [call("add", a=1, b=1), "2"], sdk(), messages=before)

    assert result.final_response == "2"
    assert [message["role"] for message in api.bodies[0]["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert api.bodies[0]["messages"][2]["content"][0]["is_error"] is True


async def test_a_setting_that_is_wrong_stops_parallel_calls(api: AnthropicServer) -> None:
    def unclear(request: Any) -> Any:
        return {"decision": "perhaps", "about": request.tool}

    both = Say(calls=(Call("add", {"a": 1, "b": 0}), Call("hang")))
    options = {"policy": {"rules": [{"tool": "add", "do": "ask"}], "default": "allow"}}

    with pytest.raises(ConfigError):
        await play(
            api, [both], sdk(), AgentConfig(tool_options={**options, "on_approval": unclear})
        )


async def test_a_run_without_time_keeps_what_was_said(api: AnthropicServer) -> None:
    both = Say("Wait.", calls=(Call("add", {"a": 1, "b": 2}), Call("hang")))

    result = await play(api, [both], sdk(), AgentConfig(timeout=3))

    assert (result.timeout_reached, result.limit_reached, result.turns) == (True, False, 1)
    assert texts(result.trace_messages)[0] == "3"
    assert result.usage == api.spent


def test_it_runs_blocking_too(api: AnthropicServer) -> None:
    api.play([call("add", a=1, b=2), "3"])

    assert agent(api).run(ASK, None, sdk()).final_response == "3"
