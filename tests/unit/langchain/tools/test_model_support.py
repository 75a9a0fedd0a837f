"""What chat models can take."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from plait.langchain.tools.model_support import profile_of, readable_by

IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
AUDIO = {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"}
FILE = {"type": "file", "url": "https://example.com/a.pdf", "mime_type": "application/pdf"}
TEXT = {"type": "text", "text": "hi"}


class ChatOpenAI(FakeListChatModel): ...


class ChatAnthropic(FakeListChatModel): ...


class ChatGoogleGenerativeAI(FakeListChatModel): ...


class ChatBedrock(FakeListChatModel): ...


class ChatSomething(FakeListChatModel): ...


@pytest.mark.parametrize(
    ("kind", "profile"),
    [
        (ChatOpenAI, "openai"),
        (ChatAnthropic, "anthropic"),
        (ChatGoogleGenerativeAI, "gemini"),
        (ChatBedrock, "anthropic"),
        (ChatSomething, None),
    ],
)
def test_a_model_is_known_by_its_provider(kind: Any, profile: str | None) -> None:
    model = kind(responses=["hi"])

    assert profile_of(model) == profile
    assert profile_of(model.bind(stop=["x"])) == profile


def message(*blocks: Any) -> ToolMessage:
    return ToolMessage(content=list(blocks), tool_call_id="1", artifact={"kept": True})


def test_of_a_model_that_says_nothing_everything_is_left() -> None:
    messages: list[AnyMessage] = [message(IMAGE, AUDIO, FILE)]

    assert readable_by(ChatSomething(responses=["hi"]), messages) == messages


def test_what_a_model_denies_becomes_a_line() -> None:
    model = ChatSomething(
        responses=["hi"],
        profile={"image_inputs": True, "audio_inputs": False, "pdf_inputs": False},
    )
    before = message(TEXT, IMAGE, AUDIO, FILE)

    (after,) = readable_by(model, [before])

    assert after.content == [
        TEXT,
        IMAGE,
        {"type": "text", "text": "[audio/wav that this model cannot take]"},
        {
            "type": "text",
            "text": ("[application/pdf that this model cannot take: https://example.com/a.pdf]"),
        },
    ]
    assert isinstance(after, ToolMessage)
    assert after.artifact == {"kept": True}
    assert before.content == [TEXT, IMAGE, AUDIO, FILE]


def test_images_may_be_denied_for_tool_messages_alone() -> None:
    model = ChatSomething(
        responses=["hi"], profile={"image_inputs": True, "image_tool_message": False}
    )

    (after,) = readable_by(model, [message(IMAGE)])

    assert after.content == [
        {"type": "text", "text": "[image/png that this model cannot take]"},
    ]


def test_messages_of_people_and_plain_texts_are_left() -> None:
    model = ChatSomething(responses=["hi"], profile={"image_inputs": False})
    messages: list[AnyMessage] = [
        HumanMessage(content=[IMAGE]),
        ToolMessage(content="plain", tool_call_id="1"),
    ]

    after = readable_by(model, messages)

    assert all(new is old for new, old in zip(after, messages, strict=True))
