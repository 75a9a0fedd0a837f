"""Checks that need no judge: what passes, and what they say otherwise."""

from __future__ import annotations

import re
from typing import Any

import pytest

from plait.traces.messages.message import Message, ToolUseContent, UsageMetadata
from plait.traces.recorder import Recorder
from plait.verification.checks import Evidence, check_problem, run_check

pytestmark = pytest.mark.anyio

ANSWER = 'It is 42:\n```json\n{"sums": [{"total": 42}], "tags": ["a"]}\n```'


def evidence(answer: str = ANSWER) -> Evidence:
    """Return a run that added, asked a tool that failed, and one that was denied."""
    recorder = Recorder(run="r")
    recorder.run_started([Message.user("?")], interface="langchain")
    for call_id, name, server, result, is_error in (
        ("1", "add", "sums", "42", False),
        ("2", "find", "files", "no such file", True),
        ("3", "pay", "bank", "The call is denied. It was not sent.", True),
        ("4", "guess", None, "there is no such tool", True),
    ):
        call = ToolUseContent(call_id, name, {"a": 20, "deep": {"b": [1], "c": 2}})
        recorder.turn(Message.assistant("", [call]), usage=UsageMetadata(10, 5, 15))
        recorder.tool_called(call_id, name, call.input, server=server, tool=server and name)
        recorder.tool_returned(call_id, result, is_error=is_error)
    recorder.tool_called("5", "hang", {}, server="sums", tool="hang")
    recorder.turn(Message.assistant(answer))

    async def call_tool(server: str, tool: str, arguments: Any) -> str:
        return '{"notes": ["milk"]}' if tool == "list" else "plain"

    return Evidence(
        answer=answer,
        trace=recorder.ended(),
        seconds=2.5,
        call_tool=call_tool,
        seen_before=lambda *_: None if _[1] == "new" else "plain",
    )


def noted(evidence: Evidence, **wanted: Any) -> Any:
    return wanted.get("found", evidence.seconds > 2)


def world(tool: str = "list", **wanted: Any) -> dict[str, Any]:
    return {"world": {"server": "notes", "tool": tool, **wanted}}


def python(**wanted: Any) -> dict[str, Any]:
    return {
        "python": {"call": f"{__name__}:noted", "with": {"found": wanted.pop("found")}, **wanted}
    }


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"equals": f" {ANSWER}\n"}, None),
        ({"equals": "42"}, "the answer is 'It is 42"),
        ({"contains": ["it IS", "42"]}, None),
        ({"contains": ["42", "43"]}, "'43' is not in 'It is"),
        ({"not_contains": "43"}, None),
        ({"not_contains": ["43", "42"]}, "'42' is in the answer"),
        ({"matches": r"\d+:"}, None),
        ({"matches": "x{3}"}, "no match in"),
        ({"json": {"path": "$.sums[0].total", "equals": 42}}, None),
        ({"json": {"path": "sums[-1].total", "equals": 43}}, "sums[-1].total is '42'"),
        ({"json": {"path": "$.tags", "contains": "b"}}, "is '[\"a\"]'"),
        ({"json": {"path": "$.sums.total"}}, "there is nothing at $.sums.total"),
        ({"tool_called": "sums/add"}, None),
        ({"tool_called": {"name": "add", "arguments": {"deep": {"c": 2}}, "times": 1}}, None),
        (
            {"tool_called": {"name": "add", "result_contains": "42", "at_most": 0}},
            "was called 1 times",
        ),
        ({"tool_called": {"name": "add", "arguments": {"deep": {"c": 3}}}}, "was called 0 times"),
        ({"tool_called": {"name": "add", "result_contains": "43"}}, "\"c\": 2}}') → '42', find("),
        ({"tool_called": "mul"}, "→ error 'no such file', pay("),
        ({"tool_called": "mul"}, "hang('{}') → no result"),
        ({"tool_called": {"name": "mul", "at_most": 2}}, None),
        ({"tool_not_called": "mul"}, None),
        ({"tool_not_called": ["mul", "add"]}, "add was called"),
        ({"tools_in_order": ["add", "pay"]}, None),
        ({"tools_in_order": ["pay", "add"]}, "add did not come in its turn; the calls: add, find"),
        ({"no_tool_errors": True}, "find failed: 'no such file'"),
        ({"no_denied_tool": True}, "pay was denied"),
        ({"max_turns": 5}, None),
        ({"max_turns": 4}, "it took 5 turns"),
        ({"max_tokens": 59}, "it took 60 tokens"),
        ({"max_seconds": 2.4}, "it took 2.5 s"),
        ({"max_cost_usd": 1}, "the cost is not known"),
        (world(path="$.notes[0]", equals="milk"), None),
        (world("text", path="$.notes"), "the result is not JSON: 'plain'"),
        (world("text", equals="plain "), None),
        (world("text", equals="other"), "the result is 'plain'"),
        (world("text", contains="lai"), None),
        (world("text", contains="x"), "the result is 'plain'"),
        (world("text", matches="^p"), None),
        (world("text", matches="^q"), "the result is 'plain'"),
        (world("text", changed=False), None),
        (world("text", changed=True), "it is 'plain', and was 'plain'"),
        (world("new", changed=True), "there is no snapshot"),
        ({"python": f"{__name__}:noted"}, None),
        (python(found=None), None),
        (python(found=False), "noted returned False"),
        (python(found=["too", "few"]), "['too', 'few']"),
        ({"python": "no_module:f"}, "ModuleNotFoundError"),
        ({"unknown": 1}, "there is no check 'unknown'"),
    ],
)
async def test_a_check_passes_or_says_what_is_wrong(
    check: dict[str, Any], problem: str | None
) -> None:
    result = await run_check(check, evidence())
    assert result.passed is (problem is None), result.message
    assert (problem or "") in result.message


@pytest.mark.parametrize(
    ("found", "least", "passed"),
    [
        (0.5, {}, True),
        (0.49, {}, False),
        (0.7, {"at_least": 0.8}, False),
        (1, {"at_least": 1}, True),
    ],
)
async def test_a_score_passes_from_a_threshold_on(
    found: float, least: dict[str, float], passed: bool
) -> None:
    result = await run_check(python(found=found, **least), evidence())
    assert (result.passed, result.score) == (passed, found)
    assert re.fullmatch(r"score \d\.\d\d, and at least [\d.]+ passes", result.message)


async def test_a_number_outside_of_the_range_is_no_score() -> None:
    for number in (1.5, -0.1, float("nan")):
        result = await run_check(python(found=number), evidence())
        assert (result.passed, result.score) == (False, None)
        assert "is not from 0 to 1" in result.message


async def test_what_a_case_has_not_is_named() -> None:
    recorder = Recorder(run="r")
    recorder.tool_called("1", "guess", {})
    alone = Evidence(answer="It is 42.", trace=recorder.ended(), seconds=0)
    for check, problem in (
        ({"json": {}}, "the answer is not JSON"),
        (world(), "the case has no servers"),
        ({"no_denied_tool": True}, "guess is no tool of the case"),
        ({"no_tool_errors": True}, "guess has no result"),
    ):
        assert problem in (await run_check(check, alone)).message


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"contains": "a", "equals": "b"}, "an object with one key"),
        ({"contain": "a"}, "there is no check 'contain'.*contains"),
        ({"json": "$.a"}, "json takes an object, not"),
        ({"tools_in_order": "a"}, "takes a list"),
        ({"max_turns": "many"}, "takes a number"),
        ({"python": {"call": "a:b", "at_least": "high"}}, "at_least takes a number, not 'high'"),
        ({"max_turns": float("inf")}, "takes a number"),
        ({"matches": "("}, "not a regular expression"),
    ],
)
def test_a_check_that_is_written_wrongly_is_named(check: dict[str, Any], problem: str) -> None:
    assert re.search(problem, check_problem(check) or "")
    assert check_problem({"contains": "a"}) is None
