"""What becomes of a run on the langchain engine when its model cannot be asked."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from plait import AgentConfig, ConfigError, ModelConfig, get_agent
from plait.errors import AgentExecutionError, EngineUnavailableError
from plait.testing import AnthropicServer, Call, OpenAIServer, Say, free_port
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse
from plait.traces import read_trace
from tests.integration.agents.langchain_models import ASK, KEY, Provider, model_of, results, toys

pytestmark = pytest.mark.anyio


STEP = Say("On.", (Call("add", {"a": 1, "b": 2}),))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Refuse(status=401), "api_key"),
        (Refuse(status=403), "api_key"),
        (Refuse(status=404), "model_name"),
        (Refuse(status=400, message="too long"), "too long"),
        (Refuse(status=429), "raise max_retries"),
        (Refuse(status=500), "try again later"),
        (Refuse(status=529), "try again later"),
        (Cut(), "check the URL"),
        (Raw("no JSON"), "failed"),
    ],
    ids=lambda value: str(getattr(value, "status", type(value).__name__)),
)
async def test_a_fault_of_the_provider_ends_the_run_with_advice(
    api: Provider, fault: Any, says: str, tmp_path: Path
) -> None:
    api.play([STEP, fault])
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(AgentExecutionError) as caught:
        await get_agent(model_of(api)).arun(ASK, None, toys(), AgentConfig(trace=trace))

    assert says in str(caught.value)
    kept = read_trace(trace)
    assert kept.status == "failed"
    assert results(kept.messages) == ["3"]
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    assert KEY not in trace.read_text()


async def test_a_wrong_key_is_not_shown(api: Provider, tmp_path: Path) -> None:
    wrong = "sk-canary-of-the-wrong-kind"
    name = "endpoint_api_key" if isinstance(api, OpenAIServer) else "anthropic_api_key"
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(AgentExecutionError, match=name) as caught:
        await get_agent(model_of(api, **{name: wrong})).arun(ASK, config=AgentConfig(trace=trace))

    assert caught.value.status == 401
    shown = "".join(traceback.format_exception(caught.value))
    assert wrong not in shown + trace.read_text()


async def test_a_key_of_the_environment_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, anthropic: AnthropicServer
) -> None:
    anthropic.play(None)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary of the environment")

    with pytest.raises(AgentExecutionError, match="ANTHROPIC_API_KEY") as caught:
        await get_agent(model_of(anthropic, anthropic_api_key=None)).arun(ASK)

    assert "canary of the environment" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_provider_that_is_not_there_is_named(provider: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    server: Any = {"anthropic": AnthropicServer, "openai": OpenAIServer}[provider]()
    server.url = url

    with pytest.raises(AgentExecutionError, match="check the URL") as caught:
        await get_agent(model_of(server)).arun(ASK)

    assert url in str(caught.value)


async def test_what_may_pass_is_tried_again(api: Provider) -> None:
    api.play([Refuse(status=429, retry_after="0"), Refuse(status=500), "Done."])

    result = await get_agent(model_of(api, max_retries=2)).arun(ASK)

    assert result.final_response == "Done."
    assert result.turns == 1
    assert result.usage.total_tokens == api.spent.total_tokens


async def test_one_request_is_bounded(api: Provider) -> None:
    api.play([Hang()])

    with pytest.raises(AgentExecutionError, match="request_timeout"):
        await get_agent(model_of(api, request_timeout=0.3)).arun(ASK)


async def test_a_stream_that_breaks_off_is_a_failure(api: Provider) -> None:
    api.play([Cut(after=3)])

    with pytest.raises(AgentExecutionError, match="is incomplete"):
        await get_agent(model_of(api, extra_kwargs={"streaming": True})).arun(ASK)


async def test_a_whole_stream_is_an_answer(api: Provider) -> None:
    api.play([STEP, "Done."])

    result = await get_agent(model_of(api, extra_kwargs={"streaming": True})).arun(
        ASK, None, toys()
    )

    assert (result.final_response, result.turns) == ("Done.", 2)
    assert result.usage.total_tokens == api.spent.total_tokens


async def test_a_model_without_a_key_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    cases = {
        "ANTHROPIC_API_KEY": ModelConfig(id="m", model_name="anthropic:claude-x"),
        "OPENAI_API_KEY": ModelConfig(id="m", model_provider="openai", model_name="gpt-x"),
        "OPENROUTER_API_KEY": ModelConfig(id="m", interface="openrouter", model_name="a/b"),
    }
    for name, config in cases.items():
        with pytest.raises(EngineUnavailableError, match=name):
            await get_agent(config).arun(ASK)


async def test_openrouter_is_an_endpoint_of_its_own(
    monkeypatch: pytest.MonkeyPatch, openai: OpenAIServer
) -> None:
    openai.play(["Hello.", "Again."])
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "of somebody else")
    config = ModelConfig(
        id="m",
        interface="openrouter",
        model_name="test-model",
        endpoint_base_url=openai.base_url,
        temperature=None,
        max_tokens=99,
    )

    result = await get_agent(config).arun(ASK)

    assert result.final_response == "Hello."
    (asked,) = openai.requests
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["max_tokens"] == 99
    assert "temperature" not in asked.body


async def test_an_endpoint_on_this_machine_never_gets_the_key_of_openai(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of somebody else")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with OpenAIServer(["Hello."]) as server:
        result = await get_agent(model_of(server, endpoint_api_key=None)).arun(ASK)

    assert result.final_response == "Hello."
    assert server.requests[0].headers["authorization"] == "Bearer none"


async def test_a_key_is_not_sent_in_the_clear() -> None:
    config = ModelConfig(
        id="m",
        interface="openai_endpoint",
        model_name="x",
        endpoint_base_url="http://models.example.com/v1",
        endpoint_api_key=KEY,  # pyright: ignore[reportArgumentType]
    )

    with pytest.raises(ConfigError, match="https"):
        await get_agent(config).arun(ASK)


async def test_a_script_can_be_the_model(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('[{"calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}, "Done."]')
    config = ModelConfig(id="m", model_provider="scripted", model_name=str(file))
    agent = get_agent(config)

    once = await agent.arun(ASK, None, toys())
    twice = await agent.arun(ASK, None, toys())

    assert results(once.trace_messages) == results(twice.trace_messages) == ["3"]
    assert once.usage == twice.usage
