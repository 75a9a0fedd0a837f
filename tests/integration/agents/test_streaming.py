"""Runs as streams of events, in every live engine, and their limits of tokens and money."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import AgentConfig, AgentResult, ConfigError, Message, ModelConfig, get_agent
from plait.agents import BatchTask, run_batch
from plait.agents.port import BaseAgent
from plait.testing import AnthropicServer, Call, OpenAIServer, Say
from plait.traces import Delta, ImageContent, ToolCalled, Turn, read_trace
from tests.integration.agents.langchain_models import agent_of

pytestmark = pytest.mark.anyio

ASK = [Message.user("Go on.")]
PRICES = {"claude-test": {"input": 1.0, "output": 2.0, "cache_read": 0.0, "cache_creation": 0.0}}
DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAA"
    "AABJRU5ErkJggg=="
)
ENGINES = ["langchain", "claude_tool", "claude_agent_sdk"]


def pay(amount: int) -> dict[str, int]:
    """Pay an amount."""
    return {"paid": amount}


async def streamed(agent: BaseAgent, config: AgentConfig | None = None) -> list[Any]:
    return [item async for item in agent.astream(ASK, [pay], {}, config)]


async def check_stream(agent: BaseAgent, trace: Path) -> None:
    items = await streamed(agent, AgentConfig(trace=trace))

    *events, result = items
    assert isinstance(result, AgentResult)
    parts = [event for event in events if isinstance(event, Delta)]
    texts = "".join(part.text for part in parts if part.part == "text")
    assert texts == "I pay now.It is paid."
    arguments = "".join(part.text for part in parts if part.part == "call")
    assert arguments.replace(" ", "") == '{"amount":3}'
    assert {part.name for part in parts if part.part == "call"} == {"pay"}
    kinds = [type(event) for event in events if isinstance(event, Turn | ToolCalled)]
    assert kinds == [Turn, ToolCalled, Turn]
    assert events.index(parts[0]) < next(
        place for place, event in enumerate(events) if isinstance(event, Turn)
    )
    assert result.final_response == "It is paid."
    assert [event.kind for event in read_trace(trace).events] == [event.kind for event in events]


SCRIPT = [Say("I pay now.", calls=(Call("pay", {"amount": 3}),)), "It is paid."]


@pytest.mark.parametrize("engine", ENGINES)
async def test_tokens_and_calls_are_events_as_they_come(
    anthropic: AnthropicServer, engine: str, tmp_path: Path
) -> None:
    anthropic.play(SCRIPT)
    await check_stream(agent_of(anthropic, engine), tmp_path / "run.jsonl")


async def test_an_endpoint_streams_too(openai: OpenAIServer, tmp_path: Path) -> None:
    openai.play(SCRIPT)
    await check_stream(agent_of(openai, "openai_endpoint"), tmp_path / "run.jsonl")


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_run_that_has_used_its_tokens_or_money_ends_at_its_limit(
    anthropic: AnthropicServer, engine: str
) -> None:
    first = Say("", calls=(Call("pay", {"amount": 3}),), usage={"input_tokens": 10**6})
    limits = AgentConfig(prices=PRICES, max_cost_usd=0.5)
    anthropic.play([first, "done"])

    by_cost = await agent_of(anthropic, engine).arun(ASK, [pay], {}, limits)

    assert (by_cost.status, by_cost.turns, by_cost.limit_reached) == ("limit", 1, True)
    usage = by_cost.trace_messages[0].usage_metadata
    assert usage is not None
    assert usage["cost_usd"] >= 1.0
    if engine != "claude_agent_sdk":
        anthropic.play([first, "done"])
        by_tokens = await agent_of(anthropic, engine).arun(
            ASK, [pay], {}, AgentConfig(max_tokens_total=1000)
        )
        assert (by_tokens.status, by_tokens.turns) == ("limit", 1)
        assert by_tokens.usage.cost_usd is None


async def test_a_limit_of_costs_needs_a_price(anthropic: AnthropicServer) -> None:
    anthropic.play(["done"])

    with pytest.raises(ConfigError, match="price of claude-test is not known"):
        await agent_of(anthropic, "claude_tool").arun(ASK, None, {}, AgentConfig(max_cost_usd=1.0))

    assert not anthropic.bodies


@pytest.mark.parametrize("engine", ENGINES)
async def test_images_of_the_user_reach_the_model(anthropic: AnthropicServer, engine: str) -> None:
    anthropic.play(["a dot"])
    ask = [Message.user("What is it?", [ImageContent(DOT, "image/png")])]

    result = await agent_of(anthropic, engine).arun(ask, None, {})

    assert result.final_response == "a dot"
    sent = anthropic.bodies[0]["messages"][0]["content"]
    assert [block["source"]["type"] for block in sent if block["type"] == "image"] == ["base64"]
    assert Message.from_dict(ask[0].to_dict()) == ask[0]


async def test_a_batch_runs_each_task_once(anthropic: AnthropicServer, tmp_path: Path) -> None:
    anthropic.play(lambda body: f"re: {body['messages'][-1]['content'][0]['text']}")
    tasks = [[Message.user(f"task {number}")] for number in range(5)]
    agent = agent_of(anthropic, "claude_tool")

    first = await agent.abatch(tasks[:3], mcp_servers={}, max_concurrency=2, traces=tmp_path)
    again = await agent.abatch(tasks, mcp_servers={}, max_concurrency=2, traces=tmp_path)

    assert [one.result and one.result.final_response for one in again] == [
        f"re: task {number}" for number in range(5)
    ]
    assert [one.resumed for one in (*first, *again)] == [False] * 3 + [True] * 3 + [False] * 2
    assert len(anthropic.bodies) == 5
    assert all(one.trace and read_trace(one.trace).status == "completed" for one in again)


async def test_a_batch_runs_another_task_of_the_same_name_or_file(
    anthropic: AnthropicServer, tmp_path: Path
) -> None:
    """Messages that changed are another task; so is one whose id becomes the same file name."""
    anthropic.play(lambda _: "done")
    agent = agent_of(anthropic, "claude_tool")
    first, other = [Message.user("first")], [Message.user("other")]
    tasks = [("a/b", first), ("a/b", other), ("a_b", other), ("a_b", other)]

    outcomes = [
        outcome
        for name, messages in tasks
        for outcome in await run_batch(
            agent, [BatchTask(id=name, messages=messages)], mcp_servers={}, traces=tmp_path
        )
    ]

    assert len({outcome.trace for outcome in outcomes}) == 1
    assert [outcome.resumed for outcome in outcomes] == [False, False, False, True]


def test_the_configuration_of_a_run_takes_whole_turns_only() -> None:
    for wrong in (2.5, True, "3"):
        with pytest.raises(ConfigError, match="whole number"):
            AgentConfig(max_turns=wrong)  # pyright: ignore[reportArgumentType]  # on purpose


async def test_a_trace_tells_how_the_run_was_set_up(
    anthropic: AnthropicServer, tmp_path: Path
) -> None:
    trace = tmp_path / "runs.jsonl"
    gone = {"gone": {"command": "/no/such/program"}}
    config = AgentConfig(
        trace=trace,
        tool_options={"on_connection_error": "ignore", "policy": {"default": "allow"}},
    )
    for _ in range(2):
        anthropic.play(["done"])
        await agent_of(anthropic, "claude_tool").arun(ASK, [pay], gone, config)

    recorded = read_trace(trace)
    started = recorded.started
    assert started is not None
    assert "gone" in started.unreached
    assert started.settings["endpoint"] == anthropic.url
    assert started.settings["temperature"] == 0.1
    assert started.settings["policy"]["default"] == "allow"
    assert recorded.definitions["pay"].description == "Pay an amount."
    assert trace.read_text().count('"event":"tool"') == 1


async def test_nothing_answered_is_no_actual_model(tmp_path: Path) -> None:
    model = ModelConfig(
        id="x", interface="claude_tool", model_name="m", anthropic_base_url="http://127.0.0.1:9",
        max_retries=0,
    )  # fmt: skip
    trace = tmp_path / "run.jsonl"

    with pytest.raises(Exception, match="cannot be reached"):
        await get_agent(model).arun(ASK, None, {}, AgentConfig(trace=trace))

    assert read_trace(trace).actual_model is None
