"""Which model runs on which engine, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plait.agents.choose_model import (
    ModelChoice,
    ModelEnvironment,
    ModelRequest,
    choose_model,
)
from plait.agents.registry import REGISTRY, EngineSpec
from plait.errors import ConfigError
from plait.models.endpoints import Endpoint

ANTHROPIC_KEY = {"ANTHROPIC_API_KEY": "secret-a"}
OPENAI_KEY = {"OPENAI_API_KEY": "secret-o"}
OLLAMA = Endpoint(base_url="http://127.0.0.1:11434/v1", models=("llama3.2", "other"))
NOTHING = ModelEnvironment()


def chosen(
    model: str | None = None, engine: str | None = None, env: ModelEnvironment = NOTHING
) -> ModelChoice:
    return choose_model(ModelRequest(model=model, engine=engine), env)


def facts(choice: ModelChoice) -> tuple[str, str | None, str | None, str | None]:
    config = choice.config
    return (config.interface, config.model_provider, config.model_name, config.endpoint_base_url)


@pytest.mark.parametrize(
    ("model", "engine", "expected"),
    [
        ("anthropic:claude-x", None, ("claude_tool", "anthropic", "claude-x", None)),
        ("claude-x", None, ("claude_tool", "anthropic", "claude-x", None)),
        ("claude-x", "langchain", ("langchain", "anthropic", "claude-x", None)),
        ("opus", "claude_agent_sdk", ("claude_agent_sdk", "anthropic", "opus", None)),
        ("openai:gpt-x", None, ("langchain", "openai", "gpt-x", None)),
        (
            "gpt-x",
            "openai_endpoint",
            ("openai_endpoint", None, "gpt-x", "https://api.openai.com/v1"),
        ),
        ("groq:llama", None, ("langchain", "groq", "llama", None)),
        (
            "ollama:qwen2:7b",
            None,
            ("openai_endpoint", None, "qwen2:7b", "http://127.0.0.1:11434/v1"),
        ),
        (
            "http://localhost:8080#tiny",
            None,
            ("openai_endpoint", None, "tiny", "http://localhost:8080/v1"),
        ),
        ("openrouter:meta/llama", None, ("openrouter", None, "meta/llama", None)),
        ("meta/llama", "openrouter", ("openrouter", None, "meta/llama", None)),
        ("scripted:a.json", None, ("langchain", "scripted", "a.json", None)),
        ("manual:a.jsonl", "manual", ("manual", None, "manual", None)),
    ],
)
def test_a_model_that_is_named_runs_on_the_engine_that_fits(
    model: str, engine: str | None, expected: tuple[str, ...]
) -> None:
    keys = {**ANTHROPIC_KEY, **OPENAI_KEY, "OPENROUTER_API_KEY": "secret-r"}

    choice = chosen(model, engine, ModelEnvironment(keys=keys))

    assert facts(choice) == expected
    assert choice.reason == "requested"
    assert "secret-" not in repr(choice)


@pytest.mark.parametrize(
    ("model", "engine", "said"),
    [
        ("openai:gpt-x", "claude_tool", "use --engine langchain or openai_endpoint"),
        ("anthropic:claude-x", "openai_endpoint", "use --engine claude_tool or"),
        ("scripted:a.json", "claude_agent_sdk", "use --engine langchain"),
        ("manual:a.json", "langchain", "use --engine manual"),
        ("claude-x", "manual", "leave --engine out"),
        ("gpt-x", None, "write provider:name"),
        ("", None, "write provider:name"),
        ("http://localhost:1", None, "write URL#NAME"),
        ("http://far.example/v1#x", None, "it needs PLAIT_MODEL_API_KEY"),
        ("openai:gpt-x", None, "needs OPENAI_API_KEY"),
        ("openrouter:x", None, "needs OPENROUTER_API_KEY"),
        (None, "manual", "needs --model manual:FILE"),
        (None, "nobody", "there is no engine"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(
    model: str | None, engine: str | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        chosen(model, engine)


def test_without_anthropics_package_its_models_run_on_langchain() -> None:
    env = ModelEnvironment(keys=ANTHROPIC_KEY, installed=frozenset({"langchain_anthropic"}))

    assert facts(chosen("claude-x", env=env))[0] == "langchain"
    assert facts(chosen(env=env))[:2] == ("langchain", "anthropic")


def test_a_key_decides_and_goes_to_its_own_provider_only() -> None:
    env = ModelEnvironment(keys={**ANTHROPIC_KEY, **OPENAI_KEY})

    choice = chosen(env=env)
    endpoint = chosen("http://localhost:1#x", env=env)

    assert choice.title == "anthropic:claude-haiku-5-5"
    assert choice.reason == "ANTHROPIC_API_KEY is set"
    assert choice.config.secrets() == ["secret-a"]
    assert endpoint.config.secrets() == []


def test_an_endpoint_on_this_machine_or_ollama_is_found() -> None:
    here = ModelEnvironment(
        openai_url="http://localhost:8080/v1", listed=("tiny",), endpoint=OLLAMA
    )

    by_url, by_ollama = (
        chosen(env=here),
        chosen(env=ModelEnvironment(endpoint=OLLAMA)),
    )

    assert (by_url.title, by_url.reason) == (
        "tiny at http://localhost:8080",
        "OPENAI_BASE_URL is on this machine",
    )
    assert (by_ollama.title, by_ollama.reason) == (
        "llama3.2 at http://127.0.0.1:11434",
        "Ollama runs on this machine",
    )
    with pytest.raises(ConfigError, match="lists no model"):
        chosen(env=replace(here, listed=()))


@pytest.mark.parametrize(
    "env",
    [
        ModelEnvironment(keys=OPENAI_KEY, openai_url="http://far.example/v1"),
        ModelEnvironment(keys=ANTHROPIC_KEY, anthropic_url="http://far.example"),
    ],
)
def test_a_key_is_not_sent_in_the_clear(env: ModelEnvironment) -> None:
    with pytest.raises(ConfigError, match="only be sent over https") as refused:
        chosen("openai:x" if env.openai_url else "claude-x", env=env)

    assert "far.example" not in str(refused.value)


def test_a_url_for_anthropic_is_used() -> None:
    env = ModelEnvironment(keys=ANTHROPIC_KEY, anthropic_url="http://127.0.0.1:1")

    assert chosen(env=env).config.anthropic_base_url == "http://127.0.0.1:1"


def test_without_any_model_the_choices_are_explained_with_what_was_passed_over() -> None:
    with pytest.raises(ConfigError) as explained:
        chosen(env=ModelEnvironment(keys=ANTHROPIC_KEY, installed=frozenset()))

    text = str(explained.value)
    assert len(text.splitlines()) == 6
    for way in ("ANTHROPIC_API_KEY", "Ollama", "OPENAI_BASE_URL", "scripted:", "is installed"):
        assert way in text


def test_a_claude_engine_needs_no_key_to_be_chosen() -> None:
    choice = chosen(engine="claude_agent_sdk")

    assert facts(choice)[:2] == ("claude_agent_sdk", "anthropic")


@pytest.mark.parametrize(
    ("model", "default", "name"),
    [
        ("groq:x", None, "groq:x"),
        ("ollama:x", None, "ollama:x"),
        ("http://127.0.0.1/v1#x", None, "http://127.0.0.1/v1#x"),
        ("tiny", "abacus", "tiny"),
        (None, "abacus", "abacus"),
        (None, None, "foreign"),
    ],
)
def test_an_engine_of_another_package_has_its_own_names_of_models(
    model: str | None, default: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys in the environment belong to other engines, and decide nothing."""
    specs = REGISTRY._specs  # pyright: ignore[reportPrivateUsage]  # as an entry point adds it
    monkeypatch.setitem(specs, "foreign", EngineSpec(name="foreign", default_model=default))

    choice = chosen(model, "foreign", ModelEnvironment(keys=ANTHROPIC_KEY))

    assert facts(choice) == ("foreign", None, name, None)
    assert choice.config.anthropic_api_key is None
