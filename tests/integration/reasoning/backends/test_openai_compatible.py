"""Endpoints that speak OpenAI's protocol: what they are sent, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.errors import BackendError
from plait.models.endpoints import find_ollama
from plait.reasoning.backends.choose import choose, completer_for, detect_models
from plait.reasoning.backends.port import Completer
from plait.reasoning.backends.settings import read_settings
from plait.testing import OpenAIServer, blackhole, free_port
from plait.testing.llm.turns import Raw, Refuse
from tests.integration.reasoning.backends.support import openai, opened, prompt

pytestmark = pytest.mark.anyio

PLAIN = {"max_tokens", "temperature"}


@asynccontextmanager
async def endpoint(
    *turns: Any, model: str | None = "test-model", **options: Any
) -> AsyncGenerator[tuple[OpenAIServer, Completer]]:
    """Open a backend on an endpoint with these turns."""
    script: Any = turns[0] if turns and callable(turns[0]) else turns or None
    with OpenAIServer(script, **options) as server:
        async with opened(openai(server.url, model=model)) as completer:
            yield server, completer


def settings_sent(server: OpenAIServer) -> list[set[str]]:
    """Return the settings of each request that reached the model."""
    return [set(body) - {"model", "messages", "stream"} for body in server.bodies]


async def test_a_prompt_is_sent_with_its_settings() -> None:
    async with endpoint("{}", "prose", models=["tiny"], model="tiny") as (server, completer):
        completion = await completer.complete(prompt("Why?"))
        await completer.complete(replace(prompt(), json=False))

    asked, other = server.requests
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
    assert (completion.model, completion.output_tokens) == ("tiny", 1)
    assert "response_format" not in other.body  # JSON is demanded only where it must come back


@pytest.mark.parametrize("names_param", [True, False])
async def test_the_json_mode_is_left_out_for_good_where_it_is_refused(names_param: bool) -> None:
    refuses: dict[str, Any] = {"refuses": ["response_format"], "names_param": names_param}
    async with endpoint("one", "two", **refuses) as (server, completer):
        said = [(await completer.complete(prompt())).text for _ in range(2)]

    assert said == ["one", "two"]
    assert settings_sent(server) == [PLAIN | {"response_format"}, PLAIN, PLAIN]


async def test_every_setting_that_is_refused_by_name_is_avoided() -> None:
    refuses = ["max_tokens", "response_format", "temperature"]
    async with endpoint("one", "two", refuses=refuses) as (server, completer):
        await completer.complete(prompt())
        await completer.complete(prompt())

    assert settings_sent(server)[-2:] == [{"max_completion_tokens"}] * 2
    assert len(server.bodies) == 5


async def test_a_request_that_is_refused_for_another_reason_is_an_error() -> None:
    def answer(body: Mapping[str, Any]) -> Refuse:
        return Refuse(status=400, message="context too long")

    async with endpoint(answer) as (server, completer):
        with pytest.raises(BackendError, match="context too long") as failed:
            await completer.complete(prompt())

    assert (failed.value.status, failed.value.retryable) == (400, False)
    assert len(server.bodies) == 2


async def test_the_text_of_an_answer_may_be_in_parts_or_missing_but_no_error() -> None:
    parts = '{"choices": [{"message": {"content": [{"text": "a"}, {"x": 1}, {"text": "b"}]}}]}'
    none = '{"choices": [{"message": {"content": null}}]}'
    failed = Raw('{"error": {"message": "out of memory"}}')

    async with endpoint(Raw(parts), Raw(none), failed) as (_, completer):
        said = [(await completer.complete(prompt())).text for _ in range(2)]
        with pytest.raises(BackendError, match="out of memory"):
            await completer.complete(prompt())

    assert said == ["ab", ""]


async def test_the_first_model_that_writes_is_taken_where_none_is_named() -> None:
    models = ["nomic-embed-text", "writer", "other"]
    async with endpoint(models=models, model=None) as (server, completer):
        said = completer.describe()
        completion = await completer.complete(prompt())

    assert said == f"writer at {server.url}"
    assert completion.model == "writer"
    with pytest.raises(BackendError, match="no model"):
        async with endpoint(models=[], model=None):
            pass


async def test_an_ollama_on_this_machine_is_found_chosen_and_asked() -> None:
    with OpenAIServer(["found"], models=["llama3.2:3b"]) as server:
        settings = read_settings({"OLLAMA_HOST": server.url})
        choice = choose(settings, await detect_models(settings))
        async with opened(completer_for(choice, settings)) as completer:
            completion = await completer.complete(prompt())

    found = (choice.backend, choice.model, choice.base_url)
    assert found == ("openai", "llama3.2:3b", server.base_url)
    assert completion.text == "found"
    assert [asked.path for asked in server.requests] == ["/api/tags", "/v1/chat/completions"]


async def test_ollama_is_not_looked_for_when_something_else_decides() -> None:
    with OpenAIServer() as server:
        for name, value in (
            ("LANGBASE_API_KEY", "k"),
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://localhost:1"),
            ("PLAIT_REASONING_BACKEND", "host"),
            ("PLAIT_REASONING_MODEL", "anthropic:x"),
            ("PLAIT_NO_OLLAMA", "1"),
        ):
            settings = read_settings({"OLLAMA_HOST": server.url, name: value})
            assert (await detect_models(settings)).endpoint is None

    assert server.requests == []


async def test_what_is_no_ollama_with_a_model_is_not_found() -> None:
    with OpenAIServer(models=["nomic-embed-text"]) as without_writer:
        assert await find_ollama(without_writer.url) is None
    assert await find_ollama(f"127.0.0.1:{free_port()}") is None
    with blackhole() as port:
        assert await find_ollama(f"127.0.0.1:{port}", timeout_seconds=0.1) is None
    assert await find_ollama("http://192.0.2.1:11434", timeout_seconds=30) is None
