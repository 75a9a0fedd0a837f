"""The questions that calls of a graph put to a person, and which answer belongs to which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypedDict

from plait._support.mappings import entries_of
from plait.client.calls.approval import Approval
from plait.client.config.raw_value import as_list

Kind = Literal["approval", "sign-in", "elicitation"]

REQUESTS_INTERRUPT_TYPE: Final = "mcp_requests"
"""The `type` of the value of an interrupt with the questions of several calls."""


class RequestsInterrupt(TypedDict):
    """The value of an interrupt with the questions of several calls.

    Each request is the value that the interrupt of its call alone has, with its `tool_call_id`.
    """

    type: Literal["mcp_requests"]
    requests: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a call needs to know from a person."""

    call: str
    """The call, as its task knows it."""
    call_id: str | None
    kind: Kind
    value: dict[str, Any] = field(repr=False)
    """The value of the interrupt, if no other call asks."""
    facts: str
    """A digest of what the answer is bound to."""
    more: Any = field(repr=False)
    """What the call needs besides the answer to go on."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data, which the class takes as keywords."""
        return asdict(self)


def shown_value(questions: Sequence[Question]) -> dict[str, Any]:
    """Return the value of the interrupt that asks these questions."""
    if len(questions) == 1:
        return questions[0].value
    requests = [{**one.value, "tool_call_id": one.call_id} for one in questions]
    return {"type": REQUESTS_INTERRUPT_TYPE, "requests": requests}


def answers_of(answer: object, questions: Sequence[Question]) -> list[object | None]:
    """Return the answer to each question; `None` where there is none, or it is not clear which.

    Several questions are answered by `{tool_call_id: answer}`, by a list in their order, or by one
    answer that fits them all.
    """
    by_id = entries_of(answer)
    if any(question.call_id in by_id for question in questions if question.call_id):
        return [by_id.get(question.call_id or "") for question in questions]
    if len(questions) == 1:
        return [answer]
    listed = as_list(by_id.get("decisions", by_id.get("answers", answer)))
    if listed is not None:
        return [*listed] if len(listed) == len(questions) else [None] * len(questions)
    kinds = {question.kind for question in questions}
    return [answer if _fits(answer, one, alone=len(kinds) == 1) else None for one in questions]


def _fits(answer: object, question: Question, *, alone: bool) -> bool:
    """Return whether an answer that names no call can be one to this question."""
    entries = entries_of(answer)
    if question.kind == "elicitation":
        keys = entries_of(entries.get("responses")).keys()
        return bool(keys) and keys >= {one["key"] for one in question.value["requests"]}
    if isinstance(answer, bool) and not alone:
        return question.kind == "sign-in"  # having signed in is no approval of something else
    if question.kind == "sign-in":
        return isinstance(answer, bool) or "action" in entries
    approval = Approval.read(answer)
    return approval is not None and approval.decision != "edit"
