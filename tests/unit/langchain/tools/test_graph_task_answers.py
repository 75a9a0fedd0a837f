"""Which answer belongs to which of the questions that were asked together."""

from __future__ import annotations

from typing import Any

import pytest

from plait.langchain.tools.graph_task import Kind, Question, answers_of, shown_value

YES = {"decision": "approve"}
NO = {"decision": "reject"}
EDIT = {"decision": "edit", "args": {"amount": 1}}
RETRY = {"action": "retry"}
SAID = {"responses": {"q": {"action": "accept"}}}


def question(kind: Kind, call_id: str | None = None) -> Question:
    value: dict[str, Any] = {"type": kind}
    if kind == "elicitation":
        value["requests"] = [{"key": "q"}]
    return Question(
        call=f"pay {call_id}", call_id=call_id, kind=kind, value=value, facts="", more=None
    )


TWO = [question("approval", "a"), question("approval", "b")]
MIXED = [question("approval", "a"), question("sign-in", "b"), question("elicitation", "c")]


@pytest.mark.parametrize(
    ("questions", "answer", "given"),
    [
        (TWO, {"a": YES, "b": NO}, [YES, NO]),
        (TWO, {"b": NO}, [None, NO]),
        (TWO, [YES, NO], [YES, NO]),
        (TWO, {"decisions": [YES, NO]}, [YES, NO]),
        (TWO, {"answers": [YES, NO]}, [YES, NO]),
        (TWO, [YES], [None, None]),
        (TWO, YES, [YES, YES]),
        (TWO, False, [False, False]),
        (TWO, EDIT, [None, None]),
        (TWO, "yes", [None, None]),
        (MIXED, {"a": YES, "b": RETRY, "c": SAID}, [YES, RETRY, SAID]),
        (MIXED, True, [None, True, None]),
        (MIXED, YES, [YES, None, None]),
        (MIXED, RETRY, [None, RETRY, None]),
        (MIXED, SAID, [None, None, SAID]),
        (MIXED, {"responses": {"another": {}}}, [None, None, None]),
        (TWO[:1], YES, [YES]),
        (TWO[:1], {"a": YES}, [YES]),
        (TWO[:1], "unclear", ["unclear"]),
        ([question("approval")], {None: YES}, [{None: YES}]),
    ],
)
def test_each_question_gets_its_answer_or_none(
    questions: list[Question], answer: Any, given: list[Any]
) -> None:
    assert answers_of(answer, questions) == given


def test_one_question_is_shown_as_it_is_and_several_as_a_list() -> None:
    assert shown_value(TWO[:1]) == {"type": "approval"}
    assert shown_value(TWO) == {
        "type": "mcp_requests",
        "requests": [
            {"type": "approval", "tool_call_id": "a"},
            {"type": "approval", "tool_call_id": "b"},
        ],
    }
