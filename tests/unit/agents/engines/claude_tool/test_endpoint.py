"""Where Anthropic's API is, and the key for it, which goes nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import AgentConfig, ConfigError, Message, ModelConfig, get_agent
from plait.agents.anthropic_api import anthropic_url
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
    with pytest.raises(AgentExecutionError, match=r"ANTHROPIC_API_KEY.*anthropic_api_key"):
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


def model_at(url: str | None, interface: str = "claude_tool") -> ModelConfig:
    return ModelConfig(
        id="claude",
        interface=interface,
        model_provider="anthropic",
        model_name="claude-test",
        anthropic_base_url=url,
    )


def test_the_configuration_wins_over_the_environment() -> None:
    environment = {"ANTHROPIC_BASE_URL": "https://b.example"}

    assert anthropic_url(model_at("https://a.example"), environment) == "https://a.example"
    assert anthropic_url(model_at(None), environment) == "https://b.example"
    assert anthropic_url(model_at(None), {}) is None
    assert anthropic_url(model_at("http://127.0.0.1:9"), {}) == "http://127.0.0.1:9"


@pytest.mark.anyio
@pytest.mark.parametrize("interface", ["langchain", "claude_tool", "claude_agent_sdk"])
async def test_no_engine_sends_a_key_over_plain_http_to_another_machine(
    interface: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-0123456789")
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(ConfigError, match="anthropic_base_url cannot be used: a key may only"):
        await get_agent(model_at("http://other.example", interface)).arun(
            [Message.user("Hello")], None, {}, AgentConfig(trace=trace)
        )

    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://other.example")
    with pytest.raises(ConfigError, match="ANTHROPIC_BASE_URL cannot be used"):
        await get_agent(model_at(None, interface)).arun([Message.user("Hello")], None, {})


def test_a_name_with_its_provider_takes_credentials_of_anthropic() -> None:
    made = ModelConfig(
        id="claude", model_name="anthropic:claude-test", anthropic_base_url="https://a.example"
    )

    assert made.model_provider is None
    with pytest.raises(ValueError, match="anthropic_base_url is not used"):
        ModelConfig(id="gpt", model_name="openai:gpt", anthropic_base_url="https://a.example")
