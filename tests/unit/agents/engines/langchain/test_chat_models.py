"""A model's configuration says which chat model is made, and how."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from langchain.chat_models import base
from langchain_core.language_models import BaseChatModel

from plait import ConfigError, ModelConfig, get_agent
from plait.agents.engines.langchain.chat_models import ChatModels
from plait.agents.engines.langchain.scripted_model import ScriptedChatModel
from plait.agents.model_failures import key_names, provider_and_name
from plait.errors import EngineUnavailableError

pytestmark = pytest.mark.anyio

ENGINE = "plait.agents.engines.langchain"


def config(**settings: Any) -> ModelConfig:
    return ModelConfig.model_validate({"id": "m", "model_name": "x", **settings})


async def made(model_config: ModelConfig, name: str | None = None) -> BaseChatModel:
    models = ChatModels(model_config)
    try:
        return models.make(name)
    finally:
        await models.aclose()


@pytest.mark.parametrize(
    ("settings", "other", "expected"),
    [
        ({"model_provider": "anthropic"}, None, ("anthropic", "x")),
        ({"model_name": "openai:gpt"}, None, ("openai", "gpt")),
        ({"model_provider": "ollama", "model_name": "qwen:1b"}, None, ("ollama", "qwen:1b")),
        ({"model_provider": "anthropic"}, "small", ("anthropic", "small")),
        ({"model_provider": "anthropic"}, "openai:gpt", ("openai", "gpt")),
        ({"interface": "openai_endpoint", "model_name": "a:b"}, None, ("openai", "a:b")),
        ({"interface": "openrouter", "model_name": "a/b"}, "c:free", ("openrouter", "c:free")),
    ],
)
def test_a_name_may_bring_its_provider(
    settings: dict[str, Any], other: str | None, expected: tuple[str, str]
) -> None:
    assert provider_and_name(config(**settings), other) == expected


async def test_settings_reach_a_model_of_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from the environment")
    given = config(
        model_provider="anthropic",
        model_name="claude-x",
        temperature=None,
        max_tokens=12,
        request_timeout=7,
        extra_kwargs={"top_k": 3},
    )

    model: Any = await made(given)

    assert (model.model, model.max_tokens, model.temperature) == ("claude-x", 12, None)
    assert (model.default_request_timeout, model.max_retries, model.top_k) == (7, 0, 3)
    assert model.anthropic_api_key.get_secret_value() == "from the environment"


async def test_settings_reach_an_endpoint() -> None:
    given = config(
        interface="openai_endpoint",
        endpoint_base_url="http://127.0.0.1:8080",
        max_tokens=12,
        extra_kwargs={"extra_body": {"seed": 1}},
    )

    model: Any = await made(given)

    assert model.openai_api_base == "http://127.0.0.1:8080/v1"
    assert model.extra_body == {"max_tokens": 12, "seed": 1}
    assert (model.temperature, model.request_timeout, model.stream_usage) == (0.1, 600, True)


async def test_a_client_of_the_program_is_its_own() -> None:
    import httpx2

    async with httpx2.AsyncClient() as client:
        given = config(
            interface="openai_endpoint",
            endpoint_base_url="http://127.0.0.1:8080",
            extra_kwargs={"http_async_client": client},
        )
        await made(given)

        assert not client.is_closed


async def test_openrouter_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "key")

    model: Any = await made(config(interface="openrouter"))

    assert model.openai_api_base == "https://openrouter.ai/api/v1"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_missing_package_is_named_before_the_first_run_and_in_it(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"langchain_{provider}", None)

    monkeypatch.setitem(sys.modules, "langchain_openai.chat_models.base", None)
    # The module that needs it may be imported already.
    monkeypatch.delitem(sys.modules, f"{ENGINE}.openai_model", raising=False)
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "key")
    for name in dir(base):  # LangChain remembers what it has imported
        getattr(getattr(base, name), "cache_clear", lambda: None)()

    for make in (get_agent, lambda model: ChatModels(model).make()):
        with pytest.raises(EngineUnavailableError, match=r"plait\[models\]"):
            make(config(model_provider=provider))


def test_a_model_in_this_process_is_refused_without_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("plait.agents.engines.langchain.chat_models.find_spec", lambda name: None)
    with pytest.raises(EngineUnavailableError, match=r"plait\[local\]"):
        get_agent(config(model_provider="local"))


async def test_a_file_can_be_the_model(tmp_path: Any) -> None:
    file = tmp_path / "script.json"
    file.write_text('["Hi"]')

    assert isinstance(
        await made(config(model_provider="scripted", model_name=str(file))), ScriptedChatModel
    )
    with pytest.raises(ConfigError, match="nowhere"):
        await made(config(model_provider="scripted", model_name="nowhere.json"))


def test_where_keys_are_set() -> None:
    assert key_names(config(interface="openai_endpoint")) == "endpoint_api_key"
    assert key_names(config(model_provider="groq")) == "the key of the provider"
