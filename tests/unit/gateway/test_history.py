"""Messages become chat history: who speaks, in which words, and which are kept; and results."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from inline_snapshot import snapshot
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from plait.errors import ConfigError
from plait.gateway import ChatHistoryMessage, OperationError, OperationResult
from plait.gateway.history import history_of
from plait.gateway.registration import history_from_messages, limited, role_of, text_of
from tests.unit.gateway.turns import turn

NOW = datetime(2026, 1, 28, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("message", "role", "strict"),
    [
        (HumanMessage("x"), "user", "user"),
        (AIMessage("x"), "assistant", "assistant"),
        (AIMessageChunk(content="x"), "assistant", "assistant"),
        (HumanMessageChunk(content="x"), "user", "user"),
        (SystemMessageChunk(content="x"), "system", "system"),
        (ToolMessageChunk(content="x", tool_call_id="1"), "tool", "assistant"),
        (ChatMessageChunk(content="x", role="moderator"), "moderator", "moderator"),
        (SystemMessage("x"), "system", "system"),
        (ToolMessage("x", tool_call_id="1"), "tool", "assistant"),
        (FunctionMessage(content="x", name="f"), "function", "assistant"),
        (ChatMessage(content="x", role="moderator"), "moderator", "moderator"),
        (ChatMessage(content="x", role=""), "user", "user"),
        (BaseMessage("x", type="something else"), "user", "user"),
        (RemoveMessage("1"), "user", "user"),
    ],
)
def test_every_kind_of_message_has_its_role(message: BaseMessage, role: str, strict: str) -> None:
    assert role_of(message) == role
    assert role_of(message, "strict") == strict


class Silent(HumanMessage):
    """A message whose own view of its text is empty."""

    @property
    def text(self) -> Any:
        return " "


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (HumanMessage("plain"), "plain"),
        (HumanMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
        (HumanMessage(["a", "b"]), "ab"),
        (Silent(content="content"), "content"),
        (Silent(content=[{"type": "text", "text": "a"}, {"type": "image"}, "b"]), "a b"),
        (Silent(content=[{"type": "image", "url": "x"}]), ""),
    ],
)
def test_the_text_is_the_messages_own_then_its_content_then_its_parts(
    message: BaseMessage, text: str
) -> None:
    assert text_of(message) == text


def test_a_message_without_an_id_gets_one_and_one_without_text_is_left_out() -> None:
    messages = [HumanMessage("a", id="mine"), AIMessage(""), HumanMessage("b")]

    first, second = history_from_messages(messages, NOW)

    assert first.id == "mine"
    assert uuid.UUID(second.id).version == 4


@pytest.mark.parametrize(
    ("limit", "newest", "oldest"),
    [
        (None, [0, 1, 2], [0, 1, 2]),
        (-1, [0, 1, 2], [0, 1, 2]),
        (0, [], []),
        (1, [2], [0]),
        (2, [1, 2], [0, 1]),
        (9, [0, 1, 2], [0, 1, 2]),
    ],
)
def test_a_limit_keeps_the_newest_or_the_oldest(
    limit: int | None, newest: list[int], oldest: list[int]
) -> None:
    messages = [HumanMessage(str(number)) for number in range(3)]

    for given in (messages, iter(messages)):
        assert [int(one.text) for one in limited(given, limit, "end")] == newest
    assert [int(one.text) for one in limited(iter(messages), limit, "start")] == oldest


@pytest.mark.parametrize(
    ("messages", "limit", "problem"),
    [
        ("hi", None, "messages takes a list of messages, not one str"),
        (HumanMessage("hi"), None, "not one HumanMessage"),
        ({"role": "user", "content": "hi"}, None, "not one dict"),
        (5, None, "not one int"),
        ([HumanMessage("hi")], "2", "limit takes a whole number, not '2'"),
        (iter([HumanMessage("hi")]), 1.5, r"not 1\.5"),
    ],
)
def test_what_is_no_list_or_no_limit_is_named(messages: Any, limit: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        limited(messages, limit, "end")


def test_the_body_is_what_the_gateway_takes_byte_for_byte() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=2)))
    message = ChatHistoryMessage(id="1", role="user", content='Grüße "☂"', timestamp=there)

    assert history_of(turn(), [message]).body().decode() == snapshot(
        '{"conversationId":"conversation-1","messageId":"message-1","userMessage":"What is new?",'
        '"chatHistory":[{"id":"1","role":"user","content":"Grüße \\"☂\\"",'
        '"timestamp":"2026-01-28T12:00:00.123Z"}]}'
    )


@pytest.mark.parametrize(
    ("contents", "part"),
    [([], b'"chatHistory":[]}'), (["a\ud800b"], b'"content":"a?b"')],
    ids=["an empty history has a body too", "half a character does not stop the rest"],
)
def test_every_history_has_a_body(contents: list[str], part: bytes) -> None:
    messages = [ChatHistoryMessage(id="1", role="u", content=x, timestamp=NOW) for x in contents]

    assert part in history_of(turn(), messages).body()


@pytest.mark.parametrize(
    "item", [{"role": "assistant", "content": "hello"}, ("ai", "hello"), AIMessage("hello")]
)
def test_what_langchain_reads_as_a_message_is_one(item: Any) -> None:
    (message,) = history_from_messages([item], NOW)

    assert (message.role, message.content) == ("assistant", "hello")


@pytest.mark.parametrize("item", [7, {"text": "hello"}, ("nobody", "knows", "this")])
def test_what_is_no_message_is_refused(item: Any) -> None:
    with pytest.raises(ConfigError, match="message 2 is no message"):
        history_from_messages([HumanMessage("x"), item], NOW)


def test_a_result_says_how_an_operation_ended() -> None:
    error = ValueError("broken")
    failed = OperationResult.failed(OperationError(error), OperationError(OSError("gone")))
    failed.errors.clear()  # a copy

    assert OperationResult.success() is OperationResult.success()
    assert OperationResult.success().errors == []
    assert not failed.succeeded
    assert (failed.errors[0].exception, failed.errors[0].message) == (error, "broken")
    results = (OperationResult.success(), failed, OperationResult.failed())
    assert [str(one) for one in results] == ["Succeeded", "Failed: broken, gone", "Failed"]
