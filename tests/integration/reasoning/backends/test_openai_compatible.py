"""Endpoints that speak OpenAI's protocol: what they are sent, and what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.errors import BackendError
from plait.models.endpoints import find_ollama
from plait.reasoning.backends.choose import choose, completer_for, detect_models
from plait.reasoning.backends.http import OpenAICompatibleCompleter
from plait.reasoning.backends.settings import read_settings
from plait.testing import OpenAIServer, blackhole, free_port
from plait.testing.llm.turns import Raw, Refuse
from tests.integration.reasoning.backends.completer_suite import prompt


def settings_sent(server: OpenAIServer) -> list[set[str]]:
    """Return the settings of each request that reached the model."""
    return [set(body) - {"model", "messages", "stream"} for body in server.bodies]


@pytest.mark.anyio
async def test_a_prompt_is_sent_with_its_settings() -> None:
    with OpenAIServer(["{}"], models=["tiny"]) as server:
        completer = OpenAICompatibleCompleter(server.url, model="tiny")
        completion = await completer.complete(prompt("Why?"))
        await completer.aclose()

    (asked,) = server.requests
    assert asked.path == "/v1/chat/completions"
    assert "authorization" not in asked.headers
    assert asked.body == snapshot(
        {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Answer in JSON."},
                {"role": "user", "content": "Why?"},
            ],
            "stream": False,
            "max_tokens": 2000,
            "temperature": 0.7,
            "response_format": {"type": "json_object"},
        }
    )
    assert completion.model == "tiny"
    assert completion.output_tokens == 1


@pytest.mark.anyio
async def test_json_is_demanded_only_where_it_must_come_back() -> None:
    with OpenAIServer(["prose"]) as server:
        completer = OpenAICompatibleCompleter(server.url, model="test-model")
        await completer.complete(replace(prompt(), json=False))
        await completer.aclose()

    assert settings_sent(server) == [{"max_tokens", "temperature"}]


@pytest.mark.parametrize("names_param", [True, False])
@pytest.mark.anyio
async def test_the_json_mode_is_left_out_for_good_where_it_is_refused(names_param: bool) -> None:
    with OpenAIServer(
        ["one", "two"], refuses=["response_format"], names_param=names_param
    ) as server:
        completer = OpenAICompatibleCompleter(server.url, model="test-model")
        said = [(await completer.complete(prompt())).text for _ in range(2)]
        await completer.aclose()

    plain = {"max_tokens", "temperature"}
    assert said == ["one", "two"]
    assert settings_sent(server) == [plain | {"response_format"}, plain, plain]


@pytest.mark.anyio
async def test_every_setting_that_is_refused_by_name_is_avoided() -> None:
    with OpenAIServer(
        ["one", "two"], refuses=["max_tokens", "response_format", "temperature"]
    ) as server:
        completer = OpenAICompatibleCompleter(server.url, model="test-model")
        await completer.complete(prompt())
        await completer.complete(prompt())
        await completer.aclose()

    assert settings_sent(server)[-2:] == [{"max_completion_tokens"}] * 2
    assert len(server.bodies) == 5


@pytest.mark.anyio
async def test_a_request_that_is_refused_for_another_reason_is_an_error() -> None:
    def answer(body: Mapping[str, Any]) -> Refuse:
        return Refuse(status=400, message="context too long")

    with OpenAIServer(answer) as server:
        completer = OpenAICompatibleCompleter(server.url, model="test-model")
        with pytest.raises(BackendError, match="context too long") as failed:
            await completer.complete(prompt())
        await completer.aclose()

    assert (failed.value.status, failed.value.retryable) == (400, False)
    assert len(server.bodies) == 2


@pytest.mark.anyio
async def test_an_error_in_a_success_is_an_error() -> None:
    with OpenAIServer([Raw('{"error": {"message": "out of memory"}}')]) as server:
        completer = OpenAICompatibleCompleter(server.url, model="test-model")
        with pytest.raises(BackendError, match="out of memory"):
            await completer.complete(prompt())
        await completer.aclose()


@pytest.mark.anyio
async def test_the_text_of_an_answer_may_be_in_parts_or_missing() -> None:
    parts = '{"choices": [{"message": {"content": [{"text": "a"}, {"x": 1}, {"text": "b"}]}}]}'
    none = '{"choices": [{"message": {"content": null}}]}'

    with OpenAIServer([Raw(parts), Raw(none)]) as server:
        completer = OpenAICompatibleCompleter(server.url, model="test-model")
        said = [(await completer.complete(prompt())).text for _ in range(2)]
        await completer.aclose()

    assert said == ["ab", ""]


@pytest.mark.anyio
async def test_the_first_model_that_writes_is_taken_where_none_is_named() -> None:
    with OpenAIServer(models=["nomic-embed-text", "writer", "other"]) as server:
        completer = OpenAICompatibleCompleter(server.base_url)
        await completer.open()
        said = completer.describe()
        completion = await completer.complete(prompt())
        await completer.aclose()

    assert said == f"writer at {server.url}"
    assert completion.model == "writer"


@pytest.mark.anyio
async def test_an_endpoint_without_models_is_an_error() -> None:
    with OpenAIServer(models=[]) as server:
        completer = OpenAICompatibleCompleter(server.url)
        with pytest.raises(BackendError, match="no model"):
            await completer.open()
        await completer.aclose()


@pytest.mark.anyio
async def test_an_ollama_on_this_machine_is_found_chosen_and_asked() -> None:
    with OpenAIServer(["found"], models=["llama3.2:3b"]) as server:
        settings = read_settings({"OLLAMA_HOST": server.url})
        choice = choose(settings, await detect_models(settings))
        completer = completer_for(choice, settings)
        await completer.open()
        completion = await completer.complete(prompt())
        await completer.aclose()

    assert (choice.backend, choice.model, choice.base_url) == (
        "openai",
        "llama3.2:3b",
        server.base_url,
    )
    assert completion.text == "found"
    assert [asked.path for asked in server.requests] == ["/api/tags", "/v1/chat/completions"]


@pytest.mark.anyio
async def test_ollama_is_not_looked_for_when_something_else_decides() -> None:
    with OpenAIServer() as server:
        for decided in (
            {"LANGBASE_API_KEY": "k"},
            {"OPENAI_API_KEY": "k"},
            {"OPENAI_BASE_URL": "http://localhost:1"},
            {"PLAIT_REASONING_BACKEND": "host"},
            {"PLAIT_REASONING_MODEL": "anthropic:x"},
            {"PLAIT_NO_OLLAMA": "1"},
        ):
            around = await detect_models(read_settings({"OLLAMA_HOST": server.url, **decided}))
            assert around.endpoint is None

    assert server.requests == []


@pytest.mark.anyio
async def test_what_is_no_ollama_with_a_model_is_not_found() -> None:
    with OpenAIServer(models=["nomic-embed-text"]) as without_writer:
        assert await find_ollama(without_writer.url) is None
    assert await find_ollama(f"127.0.0.1:{free_port()}") is None
    with blackhole() as port:
        assert await find_ollama(f"127.0.0.1:{port}", timeout_seconds=0.1) is None
    assert await find_ollama("http://192.0.2.1:11434", timeout_seconds=30) is None
