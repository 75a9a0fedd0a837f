"""Tests of an agent that need no key and no network."""

import pytest

from plait import AgentConfig, Message, ModelConfig, StaticTool, get_agent
from plait.errors import AgentExecutionError
from plait.testing import AnthropicServer, Call, Say
from plait.testing.llm.turns import Refuse

ASK = [Message.user("Is the shop open?")]


def is_open(day: str) -> str:
    return "open" if day != "sunday" else "closed"


SHOP = StaticTool(
    "is_open",
    "Says whether the shop is open.",
    {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
    is_open,
)


def config(api: AnthropicServer) -> ModelConfig:
    return ModelConfig(
        id="clerk",
        interface="claude_tool",
        model_name="claude-haiku-5-5",
        anthropic_base_url=api.url,
        anthropic_api_key="any",  # pyright: ignore[reportArgumentType]
        max_retries=0,
    )


def test_the_answer_of_the_tool_reaches_the_model() -> None:
    script = [Say(calls=(Call("is_open", {"day": "sunday"}),)), Say("It is closed.")]

    with AnthropicServer(script) as api:
        result = get_agent(config(api)).run(ASK, [SHOP])

    (_, after) = api.bodies
    assert after["messages"][-1]["content"][0]["content"] == "closed"
    assert result.final_response == "It is closed."


def test_an_agent_that_goes_round_in_circles_is_stopped() -> None:
    again = Say("Once more.", calls=(Call("is_open", {"day": "monday"}),))

    with AnthropicServer([again, again, again]) as api:
        result = get_agent(config(api)).run(ASK, [SHOP], config=AgentConfig(max_turns=2))

    assert (result.turns, result.limit_reached) == (2, True)


def test_a_provider_that_refuses_is_one_clear_error() -> None:
    with (
        AnthropicServer([Refuse(status=401)], only_with_tools=False) as api,
        pytest.raises(AgentExecutionError, match="401"),
    ):
        get_agent(config(api)).run(ASK)
