"""Spans and metrics of agents, in every engine, with the real SDK of OpenTelemetry."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind

from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.errors import AgentExecutionError
from plait.testing import AnthropicServer, Call, OpenAIServer, Say
from plait.testing.llm.turns import Cut, Refuse
from tests.integration.agents.langchain_models import model_of, toys
from tests.integration.telemetry.recorded import Recorded, attributes
from tests.servers import KEY

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ASK = [Message.user("Add the secret 20 and 22.")]
USAGE = {"input_tokens": 11, "output_tokens": 7}
SCRIPT = [
    Say("I add.", calls=(Call("add", {"a": 20, "b": 22}), Call("own", {"text": "x"})), usage=USAGE),
    Say("It is 42.", usage=USAGE),
]
ENGINES = ["langchain", "openai_endpoint", "claude_tool", "claude_agent_sdk"]


def own(text: str) -> str:
    """Return a text."""
    return text


@pytest.fixture
def model(
    engine: str, anthropic: AnthropicServer, openai: OpenAIServer
) -> tuple[ModelConfig, AnthropicServer | OpenAIServer]:
    """Return the model of an engine, and the stand-in of its provider."""
    if engine == "openai_endpoint":
        return model_of(openai, temperature=0.5), openai
    settings: dict[str, Any] = {"interface": engine}
    if engine != "langchain":
        settings["model_provider"] = None
    return model_of(anthropic, **settings), anthropic


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_run_and_its_requests_are_spans(
    engine: str, model: tuple[ModelConfig, Any], recorded: Recorded
) -> None:
    config, api = model
    api.play(SCRIPT)

    result = await get_agent(config, auto_fallback=False).arun(ASK, [own], toys())

    assert result.final_response == "It is 42."
    (run,), chats = recorded.ours("invoke_agent test"), recorded.ours("chat ")
    name = str(config.model_name)
    provider = "openai" if engine == "openai_endpoint" else "anthropic"
    assert [(span.name, span.kind) for span in chats] == [(f"chat {name}", SpanKind.CLIENT)] * 2
    assert run.kind == SpanKind.INTERNAL
    assert all(span.parent == run.get_span_context() for span in chats)
    assert all((span.end_time or 0) > (span.start_time or 0) for span in chats)
    first, whole = attributes(chats[0]), attributes(run)
    assert first["gen_ai.response.id"]
    common = {"gen_ai.provider.name": provider, "gen_ai.request.model": name}
    assert (
        first.items()
        >= {
            **common,
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": name,
            "gen_ai.response.finish_reasons": (
                "tool_calls" if provider == "openai" else "tool_use",
            ),
            "gen_ai.usage.input_tokens": 11,
            "gen_ai.usage.output_tokens": 7,
        }.items()
    )
    assert (
        whole.items()
        >= {
            **common,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "test",
            "gen_ai.usage.input_tokens": 22,
            "gen_ai.usage.output_tokens": 14,
        }.items()
    )
    calls = recorded.ours("execute_tool ")
    assert {span.name for span in calls} == {"execute_tool add", "execute_tool own"}
    assert {attributes(span)["gen_ai.tool.type"] for span in calls} == {"extension", "function"}
    ids = {call.id for message in result.trace_messages for call in message.tool_calls}
    assert {attributes(span)["gen_ai.tool.call.id"] for span in calls} == ids
    contexts = [span.get_span_context() for span in (run, *calls, *chats)]
    assert len({context and context.trace_id for context in contexts}) == 1
    # Neither questions nor answers, arguments or results, unless that is allowed.
    written = json.dumps([attributes(span) for span in recorded.ours()], default=str)
    assert not any(secret in written for secret in ("secret 20", "It is 42", "I add", KEY))
    values = [value for span in recorded.ours() for value in attributes(span).values()]
    assert "42" not in values
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in recorded.points("gen_ai.client.token.usage")
        if point.attributes["gen_ai.request.model"] == name
    }
    assert set(tokens) == {"input", "output"}
    assert tokens["input"] >= 22
    assert recorded.points("gen_ai.invoke_agent.duration")


async def test_messages_and_results_are_recorded_if_that_is_allowed(
    recorded: Recorded, anthropic: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    anthropic.play(SCRIPT)
    config = model_of(anthropic, interface="claude_tool", model_provider=None)

    await get_agent(config).arun(ASK, [own], toys())

    spans = recorded.spans()
    run = attributes(spans["invoke_agent test"])
    (asked,) = json.loads(run["gen_ai.input.messages"])
    assert asked == {"role": "user", "parts": [{"type": "text", "content": ASK[0].text}]}
    assert json.loads(run["gen_ai.output.messages"])[0]["parts"][0]["content"] == "It is 42."
    assert attributes(spans["execute_tool add"])["gen_ai.tool.call.result"] == "42"


@pytest.mark.parametrize("engine", ["langchain", "claude_tool"])
async def test_a_request_that_is_repeated_is_a_failed_span_and_an_event(
    engine: str, model: tuple[ModelConfig, Any], recorded: Recorded
) -> None:
    config, api = model
    api.play([Refuse(status=529, retry_after="0"), "done"])

    await get_agent(config.model_copy(update={"max_retries": 1})).arun(ASK, None, {})

    chats = recorded.ours("chat ")
    assert [span.status.is_ok for span in chats] == [False, True]
    assert attributes(chats[0])["error.type"]
    (event,) = recorded.spans()["invoke_agent test"].events
    assert (event.name, dict(event.attributes or {})) == ("plait.model_retry", {"attempt": 2})


async def test_a_run_that_fails_ends_as_failed_with_what_it_used(
    recorded: Recorded, anthropic: AnthropicServer
) -> None:
    anthropic.play([SCRIPT[0], Cut()])
    config = model_of(anthropic, interface="claude_tool", model_provider=None)

    with pytest.raises(AgentExecutionError):
        await get_agent(config).arun(ASK, [own], toys())

    run = recorded.spans()["invoke_agent test"]
    assert not run.status.is_ok
    assert attributes(run)["error.type"] == "AgentExecutionError"
    assert attributes(run)["gen_ai.usage.input_tokens"] == 11


async def test_a_replayed_run_is_a_span_without_requests(recorded: Recorded) -> None:
    config = ModelConfig(id="test", interface="manual", manual_traces={"0" * 32: "It is 42."})

    await get_agent(config).arun(ASK, config=AgentConfig(question_hash="0" * 32))

    assert [span.name for span in recorded.ours()] == ["invoke_agent test"]


class Broken(SpanProcessor):
    """Raises wherever it is called."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise OSError("no start")

    def on_end(self, span: Any) -> None:
        raise OSError("no end")


@pytest.mark.parametrize("engine", ["claude_tool"])
async def test_a_processor_that_raises_ends_no_run_and_no_call(
    engine: str,
    model: tuple[ModelConfig, Any],
    recorded: Recorded,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config, api = model
    # The MCP SDK has spans of its own, which nothing protects: so only a tool of the program.
    api.play([Say("", calls=(Call("own", {"text": "x"}),)), "It is 42."])
    with caplog.at_level(logging.WARNING, "plait.telemetry"), recorded.processed_by(Broken()):
        result = await get_agent(config).arun(ASK, [own], {})

    assert result.final_response == "It is 42."
    assert result.trace_messages[1].tool_results[0].content == "x"
    assert "OpenTelemetry failed" in caplog.text
