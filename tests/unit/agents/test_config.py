"""The settings of models and runs: fields, defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from plait.agents.config import AgentConfig, AgentMiddlewareConfig, ModelConfig
from plait.errors import ConfigError


def test_a_run_has_these_defaults() -> None:
    config = AgentConfig()

    assert (config.max_turns, config.system_prompt, config.timeout) == (25, None, None)
    assert (config.question_hash, config.extra, config.task_id) == (None, {}, None)
    assert AgentConfig(extra={"task_id": 7}).task_id == "7"


@pytest.mark.parametrize(
    "settings",
    [
        *({"max_turns": 0}, {"max_turns": 2.5}, {"max_turns": True}),
        *({"timeout": 0}, {"timeout": -1.0}),
        *({"max_tokens_total": 0}, {"max_cost_usd": 0}, {"max_cost_usd": float("nan")}),
    ],
    ids=str,
)
def test_a_run_without_turns_time_or_budget_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AgentConfig(**settings)


def test_a_model_has_these_defaults() -> None:
    told = ModelConfig(id="a", model_name="m").model_dump()

    assert told == {
        "id": "a",
        "model_provider": None,
        "model_name": "m",
        "temperature": 0.1,
        "max_tokens": 8192,
        "interface": "langchain",
        "system_prompt": None,
        "max_retries": 2,
        "mcp_urls_dict": None,
        "mcp_tool_filter": None,
        "mcp_tool_description_overrides": None,
        "endpoint_base_url": None,
        "endpoint_api_key": None,
        "anthropic_base_url": None,
        "anthropic_api_key": None,
        "extra_kwargs": None,
        "agent_middleware": None,
        "max_context_tokens": None,
        "mcp_http_timeout": None,
        "mcp_sse_read_timeout": None,
        "agent_timeout": None,
        "request_timeout": None,
    }


def test_recordings_give_a_model_its_names_and_are_not_written_out() -> None:
    config = ModelConfig(interface="manual", manual_traces={"0" * 32: "yes"})

    assert (config.id, config.model_name) == ("manual", "manual")
    assert "manual_traces" not in config.model_dump()
    assert "yes" not in repr(config)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"model_name": "m"}, "id is required"),
        ({"id": "a"}, "model_name is required"),
        ({"interface": "manual"}, "manual_traces is required"),
        (
            {"interface": "manual", "manual_traces": {}, "mcp_urls_dict": {}},
            "MCP tools are not supported with manual interface",
        ),
        ({"id": "a", "model_name": "m", "colour": 1}, "Extra inputs are not permitted"),
        ({"id": "a", "model_name": "m", "anthropic_api_key": "k"}, "anthropic_api_key is not used"),
        (
            {"id": "a", "model_name": "m", "interface": "claude_tool", "endpoint_api_key": "k"},
            "endpoint_api_key is not used",
        ),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ModelConfig(**settings)


def test_keys_are_taken_by_the_engines_that_use_them_and_never_shown() -> None:
    key = SecretStr("canary-1234")
    one = ModelConfig(id="a", model_name="m", interface="claude_tool", anthropic_api_key=key)
    other = ModelConfig(
        id="a",
        model_name="m",
        model_provider="anthropic",
        anthropic_api_key=SecretStr("canary-1234"),
    )
    outside = ModelConfig(
        id="a", model_name="m", interface="acme", endpoint_api_key=SecretStr("canary-1234")
    )

    for config in (one, other, outside):
        assert config.secrets() == ["canary-1234"]
        assert "canary" not in repr(config) + config.model_dump_json()


def test_the_middleware_has_these_defaults() -> None:
    assert AgentMiddlewareConfig().model_dump() == {
        "limits": {"model_call_limit": 25, "tool_call_limit": 50, "exit_behavior": "end"},
        "model_retry": {
            "max_retries": 2,
            "backoff_factor": 2.0,
            "initial_delay": 2.0,
            "max_delay": 10.0,
            "jitter": True,
            "on_failure": "continue",
        },
        "tool_retry": {
            "max_retries": 3,
            "backoff_factor": 2.0,
            "initial_delay": 1.0,
            "on_failure": "return_message",
        },
        "summarization": {
            "enabled": True,
            "model": None,
            "trigger_fraction": 0.8,
            "trigger_tokens": None,
            "keep_messages": 20,
        },
        "prompt_caching": {
            "enabled": True,
            "ttl": "5m",
            "min_messages_to_cache": 0,
            "unsupported_model_behavior": "warn",
        },
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"limits": {"model_call_limit": 0}},
        {"limits": {"exit_behavior": "error"}},
        {"summarization": {"trigger_fraction": 1.1}},
        {"summarization": {"keep_messages": 0}},
        {"prompt_caching": {"ttl": "2h"}},
        {"tool_retry": {"max_delay": 3}},
        {"more": {}},
    ],
)
def test_middleware_outside_of_its_bounds_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentMiddlewareConfig(**settings)
