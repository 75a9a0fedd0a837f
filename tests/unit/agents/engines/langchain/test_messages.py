"""Messages go to LangChain and back as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from plait import Message
from plait.agents import messages_from_langchain, messages_to_langchain
from plait.agents.engines.langchain.messages import usage_from_langchain
from plait.traces import TextContent, ThinkingContent, ToolUseContent, UsageMetadata
from plait.traces.messages.message import Role


def test_every_kind_of_message_has_its_counterpart() -> None:
    call = ToolUseContent("c1", "add", {"a": 1})
    messages = [
        Message.system("Be brief."),
        Message.user("Hi"),
        Message(Role.ASSISTANT, [ThinkingContent("hm", "seal"), TextContent("I add."), call]),
        Message.tool_result("c1", "no", is_error=True),
        Message.assistant("Done."),
    ]

    made = messages_to_langchain(messages)

    assert made == [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "seal"},
                {"type": "text", "text": "I add."},
            ],
            tool_calls=[{"id": "c1", "name": "add", "args": {"a": 1}, "type": "tool_call"}],
        ),
        ToolMessage("no", tool_call_id="c1", name="add", status="error"),
        AIMessage("Done."),
    ]
    assert messages_from_langchain(made) == messages


def test_a_thought_without_a_seal_does_not_go_back() -> None:
    (made,) = messages_to_langchain([Message(Role.ASSISTANT, [ThinkingContent("hm")])])

    assert made == AIMessage("")


texts = st.text(min_size=1)
calls = st.builds(
    ToolUseContent, texts, texts, st.dictionaries(st.text(), st.integers() | st.text())
)
said = st.lists(st.builds(TextContent, texts) | st.builds(ThinkingContent, texts, texts))
assistants = st.builds(
    lambda blocks, wished: Message(Role.ASSISTANT, [*blocks, *wished]), said, st.lists(calls)
)
results = st.builds(Message.tool_result, texts, texts, st.booleans())


@given(st.lists(assistants | results | st.builds(Message.user, texts)))
def test_what_goes_to_langchain_comes_back(messages: list[Message]) -> None:
    assert messages_from_langchain(messages_to_langchain(messages)) == messages


def answer(provider: str | None, **details: Any) -> AIMessage:
    return AIMessage(
        "Hi",
        response_metadata={"model_name": "m-1"}
        | ({"model_provider": provider} if provider else {}),
        usage_metadata={
            "input_tokens": 100,
            "output_tokens": 5,
            "total_tokens": 105,
            "input_token_details": details,  # pyright: ignore[reportArgumentType]
        },
    )


@pytest.mark.parametrize(
    ("message", "input_tokens", "cache"),
    [
        (answer("openai", cache_read=30), 100, (30, None)),
        (answer(None), 100, (None, None)),
        (answer("anthropic"), 100, (None, None)),
        (answer("anthropic", cache_read=30, cache_creation=20), 50, (30, 20)),
        (
            answer(
                "anthropic",
                cache_read=30,
                cache_creation=0,
                ephemeral_5m_input_tokens=4,
                ephemeral_1h_input_tokens=6,
            ),
            60,
            (30, 10),
        ),
    ],
)
def test_usage_is_as_the_provider_counts(
    message: AIMessage, input_tokens: int, cache: tuple[int | None, int | None]
) -> None:
    usage = usage_from_langchain(message)

    assert usage == UsageMetadata(input_tokens, 5, input_tokens + 5, None, *cache, model="m-1")


def test_an_answer_without_usage_has_none() -> None:
    assert usage_from_langchain(AIMessage("Hi")) is None
    back = messages_from_langchain([AIMessage("Hi")])
    assert back == [replace(Message.assistant("Hi"), usage_metadata=None)]
