"""Chat history goes back to the gateway: from every source, in every case of the matrix."""

from __future__ import annotations

import json
import logging
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from plait import ConfigError
from plait.errors import ChatHistoryError
from plait.gateway import ChatHistoryMessage, GatewayRequestOptions, McpToolRegistrationService
from plait.langchain import create_agent
from plait.testing import MockGateway, ScriptedChatModel, free_port
from tests.integration.gateway.conftest import MakeGateway
from tests.integration.gateway.hosting import turn

pytestmark = pytest.mark.anyio

MESSAGES = [
    SystemMessage("Be kind.", id="1"),
    HumanMessage("Hello", id="2"),
    AIMessage([{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}], id="3"),
    ToolMessage("42", tool_call_id="call", id="4"),
]
WIRE = [
    ("1", "system", "Be kind."),
    ("2", "user", "Hello"),
    ("3", "assistant", "Hi there"),
    ("4", "tool", "42"),
]


def service(gateway: MockGateway, **options: Any) -> McpToolRegistrationService:
    return McpToolRegistrationService(endpoint=gateway.url, environ={}, **options)


def sent(gateway: MockGateway) -> list[tuple[str, str, str]]:
    (body,) = gateway.histories()
    return [(one["id"], one["role"], one["content"]) for one in body["chatHistory"]]


def snapshot_of(values: Any) -> StateSnapshot:
    return StateSnapshot(values, (), {}, None, None, None, (), ())


async def test_the_request_is_the_one_the_gateway_takes_byte_for_byte(
    gateway: MockGateway,
) -> None:
    moment = datetime(2026, 1, 28, 12, 30, 15, 250000, tzinfo=UTC)
    message = ChatHistoryMessage(id="1", role="user", content="Grüße", timestamp=moment)
    sending = service(gateway)

    options = GatewayRequestOptions(orchestrator_name="LangChain")
    result = await sending.configuration.send_chat_history(turn(), [message], options)

    assert result.succeeded
    (request,) = gateway.requests("history")
    assert (request.method, request.path) == (
        "POST",
        "/agents/real-time-threat-protection/chat-message",
    )
    expected = (
        '{"conversationId":"conversation-1","messageId":"message-1","userMessage":"What is new?",'
        '"chatHistory":[{"id":"1","role":"user","content":"Grüße",'
        '"timestamp":"2026-01-28T12:30:15.250Z"}]}'
    )
    assert request.body == expected.encode()
    assert "authorization" not in request.headers
    said = {name: request.headers[name] for name in request.headers if name.startswith("x-ms")}
    assert said == {"x-ms-channel-id": "msteams", "x-ms-subchannel-id": "email"}
    assert request.headers["content-type"] == "application/json"
    system, version = platform.system(), platform.python_version()
    assert (
        request.headers["user-agent"]
        == f"Agent365SDK/2.0.0 ({system}; Python {version}; LangChain)"
    )


async def test_a_strict_gateway_hears_tools_as_the_assistant(gateway: MockGateway) -> None:
    await service(gateway, roles="strict").send_chat_history_from_messages(turn(), MESSAGES)

    assert sent(gateway) == [*WIRE[:3], ("4", "assistant", "42")]


async def test_the_state_of_a_graph_is_sent(gateway: MockGateway) -> None:
    agent = create_agent(ScriptedChatModel(["Hi."]), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke({"messages": [HumanMessage("Hello", id="1")]}, config)

    result = await service(gateway).send_chat_history(turn(), agent, config)

    assert result.succeeded
    assert [one[1:] for one in sent(gateway)] == [("user", "Hello"), ("assistant", "Hi.")]


class OldGraph:
    """A graph that knows no async."""

    def get_state(self, config: Any) -> StateSnapshot:
        assert config == {"configurable": {}}
        return snapshot_of({"messages": MESSAGES})


class Store(BaseChatMessageHistory):
    """A store of messages."""

    def __init__(self) -> None:
        self.messages = list(MESSAGES)

    def clear(self) -> None:
        self.messages = []


@pytest.mark.parametrize(
    ("limit", "limit_from", "kept"),
    [
        (None, "end", WIRE),
        (2, "end", WIRE[2:]),
        (2, "start", WIRE[:2]),
        (-1, "end", WIRE),
        (0, "end", []),
    ],
)
async def test_every_source_is_sent_up_to_a_limit(
    gateway: MockGateway, limit: int | None, limit_from: Any, kept: list[Any]
) -> None:
    sending = service(gateway)
    context = turn()
    config: Any = {"configurable": {}}
    state = snapshot_of({"messages": MESSAGES})
    options: Any = {"limit": limit, "limit_from": limit_from}
    for sends in (
        sending.send_chat_history(context, OldGraph(), config, **options),
        sending.send_chat_history_from_state(context, state, **options),
        sending.send_chat_history_from_chat_history(context, Store(), **options),
        sending.send_chat_history_from_messages(context, MESSAGES, **options),
    ):
        assert (await sends).succeeded
        assert sent(gateway) == kept
        gateway.clear()


async def test_the_name_of_the_framework_can_be_given(gateway: MockGateway) -> None:
    options = GatewayRequestOptions(orchestrator_name="Mine")
    await service(gateway).send_chat_history_from_messages(turn(), [], tool_options=options)

    assert gateway.requests("history")[0].headers["user-agent"].endswith("; Mine)")


def _blank(**changes: Any) -> Any:
    return lambda sending, _: sending.send_chat_history_from_messages(turn(**changes), [])


CONFIG: Any = {"configurable": {}}
NOT_FOUND = "is required but not found in turn context"
NO_MESSAGES = "state_snapshot must contain messages"


@pytest.mark.parametrize(
    ("send", "text"),
    [
        (lambda s, _: s.send_chat_history(None, OldGraph(), CONFIG), "turn_context"),
        (lambda s, c: s.send_chat_history(c, None, CONFIG), "graph"),
        (lambda s, c: s.send_chat_history(c, OldGraph(), None), "config"),
        (lambda s, _: s.send_chat_history_from_state(None, snapshot_of({})), "turn_context"),
        (lambda s, c: s.send_chat_history_from_state(c, None), "state_snapshot"),
        (lambda s, c: s.send_chat_history_from_state(c, snapshot_of({})), NO_MESSAGES),
        (
            lambda s, c: s.send_chat_history_from_state(c, snapshot_of({"messages": ""})),
            NO_MESSAGES,
        ),
        (lambda s, _: s.send_chat_history_from_chat_history(None, []), "turn_context"),
        (lambda s, c: s.send_chat_history_from_chat_history(c, None), "chat_history"),
        (lambda s, _: s.send_chat_history_from_messages(None, []), "turn_context"),
        (lambda s, c: s.send_chat_history_from_messages(c, None), "messages"),
        (lambda s, _: s.configuration.send_chat_history(None, []), "turn_context"),
        (lambda s, c: s.configuration.send_chat_history(c, None), "chat_history_messages"),
        (_blank(conversation={"id": " "}), f"Conversation ID {NOT_FOUND}"),
        (_blank(id=" "), f"Message ID {NOT_FOUND}"),
        (_blank(text=""), f"User message {NOT_FOUND}"),
    ],
)
async def test_whatever_is_missing_is_raised_at_once(
    gateway: MockGateway, send: Any, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await send(service(gateway), turn())

    assert caught.value.message == (text if " " in text else f"{text} is required")
    assert gateway.requests() == []


class Broken(HumanMessage):
    @property
    def text(self) -> Any:
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([MESSAGES[0], Broken(content="x"), MESSAGES[1]], WIRE[:2]),
        ([Broken(content="x"), AIMessage("")], []),
    ],
    ids=["others are sent", "an empty list is sent"],
)
async def test_a_message_that_cannot_be_read_is_skipped_with_a_warning(
    gateway: MockGateway, caplog: pytest.LogCaptureFixture, messages: Any, expected: list[Any]
) -> None:
    caplog.set_level(logging.WARNING)
    assert (await service(gateway).send_chat_history_from_messages(turn(), messages)).succeeded

    assert sent(gateway) == expected
    assert "cannot be read" in caplog.text


async def test_sources_that_fail_are_a_failed_result(gateway: MockGateway) -> None:
    class BrokenGraph:
        async def aget_state(self, config: Any) -> StateSnapshot:
            raise OSError("no database")

    class BrokenHistory(Store):
        async def aget_messages(self) -> Any:
            raise OSError("no store")

    sending: Any = service(gateway)
    state = await sending.send_chat_history(turn(), BrokenGraph(), {})
    store = await sending.send_chat_history_from_chat_history(turn(), BrokenHistory())

    assert (str(state), str(store)) == ("Failed: no database", "Failed: no store")
    assert isinstance(state.errors[0].exception, OSError)
    assert gateway.requests() == []


@pytest.mark.parametrize("status", [400, 401, 503])
async def test_an_http_error_is_a_failed_result(make_gateway: MakeGateway, status: int) -> None:
    gateway = make_gateway(fail=[f"history={status}"])

    result = await service(gateway).send_chat_history_from_messages(turn(), MESSAGES)

    (error,) = result.errors
    assert isinstance(error.exception, ChatHistoryError)
    assert error.exception.status == status
    assert f"HTTP {status}" in error.message
    assert error.exception.url is not None
    assert len(gateway.requests("history")) == 1


@pytest.mark.parametrize("status", [201, 204])
async def test_every_status_of_success_is_one(make_gateway: MakeGateway, status: int) -> None:
    gateway = make_gateway(fail=[f"history={status}"])

    assert (await service(gateway).send_chat_history_from_messages(turn(), [])).succeeded


async def test_an_answer_that_does_not_come_is_a_failed_result(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(fail=["history=slow:20"])

    sending = service(gateway, timeout_seconds=0.2)
    result = await sending.send_chat_history_from_messages(turn(), MESSAGES)

    assert not result.succeeded
    assert "no answer in 0.2 s" in result.errors[0].message


async def test_a_gateway_that_is_not_there_is_a_failed_result() -> None:
    sending = McpToolRegistrationService(endpoint=f"http://127.0.0.1:{free_port()}", environ={})

    result = await sending.send_chat_history_from_messages(turn(), MESSAGES)

    assert "ConnectError" in result.errors[0].message


@pytest.mark.parametrize("outbox", [False, True])
async def test_nothing_is_sent_over_plain_http_to_another_machine(
    outbox: bool, tmp_path: Path
) -> None:
    options: Any = {"outbox": tmp_path / "outbox.db"} if outbox else {}
    sending = McpToolRegistrationService(endpoint="http://gateway.example", environ={}, **options)

    result = await sending.send_chat_history_from_messages(turn(), MESSAGES)
    await sending.aclose()

    assert not result.succeeded
    assert "plain HTTP to another machine: http://gateway.example" in result.errors[0].message
    assert not (tmp_path / "outbox.db").exists()


async def test_what_is_no_message_is_a_failed_result(gateway: MockGateway) -> None:
    items: Any = [{"role": "user", "content": "Hello"}, 7]
    result = await service(gateway).send_chat_history_from_messages(turn(), items)

    assert "message 2 is no message" in result.errors[0].message
    assert gateway.histories() == []


async def test_redaction_comes_before_sending(gateway: MockGateway) -> None:
    sending = service(gateway, redact=True)
    message = HumanMessage("my key is sk-abcdefghijklmnop1234")

    await sending.send_chat_history_from_messages(turn(text="password=correcthorse"), [message])

    body = json.dumps(gateway.histories())
    assert "sk-abcdef" not in body
    assert "correcthorse" not in body


async def test_a_hook_that_fails_sends_nothing(gateway: MockGateway) -> None:
    def broken(text: str) -> str:
        raise LookupError("no rule")

    sending = service(gateway, redact=broken)
    result = await sending.send_chat_history_from_messages(turn(), MESSAGES)

    assert isinstance(result.errors[0].exception, LookupError)
    assert gateway.requests() == []
