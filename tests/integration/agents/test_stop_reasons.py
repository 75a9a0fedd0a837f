"""No call of an incomplete answer is made, for every reason to stop that a provider has."""

from __future__ import annotations

from typing import Any

import pytest

from plait import AgentConfig, Message, get_agent
from plait.testing import AnthropicServer, Call, OpenAIServer, Say
from tests.integration.agents.langchain_models import model_of

pytestmark = pytest.mark.anyio

CUT = ("max_tokens", "model_context_window_exceeded", "stop_sequence", "pause_turn", "compaction")
"""Anthropic's reasons after which the arguments of a call may be incomplete."""

TABLE = [
    *(("claude_tool", stop) for stop in (*CUT, "refusal")),
    *(("langchain", stop) for stop in (*CUT, "refusal")),
    *(("openai_endpoint", stop) for stop in ("length", "content_filter")),
]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("engine", "stop"), TABLE)
async def test_no_call_is_made_of_an_answer_that_stopped_before_its_end(
    engine: str, stop: str, streaming: bool, anthropic: AnthropicServer, openai: OpenAIServer
) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return "paid"

    api = openai if engine == "openai_endpoint" else anthropic
    settings: dict[str, Any] = {"interface": engine}
    if engine == "claude_tool":
        settings["model_provider"] = None
    api.play([Say("I pay.", calls=(Call("pay", {"amount": 1}),), stop=stop), "I see."])
    config = AgentConfig(stream=streaming)

    agent = get_agent(model_of(api, **settings), auto_fallback=False)
    result = await agent.arun([Message.user("Pay.")], [pay], {}, config)

    assert paid == []
    if stop in ("refusal", "content_filter"):
        assert (result.status, result.stop_reason) == ("refused", stop)
        assert len(api.bodies) == 1
    else:
        # The model reads that its call was not made, and goes on.
        results = [one for message in result.trace_messages for one in message.tool_results]
        assert [one.is_error for one in results] == [True]
        assert "not made" in results[0].content
        assert stop in results[0].content
        assert (result.status, result.final_response) == ("completed", "I see.")


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("engine", ["claude_tool", "langchain"])
@pytest.mark.parametrize("stop", ["pause_turn", "compaction"])
async def test_a_model_that_pauses_goes_on(
    engine: str, stop: str, streaming: bool, anthropic: AnthropicServer
) -> None:
    settings = {
        "interface": engine,
        "model_provider": None if engine == "claude_tool" else "anthropic",
    }
    agent = get_agent(model_of(anthropic, **settings), auto_fallback=False)
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


async def test_a_run_that_ends_with_a_pause_is_not_completed(anthropic: AnthropicServer) -> None:
    """Claude's command line returns what there is, if no tool of the provider pauses it."""
    anthropic.play([Say("I begin.", stop="pause_turn")])
    settings = {"interface": "claude_agent_sdk", "model_provider": None}
    agent = get_agent(model_of(anthropic, **settings), auto_fallback=False)

    result = await agent.arun([Message.user("Go.")], None, {})

    assert (result.status, result.stop_reason) == ("truncated", "pause_turn")
