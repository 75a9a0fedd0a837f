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
