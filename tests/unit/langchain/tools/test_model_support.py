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


def model_called(name: str, **fields: Any) -> Any:
    kind: Any = type(name, (FakeListChatModel,), {})
    return kind(responses=["hi"], **fields)


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("ChatOpenAI", "openai"),
        ("ChatAnthropic", "anthropic"),
        ("ChatGoogleGenerativeAI", "gemini"),
        ("ChatBedrock", "anthropic"),
        ("ChatSomething", None),
    ],
)
def test_a_model_is_known_by_its_provider(name: str, profile: str | None) -> None:
    model = model_called(name)

    assert profile_of(model) == profile
    assert profile_of(model.bind(stop=["x"])) == profile


def message(*blocks: Any) -> ToolMessage:
    return ToolMessage(content=list(blocks), tool_call_id="1", artifact={"kept": True})


AUDIO_LINE = {"type": "text", "text": "[audio/wav that this model cannot take]"}
IMAGE_LINE = {"type": "text", "text": "[image/png that this model cannot take]"}
FILE_LINE = {
    "type": "text",
    "text": "[application/pdf that this model cannot take: https://example.com/a.pdf]",
}
ALL = [TEXT, IMAGE, AUDIO, FILE]


@pytest.mark.parametrize(
    ("profile", "shown"),
    [
        (None, ALL),
        (
            {"image_inputs": True, "audio_inputs": False, "pdf_inputs": False},
            [TEXT, IMAGE, AUDIO_LINE, FILE_LINE],
        ),
        ({"image_inputs": True, "image_tool_message": False}, [TEXT, IMAGE_LINE, AUDIO, FILE]),
    ],
)
def test_what_a_model_denies_becomes_a_line(profile: Any, shown: list[Any]) -> None:
    before = message(*ALL)
    others: list[AnyMessage] = [
        HumanMessage(content=[IMAGE]),
        ToolMessage(content="plain", tool_call_id="1"),
    ]

    after, *rest = readable_by(model_called("ChatSomething", profile=profile), [before, *others])

    assert after.content == shown
    assert isinstance(after, ToolMessage)
    assert after.artifact == {"kept": True}
    assert before.content == ALL
    assert all(new is old for new, old in zip(rest, others, strict=True))
