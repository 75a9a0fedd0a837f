"""What a stand-in says without a script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.models.scripts import Call, Say
from plait.testing.llm.server import (
    Conversation,
    conversation_from_anthropic,
    conversation_from_openai,
    default_reply,
)


def _conversation(question: str, *, rounds: int = 0, results: tuple[str, ...] = ()) -> Conversation:
    tools = ("add", "mcp__calc__mul", "now")
    return Conversation(question=question, rounds=rounds, results=results, tools=tools)


def test_all_lines_that_call_are_one_turn() -> None:
    question = 'Please:\nCALL now {}\n  CALL add {"a": 1}  \nCALL now {"zone": "x"}\nthanks'

    calls = (Call("now"), Call("add", {"a": 1}), Call("now", {"zone": "x"}))
    assert default_reply(_conversation(question)) == Say(calls=calls)


def test_a_tool_of_a_server_is_found_by_its_own_name() -> None:
    assert default_reply(_conversation('CALL mul {"a": 2}')) == Say(
        calls=(Call("mcp__calc__mul", {"a": 2}),)
    )
    assert default_reply(_conversation("CALL mcp__calc__mul {}")) == Say(
        calls=(Call("mcp__calc__mul"),)
    )


@pytest.mark.parametrize("line", ["CALL unknown {}", "CALL add {bad}", "CALL add", "call add {}"])
def test_a_line_that_calls_no_tool_on_offer_is_a_text_like_any_other(line: str) -> None:
    assert default_reply(_conversation(line)) == Say(f"echo: {line}")


def test_later_calls_are_done_one_in_each_round_and_all_results_are_said_at_last() -> None:
    question = 'CALL add {"a": 1}\nCALL now {}\nTHEN CALL mul {"a": 2}\nTHEN CALL now {}'

    assert len(default_reply(_conversation(question)).calls) == 2
    assert default_reply(_conversation(question, rounds=1)).calls == (
        Call("mcp__calc__mul", {"a": 2}),
    )
    assert default_reply(_conversation(question, rounds=2)).calls == (Call("now"),)
    said = default_reply(_conversation(question, rounds=3, results=("1", "2", "3", "4")))
    assert said == Say("1; 2; 3; 4")


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
