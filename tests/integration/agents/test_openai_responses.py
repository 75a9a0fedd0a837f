"""The langchain engine on OpenAI's Responses API, whose answers have other shapes than chats."""

from __future__ import annotations

import pytest

from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.agents import AgentResult
from plait.models.scripts import Call, Say
from plait.testing import OpenAIServer
from plait.testing.llm.turns import Cut, Script
from tests.integration.agents.langchain_models import results
from tests.servers import KEY

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("streaming", [False, True])]


class Purse:
    """A tool that notes what it is called with."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return "paid"


async def run(api: OpenAIServer, play: Script, purse: Purse, *, streaming: bool) -> AgentResult:
    api.play(play)
    extra = {"use_responses_api": True, "base_url": api.base_url, "api_key": KEY}
    model = ModelConfig(
        id="responses",
        interface="langchain",
        model_provider="openai",
        model_name="test-model",
        max_retries=1,
        extra_kwargs=extra,
    )
    agent = get_agent(model, auto_fallback=False)
    config = AgentConfig(stream=streaming)
    return await agent.arun([Message.user("Pay.")], [purse.pay], {}, config)


async def test_no_call_of_a_response_that_was_cut_is_made(
    openai: OpenAIServer, streaming: bool
) -> None:
    purse = Purse()
    cut = Say("I pay.", calls=(Call("pay", {"amount": 1}),), stop="max_tokens")

    result = await run(openai, [cut, "I see."], purse, streaming=streaming)

    assert purse.paid == []
    assert [text[:2] for text in results(result.trace_messages)] == ["! "]
    assert "max_output_tokens" in results(result.trace_messages)[0]
    assert (result.status, result.stop_reason) == ("completed", "completed")
    calls = [one for one in openai.bodies[1]["input"] if one["type"] == "function_call"]
    assert [call["arguments"][:1] for call in calls] == ["{"]


@pytest.mark.parametrize(
    ("stop", "status", "reason"),
    [
        ("max_tokens", "truncated", "max_output_tokens"),
        ("content_filter", "refused", "content_filter"),
        ("refusal", "refused", "refusal"),
    ],
)
async def test_a_response_that_is_not_whole_is_not_completed(
    openai: OpenAIServer, streaming: bool, stop: str, status: str, reason: str
) -> None:
    play = [Say("I cannot", stop=stop, thinking="Hm.")]

    result = await run(openai, play, Purse(), streaming=streaming)

    assert (result.status, result.stop_reason) == (status, reason)
    assert result.final_response == "I cannot"
    assert result.trace_messages[0].thinking == "Hm."


async def test_arguments_of_responses_are_repaired(openai: OpenAIServer, streaming: bool) -> None:
    purse = Purse()
    calls = (
        Call("pay", encoded='"{\\"amount\\": 3}"'),
        Call("pay", encoded="null"),
        Call("pay", encoded="[1]"),
    )

    result = await run(openai, [Say("", calls=calls), "I see."], purse, streaming=streaming)

    assert purse.paid == [3]
    answers = results(result.trace_messages)
    assert [text.startswith("! ") for text in answers] == [False, True, True]
    assert (
        answers[2] == "! the call was not made: its arguments are not one complete JSON object: [1]"
    )
    assert result.status == "completed"


async def test_a_response_that_fails_while_it_streams_is_requested_again(
    openai: OpenAIServer, streaming: bool
) -> None:
    failed = Cut(4, say="I pay.", error="server_error") if streaming else Cut()

    result = await run(openai, [failed, "I see."], Purse(), streaming=streaming)

    assert (result.status, result.final_response, result.turns) == ("completed", "I see.", 1)
