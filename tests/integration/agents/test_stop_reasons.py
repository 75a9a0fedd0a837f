"""No call of an incomplete answer is made, for every reason to stop that a provider has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import AgentConfig, Message
from plait.agents import AgentPort
from plait.testing import AnthropicServer, Call, OpenAIServer, Say
from plait.traces import Turn, read_trace
from tests.integration.agents.langchain_models import agent_of

pytestmark = pytest.mark.anyio

CUT = ("max_tokens", "model_context_window_exceeded", "stop_sequence", "pause_turn", "compaction")
"""Anthropic's reasons after which the arguments of a call may be incomplete."""

STOPS = {
    "claude_tool": (*CUT, "refusal"),
    "langchain": (*CUT, "refusal"),
    "openai_endpoint": ("length", "content_filter"),
    "claude_agent_sdk": ("max_tokens", "refusal"),
}

TABLE = [
    (engine, stop, streaming)
    for engine, stops in STOPS.items()
    for stop in stops
    # Claude's command line streams always.
    for streaming in ((True,) if engine == "claude_agent_sdk" else (False, True))
]


@pytest.fixture
def setup(
    engine: str, anthropic: AnthropicServer, openai: OpenAIServer
) -> tuple[AnthropicServer | OpenAIServer, AgentPort]:
    """The stand-in of a provider, and an agent of an engine there."""
    api = openai if engine == "openai_endpoint" else anthropic
    return api, agent_of(api, engine)


@pytest.mark.parametrize(("engine", "stop", "streaming"), TABLE)
async def test_no_call_is_made_of_an_answer_that_stopped_before_its_end(
    setup: Any, engine: str, stop: str, streaming: bool, tmp_path: Path
) -> None:
    api, agent = setup
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return "paid"

    calls = (Call("pay", {"amount": 1}), Call("pay", {"amount": 2}))
    api.play([Say("I pay.", calls=calls, stop=stop), "I see."])
    trace = tmp_path / "run.jsonl"

    result = await agent.arun("Pay.", [pay], {}, AgentConfig(stream=streaming, trace=trace))

    assert paid == []
    recorded = read_trace(trace)
    assert not recorded.calls
    if stop in ("refusal", "content_filter"):
        assert (result.status, result.stop_reason) == ("refused", stop)
        assert result.final_response == "I pay."
        assert engine == "claude_agent_sdk" or len(api.bodies) == 1
        return
    # The model reads that its calls were not made, and goes on.
    results = [one for message in result.trace_messages for one in message.tool_results]
    assert [one.is_error for one in results] == [True, True]
    if engine != "claude_agent_sdk":  # which has words of its own
        assert all("not made" in one.content and stop in one.content for one in results)
    assert (result.status, result.final_response) == ("completed", "I see.")
    first = next(event for event in recorded.events if isinstance(event, Turn))
    assert first.stop_reason == stop


@pytest.mark.parametrize(
    ("engine", "stop", "streaming"), [row for row in TABLE if row[1] in ("max_tokens", "length")]
)
async def test_a_text_that_was_cut_is_the_answer_and_not_complete(
    setup: Any, stop: str, streaming: bool
) -> None:
    api, agent = setup
    api.play([Say("It is", stop=stop)])

    result = await agent.arun("What is it?", None, {}, AgentConfig(stream=streaming))

    assert (result.final_response, result.status) == ("It is", "truncated")
    assert result.stop_reason == stop


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("engine", ["claude_tool", "langchain"])
@pytest.mark.parametrize("stop", ["pause_turn", "compaction"])
async def test_a_model_that_pauses_goes_on(
    setup: Any, stop: str, streaming: bool, anthropic: AnthropicServer
) -> None:
    _, agent = setup
    pause = Say("I begin.", stop=stop)

    anthropic.play([pause, "I end."])
    result = await agent.arun([Message.user("Go.")], None, {}, AgentConfig(stream=streaming))
    again = anthropic.bodies[1]["messages"][-1]
    anthropic.play([pause, pause, pause])
    config = AgentConfig(stream=streaming, max_turns=2)
    stopped = await agent.arun([Message.user("Go.")], None, {}, config)

    assert (result.status, result.final_response, result.turns) == ("completed", "I end.", 2)
    assert (stopped.status, stopped.stop_reason, stopped.turns) == ("limit", stop, 2)
    assert again["role"] == "assistant"
    assert "I begin." in str(again["content"])
    written = [
        one["content"] for one in anthropic.bodies[1]["messages"] if one["role"] == "assistant"
    ]
    assert "I begin." in str(written)


@pytest.mark.parametrize("engine", ["claude_agent_sdk"])
async def test_a_run_that_ends_with_a_pause_is_not_completed(setup: Any) -> None:
    """Claude's command line returns what there is, if no tool of the provider pauses it."""
    api, agent = setup
    api.play([Say("I begin.", stop="pause_turn")])

    result = await agent.arun("Go.", None, {})

    assert (result.status, result.stop_reason) == ("truncated", "pause_turn")
