"""What the middleware of a configuration does to runs on the langchain engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from plait import AgentConfig, Message, get_agent
from plait.errors import AgentExecutionError
from plait.models.endpoints import context_tokens
from plait.testing import AnthropicServer, Call, OpenAIServer, Say
from plait.testing.llm.turns import Hang, Raw, Refuse
from tests.integration.agents.langchain_models import ASK, KEY, model_of, results, toys

pytestmark = pytest.mark.anyio

QUICK = {"initial_delay": 0, "jitter": False}
STEP = Say("On.", (Call("add", {"a": 1, "b": 2}),))


@pytest.fixture(scope="module")
def openai() -> Iterator[OpenAIServer]:
    with OpenAIServer(key=KEY, max_model_len=50) as server:
        yield server


async def test_prompts_of_anthropic_are_cached(anthropic: AnthropicServer) -> None:
    anthropic.play([STEP, "Done."])
    config = model_of(anthropic, agent_middleware={}, system_prompt="Be brief.")

    result = await get_agent(config).arun(ASK, None, toys())

    assert result.final_response == "Done."
    body = anthropic.bodies[0]
    assert body["tools"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert body["system"][-1]["cache_control"]


async def test_the_smaller_limit_of_turns_holds(anthropic: AnthropicServer) -> None:
    anthropic.play([STEP, STEP, "Done."])
    config = model_of(anthropic, agent_middleware={"limits": {"model_call_limit": 2}})

    result = await get_agent(config).arun(ASK, None, toys())
    anthropic.play([STEP, STEP, "Done."])
    sooner = await get_agent(config).arun(ASK, None, toys(), AgentConfig(max_turns=1))

    assert (result.turns, result.limit_reached, result.final_response) == (2, True, "On.")
    assert results(result.trace_messages) == ["3", "3"]
    assert (sooner.turns, sooner.limit_reached) == (1, True)
    assert len(anthropic.bodies) == 1


@pytest.mark.parametrize(("behaviour", "goes_on"), [("end", True), ("continue", False)])
async def test_calls_over_the_limit_are_not_made(
    anthropic: AnthropicServer, behaviour: str, goes_on: bool
) -> None:
    two = Say("On.", (Call("add", {"a": 1, "b": 2}, "c1"), Call("add", {"a": 3, "b": 4}, "c2")))
    anthropic.play([two, "Done."])
    limits = {"tool_call_limit": 1, "exit_behavior": behaviour}

    result = await get_agent(model_of(anthropic, agent_middleware={"limits": limits})).arun(
        ASK, None, toys()
    )

    if goes_on:
        made, refused = results(result.trace_messages)
        assert made == "3"
        assert refused.startswith("! ")
        assert (result.final_response, result.limit_reached) == ("Done.", False)
    else:
        assert results(result.trace_messages) == []
        assert (result.turns, result.limit_reached, result.final_response) == (1, True, "On.")


async def test_a_model_is_asked_again_as_often_as_the_middleware_says(
    openai: OpenAIServer,
) -> None:
    retry = {"model_retry": {"max_retries": 2, **QUICK}, "summarization": {"enabled": False}}
    openai.play([Refuse(status=500), Refuse(status=429), "Done."])

    result = await get_agent(model_of(openai, max_retries=5, agent_middleware=retry)).arun(ASK)

    assert (result.final_response, result.turns) == ("Done.", 1)
    assert len(openai.bodies) == 3


@pytest.mark.parametrize("on_failure", ["continue", "raise"])
async def test_a_failure_is_never_an_answer(openai: OpenAIServer, on_failure: str) -> None:
    retry = {"max_retries": 1, "on_failure": on_failure, **QUICK}
    middleware = {"model_retry": retry, "summarization": {"enabled": False}}
    openai.play([Refuse(status=500)] * 9)

    with pytest.raises(AgentExecutionError, match="try again later"):
        await get_agent(model_of(openai, agent_middleware=middleware)).arun(ASK)

    assert len(openai.bodies) == 2


async def test_a_slow_request_is_given_up_and_tried_again(openai: OpenAIServer) -> None:
    middleware = {"model_retry": QUICK, "summarization": {"enabled": False}}
    openai.play([Hang(), "Done."])

    config = model_of(openai, request_timeout=0.5, agent_middleware=middleware)
    result = await get_agent(config).arun(ASK)

    assert result.final_response == "Done."


class Talk:
    """Says what it knows of the summary, and writes the summary when it is asked for one."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.summaries = 0

    def __call__(self, body: Mapping[str, Any]) -> Say:
        if "Summarise this conversation" in str(body["messages"][0]):
            self.summaries += 1
            return Say(f"Summary {self.summaries}.", usage={"input_tokens": 1000})
        self.steps -= 1
        return STEP if self.steps >= 0 else Say("Done.")


async def test_long_conversations_are_summarised_and_the_trace_stays_whole(
    openai: OpenAIServer,
) -> None:
    openai.play(talk := Talk(6))
    middleware = {"summarization": {"trigger_tokens": 60, "keep_messages": 2}}
    question = [Message.user("The question, which is long enough to count for something.")]

    result = await get_agent(model_of(openai, agent_middleware=middleware)).arun(
        question, None, toys()
    )

    assert talk.summaries >= 1
    assert result.turns == 7
    assert results(result.trace_messages) == ["3"] * 6
    assert [one.text for one in result.trace_messages if one.text] == ["On."] * 6 + ["Done."]
    assert result.usage.total_tokens == openai.spent.total_tokens
    last = openai.bodies[-1]["messages"]
    assert last[0]["content"] == f"Summary of previous conversation:\nSummary {talk.summaries}."
    assert len(last) < 6


async def test_another_model_can_summarise() -> None:
    middleware = {"summarization": {"trigger_tokens": 60, "keep_messages": 1, "model": "small"}}
    with OpenAIServer(Talk(3), models=("test-model", "small")) as server:
        config = model_of(server, agent_middleware=middleware)
        result = await get_agent(config).arun([Message.user("Go on. " * 30)], None, toys())

    assert result.final_response == "Done."
    assert {body["model"] for body in server.bodies} == {"test-model", "small"}
    assert result.usage.total_tokens == server.spent.total_tokens
    assert result.actual_model == "test-model"


async def test_an_endpoint_is_asked_how_much_its_model_reads(openai: OpenAIServer) -> None:
    openai.play(talk := Talk(4))
    config = model_of(openai, agent_middleware={"summarization": {"keep_messages": 2}})

    await get_agent(config).arun([Message.user("Go on. " * 30)], None, toys())

    assert talk.summaries >= 1
    assert await context_tokens(openai.base_url, "test-model", KEY) == 50
    assert await context_tokens(openai.url, "test-model", KEY) == 50
    assert await context_tokens(openai.url, "another", KEY) is None
    assert await context_tokens(openai.url, "test-model", "wrong") is None
    assert await context_tokens("http://127.0.0.1:1", "test-model") is None


async def test_an_endpoint_may_say_nothing_of_its_models() -> None:
    class Mute(OpenAIServer):
        def answer(self, request: Any) -> Any:
            return Raw(request.headers["authorization"].removeprefix("Bearer "))

    with Mute() as server:
        for said in ("[]", '{"data": 1}', '{"data": [1, {"id": "m"}]}', "no JSON"):
            assert await context_tokens(server.url, "m", said) is None
