"""What a stand-in says without a script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.models.scripts import Call, Say
from plait.testing.llm.model_server import (
    Conversation,
    conversation_from_anthropic,
    conversation_from_openai,
    default_reply,
)

MUL = Call("mcp__calc__mul", {"a": 2})
STEPS = 'CALL add {"a": 1}\nCALL now {}\nTHEN CALL mul {"a": 2}\nTHEN CALL now {}'


@pytest.mark.parametrize(
    ("question", "rounds", "reply"),
    [
        (
            'Please:\nCALL now {}\n  CALL add {"a": 1}  \nCALL now {"zone": "x"}\nthanks',
            0,
            Say(calls=(Call("now"), Call("add", {"a": 1}), Call("now", {"zone": "x"}))),
        ),
        ('CALL mul {"a": 2}', 0, Say(calls=(MUL,))),
        ('CALL mcp__calc__mul {"a": 2}', 0, Say(calls=(MUL,))),
        *((line, 0, Say(f"echo: {line}")) for line in ("CALL unknown {}", "CALL add {bad}")),
        *((line, 0, Say(f"echo: {line}")) for line in ("CALL add", "call add {}")),
        (STEPS, 0, Say(calls=(Call("add", {"a": 1}), Call("now")))),
        (STEPS, 1, Say(calls=(MUL,))),
        (STEPS, 2, Say(calls=(Call("now"),))),
        (STEPS, 3, Say("1; 2; 3; 4")),
    ],
)
def test_lines_that_call_a_tool_are_called_and_the_results_said_at_last(
    question: str, rounds: int, reply: Say
) -> None:
    tools = ("add", "mcp__calc__mul", "now")
    results = ("1", "2", "3", "4") if rounds == 3 else ()
    asked = Conversation(question=question, rounds=rounds, results=results, tools=tools)
    assert default_reply(asked) == reply


def _call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}}


def _result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def test_only_what_follows_the_last_text_of_the_user_counts_for_anthropic() -> None:
    picture = {"type": "image", "source": {}}
    text = {"type": "text", "text": "seven"}
    messages = [
        {"role": "user", "content": "CALL add {}"},
        {"role": "assistant", "content": [_call("1")]},
        {"role": "user", "content": [_result("1", "old")]},
        {"role": "assistant", "content": "old"},
        {"role": "system", "content": "a reminder"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, text]},
        {"role": "assistant", "content": [_call("2"), _call("3"), _call("4")]},
        {
            "role": "user",
            "content": [
                _result("2", [text, picture]),
                _result("3", "bad", is_error=True),
                _result("4", None),
                {"type": "text", "text": "<system-reminder>"},
            ],
        },
        {"role": "system", "content": "another"},
    ]

    conversation = conversation_from_anthropic({"messages": messages, "tools": [{"name": "add"}]})

    assert conversation == Conversation(
        question="one\nseven",
        rounds=1,
        results=["seven\n<image>", "ERROR: bad", ""],
        tools=["add"],
    )


def test_only_what_follows_the_last_text_of_the_user_counts_for_openai() -> None:
    def calls(*ids: str) -> dict[str, Any]:
        made = [{"id": one, "function": {"name": "add", "arguments": "{}"}} for one in ids]
        return {"role": "assistant", "content": None, "tool_calls": made}

    parts = [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [
        {"role": "user", "content": "first"},
        calls("1"),
        {"role": "tool", "tool_call_id": "1", "content": "old"},
        {"role": "user", "content": [{"type": "text", "text": "second"}]},
        calls("2"),
        {"role": "tool", "tool_call_id": "2", "content": "one"},
        calls("3"),
        {"role": "tool", "tool_call_id": "3", "content": parts},
    ]
    tools = [{"type": "function", "function": {"name": "add"}}]

    conversation = conversation_from_openai(
        json.loads(json.dumps({"messages": messages, "tools": tools}))
    )

    assert conversation == Conversation(
        question="second", rounds=2, results=["one", "two\n<image>"], tools=["add"]
    )
