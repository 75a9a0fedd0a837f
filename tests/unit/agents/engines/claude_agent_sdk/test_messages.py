"""Messages of the Claude Agent SDK, and the text that it takes."""

from __future__ import annotations

from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from plait import Message
from plait.agents import messages_from_sdk, sdk_messages_to_raw_trace
from plait.agents.engines.claude_agent_sdk.messages import query_from_messages
from plait.traces import Role, TextContent, ThinkingContent, ToolUseContent

SAID = [
    SystemMessage("init", {}),
    AssistantMessage([ThinkingBlock("Hm.", "sig")], "claude", message_id="m1"),
    AssistantMessage([TextBlock("Two calls.")], "claude", message_id="m1"),
    AssistantMessage([ToolUseBlock("a", "mcp__x__add", {"n": 1})], "claude", message_id="m1"),
    UserMessage([ToolResultBlock("a", [{"type": "text", "text": "1"}])]),
    UserMessage([ToolResultBlock("b", "<tool_use_error>No.</tool_use_error>", is_error=True)]),
    AssistantMessage([TextBlock("API Error")], "<synthetic>", message_id="m9", error="unknown"),
    AssistantMessage([TextBlock("Done.")], "claude", message_id="m2"),
    ResultMessage("success", 1, 1, False, 3, "s", result="Done."),
]


def test_the_blocks_of_an_answer_become_one_message() -> None:
    assert messages_from_sdk(SAID) == [
        Message(
            Role.ASSISTANT,
            [
                ThinkingContent("Hm.", "sig"),
                TextContent("Two calls."),
                ToolUseContent("a", "mcp__x__add", {"n": 1}),
            ],
        ),
        Message.tool_result("a", "1"),
        Message.tool_result("b", "No.", is_error=True),
        Message.assistant("Done."),
    ]


def test_answers_without_an_id_are_not_joined() -> None:
    said = [AssistantMessage([TextBlock(text)], "claude") for text in ("one", "two")]

    assert messages_from_sdk(said) == [Message.assistant("one"), Message.assistant("two")]


def test_what_the_user_said_is_kept() -> None:
    assert messages_from_sdk([UserMessage("Hi."), UserMessage([TextBlock("Go on.")])]) == [
        Message.user("Hi."),
        Message.user("Go on."),
    ]


def test_the_raw_trace_has_the_layout_of_all_engines() -> None:
    assert sdk_messages_to_raw_trace(SAID) == (
        "--- Thinking ---\nHm.\n\n"
        "--- AI Message ---\nTwo calls.\n\nTool Calls:\n"
        "  mcp__x__add (call_a)\n   Call ID: a\n   Args: {'n': 1}\n\n"
        "--- Tool Message (call_id: a) ---\n1\n\n"
        "--- Tool Message (call_id: b) ---\n[ERROR] No.\n\n"
        "--- AI Message ---\nDone."
    )


def test_questions_are_a_prompt_as_they_are() -> None:
    assert query_from_messages([Message.user("/a"), Message.user("@b")]) == "/a\n\n@b"


def test_what_was_said_before_is_a_transcript() -> None:
    call = ToolUseContent("c", "add", {"a": 1})
    before = [
        Message.user("Add."),
        Message.assistant("", [call]),
        Message.tool_result("c", "no", is_error=True),
    ]
    history = (
        "This is what was said before:\n\n--- Human Message ---\nAdd.\n\n"
        "--- AI Message ---\n\nTool Calls:\n  add (call_c)\n   Call ID: c\n   Args: {'a': 1}\n\n"
        "--- Tool Message (call_id: c) ---\n[ERROR] no\n\n--- Now ---\n"
    )

    assert query_from_messages([*before, Message.user("Again.")]) == f"{history}Again."
    assert query_from_messages(before) == f"{history}Go on from there."
