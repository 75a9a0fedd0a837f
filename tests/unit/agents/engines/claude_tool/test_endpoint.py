"""Where the Messages API is, and the key for it."""

from __future__ import annotations

from typing import Any

import pytest

from plait import ModelConfig, get_agent
from plait.agents.engines.claude_tool.agent import OFFICIAL, AnthropicEndpoint, ClaudeToolAgent
from plait.errors import AgentExecutionError, EngineUnavailableError

KEY = "sk-canary-0123456789"


def config(**settings: Any) -> ModelConfig:
    return ModelConfig.model_validate(
        {"id": "c", "model_name": "claude-x", "interface": "claude_tool", **settings}
    )


def test_the_configuration_wins_over_the_environment() -> None:
    environment = {"ANTHROPIC_API_KEY": "env-key", "ANTHROPIC_BASE_URL": "https://env.example"}

    given = AnthropicEndpoint.of(
        config(anthropic_api_key=KEY, anthropic_base_url="https://given.example"), environment
    )
    found = AnthropicEndpoint.of(config(), environment)

    assert (given.base_url, given.secrets) == ("https://given.example", [KEY])
    assert (found.base_url, found.secrets) == ("https://env.example", ["env-key"])
    assert KEY not in repr(given)


def test_a_token_is_taken_where_there_is_no_key() -> None:
    endpoint = AnthropicEndpoint.of(config(), {"ANTHROPIC_AUTH_TOKEN": "token-1"})

    assert (endpoint.api_key, endpoint.auth_token) == (None, "token-1")
    assert endpoint.base_url == OFFICIAL


def test_a_missing_key_is_an_error_that_says_where_to_put_it() -> None:
    with pytest.raises(AgentExecutionError, match=r"ANTHROPIC_API_KEY.*anthropic_api_key"):
        AnthropicEndpoint.of(config(), {})


def test_an_endpoint_on_this_machine_needs_no_key() -> None:
    endpoint = AnthropicEndpoint.of(config(anthropic_base_url="http://localhost:8080"), {})

    assert endpoint.api_key


@pytest.mark.parametrize("provider", ["local", "scripted"])
def test_models_of_this_process_run_on_another_engine(provider: str) -> None:
    with pytest.raises(EngineUnavailableError, match="langchain") as refused:
        get_agent(config(model_provider=provider))

    assert refused.value.fallback == "langchain"


def test_the_engine_is_found_by_its_interface() -> None:
    agent = get_agent(config())

    assert isinstance(agent, ClaudeToolAgent)
    assert agent.capabilities.supports_system_prompt
