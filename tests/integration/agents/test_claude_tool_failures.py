"""What agents on Anthropic's tool runner make of an API that fails, or stops for a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait import AgentConfig, AgentResult, Message, ModelConfig, StaticTool
from plait.agents.engines.claude_tool.agent import ClaudeToolAgent
from plait.errors import AgentExecutionError
from plait.testing import AnthropicServer, Call, Say, eventually, free_port
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse, Script, Turn
from plait.traces import read_trace

pytestmark = pytest.mark.anyio

KEY = "canary-value-0123456789"
ASK = [Message.user("Go on.")]
TWICE = StaticTool("twice", "Doubles.", function=lambda n: 2 * n)
FIRST = Say("First.", calls=(Call("twice", {"n": 4}),))


@pytest.fixture(scope="module")
def server() -> Iterator[AnthropicServer]:
    with AnthropicServer(threads="unknown") as running:
        yield running


@pytest.fixture
def api(server: AnthropicServer) -> AnthropicServer:
    server.play(None)
    return server


def agent(url: str, **settings: Any) -> ClaudeToolAgent:
    facts = {"id": "c", "model_name": "claude-x", "interface": "claude_tool"}
    where = {"anthropic_base_url": url, "anthropic_api_key": KEY, "max_retries": 0}
    return ClaudeToolAgent(ModelConfig.model_validate({**facts, **where, **settings}))


async def play(
    api: AnthropicServer, script: Script, config: AgentConfig | None = None, **settings: Any
) -> AgentResult:
    api.play(script)
    return await agent(api.url, **settings).arun(ASK, [TWICE], {}, config)


def answer(stop_reason: str | None, *content: dict[str, Any]) -> Raw:
    """Make an answer that stops for a reason of its own."""
    whole = {
        "id": f"msg_{stop_reason}",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    return Raw(json.dumps(whole))


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


HALF = {"type": "tool_use", "id": "half", "name": "twice", "input": {}}


@pytest.mark.parametrize(
    ("turn", "status", "advice"),
    [
        (Refuse(status=401, message="invalid key"), 401, "ANTHROPIC_API_KEY"),
        (Refuse(status=400, message="temperature: not supported"), 400, "temperature=None"),
        (Refuse(status=400, message="bad"), 400, "ModelConfig"),
        (Refuse(status=404, message="model: claude-x"), 404, "model_name"),
        (Refuse(status=429, message="slow down", retry_after="7"), 429, "max_retries"),
        (Refuse(status=529, message="overloaded"), 529, "later"),
        (Raw("nonsense", status=502), 502, "later"),
        (Cut(), None, "check the URL"),
    ],
)
async def test_a_failure_says_what_to_do_and_keeps_what_was_said(
    api: AnthropicServer, tmp_path: Path, turn: Turn, status: int | None, advice: str
) -> None:
    trace = tmp_path / "run.jsonl"

    with pytest.raises(AgentExecutionError, match=advice) as failed:
        await play(api, [FIRST, turn], AgentConfig(trace=trace))

    assert failed.value.status == status
    assert api.url in str(failed.value)
    assert KEY not in str(failed.value)
    assert KEY not in trace.read_text()
    kept = read_trace(trace)
    assert kept.turns == 1
    assert kept.messages[-1].tool_results[0].content == "8"
    assert kept.usage == api.spent


async def test_the_key_of_the_environment_is_hidden_too(
    api: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary of the environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)

    with pytest.raises(AgentExecutionError) as failed:
        await play(api, [Refuse(status=401)], anthropic_api_key=None, anthropic_base_url=None)

    assert api.requests[0].headers["authorization"] == "Bearer canary of the environment"
    assert "canary" not in str(failed.value)


async def test_what_may_pass_is_tried_again(api: AnthropicServer) -> None:
    script = [Refuse(status=429, retry_after="0.01"), Refuse(status=529, retry_after="0.01"), FIRST]

    result = await play(api, [*script, "8"], max_retries=2)

    assert result.final_response == "8"
    assert (len(api.bodies), result.turns) == (4, 2)
    assert result.usage == api.spent


async def test_an_endpoint_that_is_not_there_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    with pytest.raises(AgentExecutionError, match=f"{url} cannot be reached"):
        await agent(url).arun(ASK)


@pytest.mark.parametrize("quiet", [True, False])
async def test_a_stream_that_is_cut_is_a_failure(api: AnthropicServer, quiet: bool) -> None:
    with pytest.raises(AgentExecutionError, match="run it again"):
        await play(api, [FIRST, Cut(5, quiet=quiet)], max_tokens=20_000)


async def test_an_answer_without_an_end_is_a_failure(api: AnthropicServer) -> None:
    with pytest.raises(AgentExecutionError, match="is incomplete"):
        await play(api, [answer(None, text("I was about to"))])


async def test_a_request_has_its_own_time(api: AnthropicServer) -> None:
    with pytest.raises(AgentExecutionError, match=r"in 0\.5 s: raise request_timeout"):
        await play(api, [Hang()], request_timeout=0.5)

    await eventually(lambda: api.abandoned == 1)


async def test_a_run_that_hangs_is_left_in_time(api: AnthropicServer) -> None:
    result = await play(api, [FIRST, Hang()], AgentConfig(timeout=3))

    assert (result.timeout_reached, result.turns) == (True, 1)
    assert result.usage == api.spent
    await eventually(lambda: api.abandoned == 1)


async def test_a_refusal_is_an_answer(api: AnthropicServer) -> None:
    result = await play(api, [answer("refusal", text("I will not."))])

    assert (result.final_response, result.turns) == ("I will not.", 1)
    assert (result.status, result.stop_reason) == ("refused", "refusal")


async def test_a_long_answer_that_is_cut_short_is_an_answer(api: AnthropicServer) -> None:
    result = await play(api, [answer("max_tokens", text("Once upon a"))])

    assert result.final_response == "Once upon a"


async def test_a_call_that_is_cut_short_is_not_made(api: AnthropicServer, tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"

    half = answer("max_tokens", text("I"), HALF)
    result = await play(api, [half, "Well."], AgentConfig(trace=trace))

    assert (result.turns, result.status) == (2, "completed")
    recorded = read_trace(trace)
    assert not recorded.calls
    told = recorded.messages[1].tool_results[0]
    assert told.is_error
    assert "was not made" in told.content


async def test_a_turn_that_pauses_goes_on(api: AnthropicServer) -> None:
    script = [answer("pause_turn", text("I search.")), FIRST, "8"]

    result = await play(api, script)
    limited = await play(api, script, AgentConfig(max_turns=1))

    assert (result.turns, result.final_response) == (3, "8")
    assert (limited.turns, limited.limit_reached) == (1, True)


async def test_arguments_that_are_null_are_none(api: AnthropicServer) -> None:
    wishes = [{"type": "tool_use", "id": name, "name": "now", "input": None} for name in ("a", "b")]
    count = iter(range(10))
    now = StaticTool("now", function=lambda: next(count))
    api.play([answer("tool_use", *wishes), "done"])

    result = await agent(api.url).arun(ASK, [now])

    assert [message.text for message in result.trace_messages[-1:]] == ["done"]
    sent = api.bodies[1]["messages"][-1]["content"]
    assert [one["content"] for one in sent] == ["0", "1"]


async def test_a_missing_key_is_said_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(AgentExecutionError, match="set anthropic_api_key or ANTHROPIC_API_KEY"):
        await agent("", anthropic_api_key=None).arun(ASK)
