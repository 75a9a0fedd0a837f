"""The middleware of an agent stands in its order, and means what its configuration says."""

from __future__ import annotations

import logging
import sys
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ModelRetryMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from plait import ConfigError
from plait.agents import AgentMiddlewareConfig, build_agent_middleware
from plait.agents.engines.langchain.middleware import (
    LimitedTools,
    RequestTimeout,
    prompt_for,
    trigger_tokens,
)
from plait.testing import ScriptedChatModel, tool_call

DEFAULT = AgentMiddlewareConfig()


def config(**parts: Any) -> AgentMiddlewareConfig:
    return AgentMiddlewareConfig.model_validate(parts)


def found(stack: list[Any], kind: type) -> Any:
    (one,) = [each for each in stack if isinstance(each, kind)]
    return one


def names(stack: list[Any]) -> list[str]:
    return [type(one).__name__ for one in stack]


LIMITS = ["ModelCallLimitMiddleware", "LimitedTools", "ModelRetryMiddleware"]
CACHE = "AnthropicPromptCachingMiddleware"


@pytest.mark.parametrize(
    ("interface", "provider", "caches", "rest", "expected"),
    [
        (
            "langchain",
            "anthropic",
            True,
            {"base_model": ScriptedChatModel([]), "request_timeout": 5},
            [CACHE, *LIMITS, "RequestTimeout", "ToolRetryMiddleware", "Summaries"],
        ),
        ("langchain", "openai", True, {}, [*LIMITS, "ToolRetryMiddleware"]),
        ("openai_endpoint", "anthropic", True, {}, [*LIMITS, "ToolRetryMiddleware"]),
        ("langchain", "anthropic", False, {}, [*LIMITS, "ToolRetryMiddleware"]),
        (
            "langchain",
            "openai",
            True,
            {"retries_model": False},
            [*LIMITS[:2], "ToolRetryMiddleware"],
        ),
    ],
    ids=["everything", "another provider", "an endpoint", "no cache", "no retries"],
)
def test_the_stack_has_its_order(
    interface: str, provider: str, caches: bool, rest: Any, expected: list[str]
) -> None:
    settings = config(prompt_caching={"enabled": caches})

    stack = build_agent_middleware(settings, None, interface, provider=provider, **rest)

    assert names(stack) == expected


def test_prompts_are_not_cached_without_the_package(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    monkeypatch.setitem(sys.modules, "langchain_anthropic.middleware", None)
    with caplog.at_level(logging.WARNING, "plait.agents.engines"):
        stack = build_agent_middleware(DEFAULT, provider="anthropic")

    assert names(stack)[0] == "ModelCallLimitMiddleware"
    assert "plait[models]" in caplog.text


def test_settings_reach_the_middleware() -> None:
    asked = config(
        limits={"model_call_limit": 7, "tool_call_limit": 3},
        model_retry={"max_retries": 4, "backoff_factor": 3, "initial_delay": 1, "max_delay": 9},
        tool_retry={"max_retries": 5, "on_failure": "raise"},
    )
    stack = build_agent_middleware(asked)

    limit = found(stack, ModelCallLimitMiddleware)
    assert (limit.run_limit, limit.exit_behavior) == (7, "error")
    tools = found(stack, LimitedTools)
    assert (tools.run_limit, tools.exit_behavior) == (3, "continue")
    retry = found(stack, ModelRetryMiddleware)
    assert (retry.max_retries, retry.backoff_factor, retry.initial_delay) == (4, 3, 1)
    assert (retry.max_delay, retry.on_failure) == (9, "error")
    again = cast("Any", stack[-1])
    assert (again.max_retries, again.on_failure) == (5, "error")
    assert again.retry_on(OSError())
    assert not again.retry_on(ConfigError("x"))


def test_the_smaller_limit_counts_and_continue_ends_with_an_error() -> None:
    asked = config(limits={"model_call_limit": 7, "exit_behavior": "continue"})

    fewer = build_agent_middleware(asked, max_turns=3)
    more = build_agent_middleware(asked, max_turns=30)

    assert found(fewer, ModelCallLimitMiddleware).run_limit == 3
    assert found(more, ModelCallLimitMiddleware).run_limit == 7
    assert found(more, LimitedTools).exit_behavior == "error"


@pytest.mark.parametrize(
    ("summarization", "context", "expected"),
    [
        ({}, None, 80_000),
        ({"trigger_fraction": 0.5}, None, 50_000),
        ({"trigger_fraction": 0}, None, 1),
        ({}, 32_000, 32_000),
        ({"trigger_tokens": 500}, 32_000, 500),
    ],
)
def test_when_a_conversation_is_summarised(
    summarization: dict[str, Any], context: int | None, expected: int
) -> None:
    assert trigger_tokens(config(summarization=summarization), context) == expected


def test_a_model_that_is_named_is_made() -> None:
    asked = config(summarization={"model": "small"})
    made: list[str] = []

    def make(name: str) -> BaseChatModel:
        made.append(name)
        return ScriptedChatModel([])

    assert names(build_agent_middleware(asked, make_model=make))[-1] == "Summaries"
    assert made == ["small"]


def test_the_summariser_reads_the_question_whole_and_the_rest_shortened() -> None:
    question = "Why? " * 500
    prompt = prompt_for(
        [
            HumanMessage(question),
            AIMessage("a" * 900, tool_calls=[tool_call("add", a=1)]),
            ToolMessage("b" * 3000, tool_call_id="c", name="add", status="error"),
            HumanMessage("c" * 900),
        ]
    )

    assert question in prompt
    assert f'Assistant: {"a" * 499}… [calls add {{"a": 1}}]' in prompt
    assert f"Tool add failed: {'b' * 999}…\n" in prompt
    assert prompt.endswith(f"Human: {'c' * 499}…")


def test_the_stack_works_in_an_agent_without_a_loop() -> None:
    model = ScriptedChatModel(
        lambda messages: "Short." if "Summarise" in messages[0].text else [tool_call("gone")]
    )
    asked = config(
        limits={"model_call_limit": 3}, summarization={"trigger_tokens": 20, "keep_messages": 1}
    )
    agent: Any = create_agent(
        model, [], middleware=build_agent_middleware(asked, base_model=model, request_timeout=9)
    )

    with pytest.raises(ModelCallLimitExceededError):
        agent.invoke({"messages": [HumanMessage("Go on. " * 30)]})

    said = [messages[0].text for messages in model.seen]
    assert "Summary of previous conversation:\nShort." in said


@pytest.mark.anyio
async def test_a_timeout_of_somebody_else_is_not_taken_for_its_own() -> None:
    async def slow(request: Any) -> Any:
        raise TimeoutError("of the client")

    with pytest.raises(TimeoutError, match="of the client"):
        await RequestTimeout(9).awrap_model_call(cast("Any", None), slow)
