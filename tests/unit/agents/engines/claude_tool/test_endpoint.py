"""Where the Messages API is, and the key for it."""

from __future__ import annotations

from typing import Any

import pytest

from plait import ModelConfig, get_agent
from plait.agents.engines.claude_tool.agent import ClaudeToolAgent, anthropic_client
from plait.errors import AgentExecutionError, EngineUnavailableError

KEY = "sk-canary-0123456789"


def config(**settings: Any) -> ModelConfig:
    return ModelConfig.model_validate(
        {"id": "c", "model_name": "claude-x", "interface": "claude_tool", **settings}
    )


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        (
            {"anthropic_api_key": KEY, "anthropic_base_url": "https://given.example"},
            {"ANTHROPIC_API_KEY": "env-key", "ANTHROPIC_BASE_URL": "https://env.example"},
            ("https://given.example", KEY, None),
        ),
        (
            {},
            {"ANTHROPIC_API_KEY": "env-key", "ANTHROPIC_BASE_URL": "https://env.example"},
            ("https://env.example", "env-key", None),
        ),
        ({}, {"ANTHROPIC_AUTH_TOKEN": "token"}, ("https://api.anthropic.com", None, "token")),
        (
            {"anthropic_base_url": "http://localhost:8080"},
            {},
            ("http://localhost:8080", "none", None),
        ),
    ],
    ids=["configured", "environment", "token without a key", "this machine needs no key"],
)
def test_the_url_and_the_key_are_configured_or_of_the_environment(
    settings: dict[str, Any], environment: dict[str, str], expected: tuple[str, str, str]
) -> None:
    client = anthropic_client(config(**settings), environment)

    assert (str(client.base_url).rstrip("/"), client.api_key, client.auth_token) == expected


def test_a_missing_key_is_an_error_that_says_where_to_put_it() -> None:
    with pytest.raises(AgentExecutionError, match=r"anthropic_api_key.*ANTHROPIC_API_KEY"):
        anthropic_client(config(), {})


@pytest.mark.parametrize("provider", ["local", "scripted"])
def test_models_of_this_process_run_on_another_engine(provider: str) -> None:
    with pytest.raises(EngineUnavailableError, match="langchain") as refused:
        get_agent(config(model_provider=provider))

    assert refused.value.fallback == "langchain"


def test_the_engine_is_found_by_its_interface() -> None:
    agent = get_agent(config())

    assert isinstance(agent, ClaudeToolAgent)
    assert agent.capabilities.supports_system_prompt
