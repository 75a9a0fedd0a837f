"""What becomes of a run whose model cannot be reached, fails, or stops in the middle."""

from __future__ import annotations

import asyncio
import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from plait import AgentConfig, ConfigError, ModelConfig, get_agent
from plait.errors import AgentExecutionError, EngineUnavailableError
from plait.testing import AnthropicServer, Call, OpenAIServer, Say, eventually, free_port
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse
from plait.traces import read_trace
from tests.integration.agents.langchain_models import (
    ASK,
    Provider,
    agent_of,
    model_of,
    results,
    toys,
)
from tests.servers import KEY

pytestmark = pytest.mark.anyio

STEP = Say("On.", (Call("add", {"a": 1, "b": 2}),))
INTERFACES = ("langchain", "claude_tool", "openai_endpoint")


@pytest.fixture(params=INTERFACES)
def interface(request: pytest.FixtureRequest) -> str:
    """The engines whose requests plait itself sends."""
    return request.param


@pytest.fixture
def api(interface: str, request: pytest.FixtureRequest) -> Provider:
    """The stand-in of the provider of an engine, without a script."""
    name = "openai" if interface == "openai_endpoint" else "anthropic"
    server: Provider = request.getfixturevalue(name)
    server.play(None)
    return server


FAULTS: dict[str, tuple[Any, int | None, str, bool]] = {
    "a wrong key": (Refuse(status=401, message="invalid key"), 401, "api_key", False),
    "no right": (Refuse(status=403), 403, "api_key", False),
    "no such model": (Refuse(status=404), 404, "model_name", False),
    "a bad request": (Refuse(status=400, message="too long"), 400, "too long", False),
    "a temperature": (Refuse(status=400, message="temperature: no"), 400, "=None", False),
    "a rate limit": (Refuse(status=429, retry_after="7"), 429, "raise max_retries", True),
    "a failure": (Refuse(status=500), 500, "try again later", True),
    "an overload": (Refuse(status=529), 529, "try again later", True),
    "a gateway": (Raw("nonsense", status=502), 502, "try again later", True),
    "no connection": (Cut(), None, "check the URL", True),
    "no JSON": (Raw("no JSON"), None, "failed", False),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_provider_ends_the_run_with_advice(
    api: Provider, interface: str, fault: str, tmp_path: Path
) -> None:
    turn, status, advice, retryable = FAULTS[fault]
    api.play([STEP, turn])
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(AgentExecutionError) as failed:
        await agent_of(api, interface).arun(ASK, None, toys(), AgentConfig(trace=trace))

    error = failed.value
    assert advice in str(error)
    assert (error.status, error.retryable) == (status, retryable)
    assert error.retry_after == (7 if fault == "a rate limit" else None)
    assert status is None or api.url in str(error)
    kept = read_trace(trace)
    assert (kept.status, kept.turns, results(kept.messages)) == ("failed", 1, ["3"])
    assert kept.usage.total_tokens == api.spent.total_tokens
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error) + trace.read_text()


@pytest.mark.parametrize("place", ["configured", "environment"])
async def test_a_wrong_key_is_not_shown(
    api: Provider, interface: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "sk-canary-of-the-wrong-kind"
    name = "endpoint_api_key" if interface == "openai_endpoint" else "anthropic_api_key"
    settings: dict[str, Any] = {name: wrong}
    if place == "environment":
        if interface == "openai_endpoint":
            return  # its key is configured only
        settings = {name: None}
        monkeypatch.setenv("ANTHROPIC_API_KEY", wrong)
    trace = tmp_path / "trace.jsonl"

    with pytest.raises(AgentExecutionError, match=name) as failed:
        await agent_of(api, interface, **settings).arun(ASK, config=AgentConfig(trace=trace))

    assert failed.value.status == 401
    shown = "".join(traceback.format_exception(failed.value))
    assert wrong not in shown + trace.read_text()


async def test_a_provider_that_is_not_there_is_named(api: Provider, interface: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    name = "endpoint_base_url" if interface == "openai_endpoint" else "anthropic_base_url"

    with pytest.raises(AgentExecutionError, match=f"{url} cannot be reached"):
        await agent_of(api, interface, **{name: url}).arun(ASK)


async def test_what_may_pass_is_tried_again(api: Provider, interface: str) -> None:
    api.play([Refuse(status=429, retry_after="0"), Refuse(status=500), STEP, "Done."])

    result = await agent_of(api, interface, max_retries=2).arun(ASK, None, toys())

    assert (result.final_response, result.turns, len(api.bodies)) == ("Done.", 2, 4)
    assert result.usage.total_tokens == api.spent.total_tokens


async def test_one_request_is_bounded(api: Provider, interface: str) -> None:
    api.play([Hang()])

    with pytest.raises(AgentExecutionError, match=r"in 0\.3 s: raise request_timeout"):
        await agent_of(api, interface, request_timeout=0.3).arun(ASK)

    await eventually(lambda: api.abandoned > 0)


async def test_a_run_that_hangs_is_left_in_time(
    api: Provider, interface: str, tmp_path: Path
) -> None:
    api.play([STEP, Hang()])
    trace = tmp_path / "trace.jsonl"
    before = asyncio.all_tasks()

    config = AgentConfig(timeout=2, trace=trace)
    result = await agent_of(api, interface).arun(ASK, None, toys(), config)

    assert (result.timeout_reached, result.turns, result.final_response) == (True, 1, "On.")
    assert results(result.trace_messages) == ["3"]
    assert read_trace(trace).status == "timeout"
    await eventually(lambda: api.abandoned > 0)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("cut", [Cut(after=3), Cut(after=3, quiet=True)], ids=["error", "silence"])
async def test_a_stream_that_breaks_off_is_a_failure(
    api: Provider, interface: str, cut: Cut
) -> None:
    api.play([STEP, cut])

    with pytest.raises(AgentExecutionError, match="run it again"):
        await agent_of(api, interface).arun(ASK, None, toys(), AgentConfig(stream=True))


@pytest.mark.parametrize("interface", ["langchain", "claude_tool"])
async def test_an_answer_without_an_end_is_a_failure(
    anthropic: AnthropicServer, interface: str
) -> None:
    answer = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [{"type": "text", "text": "I was about to"}],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    anthropic.play([Raw(json.dumps(answer))])

    with pytest.raises(AgentExecutionError, match="is incomplete"):
        await agent_of(anthropic, interface).arun(ASK)


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENROUTER_API_KEY")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ANTHROPIC_API_KEY", {"model_name": "anthropic:claude-x"}),
        ("ANTHROPIC_API_KEY", {"model_name": "claude-x", "interface": "claude_tool"}),
        ("OPENAI_API_KEY", {"model_provider": "openai", "model_name": "gpt-x"}),
        ("OPENROUTER_API_KEY", {"interface": "openrouter", "model_name": "a/b"}),
    ],
)
async def test_a_model_without_a_key_says_where_to_put_it(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in (*KEYS, "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(key, raising=False)

    with pytest.raises((AgentExecutionError, EngineUnavailableError), match=f"set .*{name}"):
        await get_agent(ModelConfig.model_validate({"id": "m", **settings})).arun(ASK)


async def test_openrouter_is_an_endpoint_of_its_own(
    monkeypatch: pytest.MonkeyPatch, openai: OpenAIServer
) -> None:
    openai.play(["Hello."])
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
    (request,) = openai.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["max_tokens"] == 99
    assert "temperature" not in request.body


async def test_an_endpoint_on_this_machine_never_gets_the_key_of_openai(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of somebody else")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with OpenAIServer(["Hello."]) as server:
        result = await get_agent(model_of(server, endpoint_api_key=None)).arun(ASK)

    assert result.final_response == "Hello."
    assert server.requests[0].headers["authorization"] == "Bearer none"


async def test_a_key_is_not_sent_in_the_clear(openai: OpenAIServer) -> None:
    config = model_of(openai, endpoint_base_url="http://models.example.com/v1")

    with pytest.raises(ConfigError, match="https"):
        await get_agent(config).arun(ASK)


async def test_a_script_can_be_the_model_of_several_runs(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('[{"calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}, "Done."]')
    agent = get_agent(ModelConfig(id="m", model_provider="scripted", model_name=str(file)))

    once = await agent.arun(ASK, None, toys())
    twice = await agent.arun(ASK, None, toys())

    assert results(once.trace_messages) == results(twice.trace_messages) == ["3"]
    assert once.usage == twice.usage
