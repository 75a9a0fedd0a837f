"""Where the key for Anthropic may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait import AgentConfig, ConfigError, Message, ModelConfig, get_agent
from plait.agents.anthropic_api import anthropic_url


def config(url: str | None, interface: str = "claude_tool") -> ModelConfig:
    return ModelConfig(
        id="claude",
        interface=interface,
        model_provider="anthropic",
        model_name="claude-test",
        anthropic_base_url=url,
    )


def test_the_configuration_wins_over_the_environment() -> None:
    environment = {"ANTHROPIC_BASE_URL": "https://b.example"}

    assert anthropic_url(config("https://a.example"), environment) == "https://a.example"
    assert anthropic_url(config(None), environment) == "https://b.example"
    assert anthropic_url(config(None), {}) is None
    assert anthropic_url(config("http://127.0.0.1:9"), {}) == "http://127.0.0.1:9"


@pytest.mark.anyio
@pytest.mark.parametrize("interface", ["langchain", "claude_tool", "claude_agent_sdk"])
async def test_no_engine_sends_a_key_over_plain_http_to_another_machine(
    interface: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-0123456789")
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(ConfigError, match="anthropic_base_url cannot be used: a key may only"):
        await get_agent(config("http://other.example", interface)).arun(
            [Message.user("Hello")], None, {}, AgentConfig(trace=trace)
        )

    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://other.example")
    with pytest.raises(ConfigError, match="ANTHROPIC_BASE_URL cannot be used"):
        await get_agent(config(None, interface)).arun([Message.user("Hello")], None, {})


def test_a_name_with_its_provider_takes_credentials_of_anthropic() -> None:
    made = ModelConfig(
        id="claude", model_name="anthropic:claude-test", anthropic_base_url="https://a.example"
    )

    assert made.model_provider is None
    with pytest.raises(ValueError, match="anthropic_base_url is not used"):
        ModelConfig(id="gpt", model_name="openai:gpt", anthropic_base_url="https://a.example")
