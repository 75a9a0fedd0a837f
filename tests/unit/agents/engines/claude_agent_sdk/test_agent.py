"""How a run of the command line ended."""

from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk import CLINotFoundError, ProcessError, ResultMessage

from plait import ModelConfig
from plait._support.redact import Redactor
from plait.agents.engines.claude_agent_sdk.agent import (
    ClaudeSDKAgent,
    ending_of,
    execution_error,
    usage_from_result,
)
from plait.errors import AgentExecutionError, EngineUnavailableError
from plait.traces import UsageMetadata

MODEL = ModelConfig(id="m", model_name="claude", interface="claude_agent_sdk")
REDACT = Redactor(["canary-key"])


def result(subtype: str = "success", **facts: Any) -> ResultMessage:
    given: dict[str, Any] = {"is_error": False, "session_id": "s", **facts}
    return ResultMessage(subtype, duration_ms=1, duration_api_ms=1, num_turns=9, **given)


def test_the_usage_is_that_of_all_models() -> None:
    one = {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3}
    two = {"inputTokens": 10, "outputTokens": 20, "cacheCreationInputTokens": 40}
    ended = result(model_usage={"a": one, "b": two}, total_cost_usd=0.5)

    assert usage_from_result(ended) == UsageMetadata(
        11, 22, 33, cost_usd=0.5, cache_read_tokens=3, cache_creation_tokens=40
    )
    assert usage_from_result(result()) is None


def test_turns_that_are_used_up_are_a_limit() -> None:
    assert ending_of(result("error_max_turns", is_error=True), MODEL, REDACT, None) == "limit"
    assert ending_of(result(), MODEL, REDACT, None) == "completed"


@pytest.mark.parametrize(
    ("said", "status", "advice"),
    [
        ("API Error: 401 canary-key", 401, "anthropic_api_key"),
        ("API Error: 404", 404, "model_name, which is 'claude'"),
        ("API Error: 429", 429, "max_retries"),
        ("API Error: 529", 529, "try again later"),
        ("API Error: 400", 400, "settings of the ModelConfig"),
        ("Prompt is too long", 413, "shorten the input"),
        ("Not logged in · Please run /login", None, "ANTHROPIC_API_KEY"),
        ("Request timed out", None, "request_timeout"),
        ("API Error: Connection refused", None, "anthropic_base_url"),
    ],
)
def test_what_failed_says_what_to_do(said: str, status: int | None, advice: str) -> None:
    ended = result(is_error=True, result=said, api_error_status=status)

    with pytest.raises(AgentExecutionError, match="claude_agent_sdk: ") as caught:
        ending_of(ended, MODEL, REDACT, "it said")

    assert advice in str(caught.value)
    assert "canary-key" not in str(caught.value)
    assert caught.value.stderr == "it said"


def test_a_limit_of_money_is_a_limit() -> None:
    ended = result("error_max_budget_usd", is_error=True, errors=["Reached maximum budget"])

    assert ending_of(ended, MODEL, REDACT, None) == "limit"


def test_a_program_that_ends_or_is_not_there_is_explained() -> None:
    ended = ProcessError("Command failed", exit_code=1, stderr="Check stderr output for details")

    told = execution_error(ended, REDACT, "first\nno such option")
    missing = execution_error(CLINotFoundError("gone"), REDACT, None)

    assert str(told) == "claude_agent_sdk: Command failed (exit code: 1): no such option"
    assert told.stderr == "first\nno such option"
    assert "pip install 'plait[claude]'" in str(missing)


@pytest.mark.parametrize("provider", ["local", "scripted"])
def test_models_of_this_process_run_elsewhere(provider: str) -> None:
    with pytest.raises(EngineUnavailableError, match="runs on the langchain engine"):
        ClaudeSDKAgent(MODEL.model_copy(update={"model_provider": provider}))
