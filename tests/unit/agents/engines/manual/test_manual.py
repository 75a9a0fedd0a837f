"""The engine of recorded answers: from texts, messages and traces, and always the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.engines.manual.agent import ManualAgent, ManualTraces
from plait.agents.port import AgentPort, AgentResult, result_from_trace
from plait.agents.program_tools import StaticTool
from plait.agents.registry import get_agent
from plait.errors import ManualEngineError, ManualTraceError, ManualTraceNotFoundError
from plait.traces.events import TraceEvent
from plait.traces.file import TraceFile, read_trace
from plait.traces.messages.message import Message, ThinkingContent, ToolUseContent, UsageMetadata
from plait.traces.recorder import Recorder, hash_question

QUESTION = "What is 2 + 2?"
HASH = hash_question(QUESTION)
ASKED = [Message.user(QUESTION)]

LANGCHAIN = [
    SystemMessage("Be brief."),
    HumanMessage(QUESTION),
    AIMessage(
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I add."}],
        tool_calls=[{"id": "c1", "name": "add", "args": {"a": 2}}],
        usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
    ),
    ToolMessage(
        [
            {"type": "text", "text": "no"},
            {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"},
        ],
        tool_call_id="c1",
        status="error",
    ),
    AIMessage(
        "It is 4.",
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 3,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 4},
        },
    ),
]


def _agent(traces: object) -> ManualAgent:
    agent = get_agent(ModelConfig(interface="manual", manual_traces=traces))
    assert isinstance(agent, ManualAgent)
    return agent


def _ask(agent: AgentPort, question_hash: str = HASH) -> AgentResult:
    return agent.run(ASKED, config=AgentConfig(question_hash=question_hash))


def _recorded(path: Path) -> AgentResult:
    """Record a run as an engine would, and return what it would have returned."""
    file = TraceFile(path)
    recorder = Recorder(file)
    recorder.run_started(ASKED, interface="langchain", model="m", task_id="sums/1")
    call = ToolUseContent("c1", "add", {"a": 2, "b": 2.0})
    recorder.turn(Message.assistant("I add.", [call]), usage=UsageMetadata(5, 2, 7))
    recorder.tool_called("c1", "add", call.input, server="calc", tool="add")
    recorder.tool_returned("c1", "4")
    recorder.turn(Message.assistant("It is 4. ✓"), model="m-2", usage=UsageMetadata(9, 3, 12))
    trace = recorder.ended(session_id="s-1")
    file.close()
    return result_from_trace(trace)


def test_a_text_is_given_back_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(json.dumps({HASH: "It is 4."}))

    assert _ask(_agent(file)) == AgentResult(
        final_response="It is 4.",
        raw_trace="It is 4.",
        trace_messages=[],
        usage=UsageMetadata(model="manual"),
        turns=1,
        limit_reached=False,
        actual_model="manual",
    )


def test_a_recorded_run_is_found_by_each_of_its_names_and_always_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    original = _recorded(path)
    agent = _agent(str(path))

    assert (original.final_response, original.session_id) == ("It is 4. ✓", "s-1")
    for task in ("sums/1", read_trace(path).run):
        assert agent.run(ASKED, config=AgentConfig(extra={"task_id": task})) == original
    _ask(agent).trace_messages.clear()  # callers cannot change a recording
    assert all(_ask(agent) == original for _ in range(100))


@pytest.mark.parametrize("given", [LANGCHAIN, messages_to_dict(LANGCHAIN)])
def test_messages_of_langchain_become_a_result(given: list[Any]) -> None:
    traces = ManualTraces()
    traces.register_trace(QUESTION, given, map_to_id=True)

    result = _ask(_agent(traces))

    assert result.final_response == "It is 4."
    assert result.turns == 2
    assert result.usage == UsageMetadata(14, 5, 19, cache_read_tokens=4, model="manual")
    assert result.trace_messages[0].content[0] == ThinkingContent("hm")
    assert result.trace_messages[0].tool_calls == [ToolUseContent("c1", "add", {"a": 2})]
    assert result.raw_trace == (
        "--- Thinking ---\nhm\n\n"
        "--- AI Message ---\nI add.\n\nTool Calls:\n  add (call_c1)\n   Call ID: c1\n"
        "   Args: {'a': 2}\n\n"
        "--- Tool Message (call_id: c1) ---\n[ERROR] no\n[image: image/png, 5 B]\n\n"
        "--- AI Message ---\nIt is 4."
    )


def test_our_own_messages_become_a_result_too() -> None:
    messages = [Message.user(QUESTION), Message.assistant("It is 4.")]
    traces = ManualTraces()
    traces.register_traces({HASH: messages, "task": [one.to_dict() for one in messages]})

    assert traces.find(HASH) == traces.find("task")
    assert len(traces) == 2


@pytest.mark.parametrize(
    "source",
    [
        {HASH: ""},
        {HASH: []},
        {HASH: 3},
        {HASH: [{"type": "robot", "content": ""}]},
        {"not-a-hash": "x"},
        3,
        "[]",
        "{",
        '{"x": "y"}',
    ],
)
def test_recordings_that_cannot_be_used_are_refused(tmp_path: Path, source: object) -> None:
    if isinstance(source, str):
        (tmp_path / "traces.json").write_text(source)
        source = tmp_path / "traces.json"

    with pytest.raises(ManualTraceError):
        _agent(source)


def test_a_question_that_nobody_recorded_is_an_error() -> None:
    with pytest.raises(ManualTraceNotFoundError) as failed:
        _ask(_agent({HASH: "x"}), "f" * 32)

    assert (failed.value.question_hash, failed.value.loaded_count) == ("f" * 32, 1)


def test_servers_tools_and_questions_without_a_hash_are_refused() -> None:
    agent = _agent({HASH: "x"})
    config = AgentConfig(question_hash=HASH)

    with pytest.raises(ManualEngineError, match="MCP tools are not supported") as failed:
        agent.run(ASKED, None, {"a": {"command": "x"}}, config)
    assert failed.value.operation == "mcp_servers"
    with pytest.raises(ManualEngineError):
        agent.run(ASKED, [StaticTool("t")], None, config)
    with pytest.raises(ManualEngineError, match="question_hash"):
        agent.run(ASKED)


def test_a_replay_leaves_a_trace_that_replays_to_the_same(tmp_path: Path) -> None:
    original = _recorded(tmp_path / "run.jsonl")
    heard: list[TraceEvent] = []

    _agent(tmp_path / "run.jsonl").run(
        ASKED,
        config=AgentConfig(
            question_hash=HASH, trace=tmp_path / "again.jsonl", on_event=heard.append
        ),
    )

    again = read_trace(tmp_path / "again.jsonl")
    assert result_from_trace(again) == original
    assert again.events == tuple(heard)
