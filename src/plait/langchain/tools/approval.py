"""Calls that a person must approve, put to them by the client's callback or by an interrupt."""

from __future__ import annotations

import inspect
import json
from typing import Any, Literal, NotRequired, TypedDict

from langgraph.types import interrupt

from plait.client.calls.approval import DECISIONS, Approval, ApprovalRequest, OnApproval
from plait.client.config.raw_value import as_mapping

APPROVAL_INTERRUPT_TYPE = "mcp_approval"
"""What `type` says in the value of such an interrupt."""

_UNCLEAR = (
    'there is no clear answer yet: resume with {"decision": "approve"}, '
    '{"decision": "edit", "args": {…}} or {"decision": "reject", "message": "…"}'
)


class ApprovalInterrupt(TypedDict):
    """The value of the interrupt: the call, and what may be answered."""

    type: Literal["mcp_approval"]
    server_name: str
    tool_name: str
    tool_call_id: str | None
    arguments: dict[str, Any]
    annotations: dict[str, Any]
    reason: str
    allowed_decisions: list[str]
    instead_of: NotRequired[str]
    """The server that failed, where this one stands in for it."""
    problem: NotRequired[str]
    """Why it is asked again."""


class Approvals:
    """Asks about the calls that one use of a tool comes to; each of them once.

    Inside a graph that keeps its state, what the client's callback does not decide pauses the
    graph.
    """

    def __init__(
        self, on_approval: OnApproval | None, *, interrupts: bool, tool_call_id: str | None = None
    ) -> None:
        self._on_approval = on_approval
        self._interrupts = interrupts
        self._tool_call_id = tool_call_id
        self._given: dict[str, object] = {}
        self.bare_answers = True
        """Whether a bare `True` or `False` can only be the answer to this question."""

    async def __call__(self, request: ApprovalRequest) -> object:
        """Return the answer, or `None` where there is nobody to ask.

        Raises:
            GraphInterrupt: There is no answer yet.
        """
        asked = [request.server, request.tool, dict(request.arguments)]
        key = json.dumps(asked, sort_keys=True, default=repr)
        if key not in self._given:
            self._given[key] = await self._ask(request)
        return self._given[key]

    async def _ask(self, request: ApprovalRequest) -> object:
        answer = None if self._on_approval is None else self._on_approval(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not None or not self._interrupts:
            return answer
        # A backup may have needed a login before, which is answered with a bare `True`.
        bare = self.bare_answers and request.instead_of is None
        return approved_by_interrupt(request, self._tool_call_id, bare=bare)


def approved_by_interrupt(
    request: ApprovalRequest, tool_call_id: str | None, *, bare: bool
) -> Approval:
    """Pause the graph until a person has decided, or take their answer if it goes on.

    When it goes on, the answers of all interrupts of this task come again in their order, among
    them perhaps those to questions that are not asked any more: they are passed over.

    Raises:
        GraphInterrupt: There is no answer yet.
    """
    value: ApprovalInterrupt = {
        "type": "mcp_approval",
        "server_name": request.server,
        "tool_name": request.tool,
        "tool_call_id": tool_call_id,
        "arguments": dict(request.arguments),
        "annotations": dict(request.annotations),
        "reason": request.reason,
        "allowed_decisions": list(DECISIONS),
    }
    if request.instead_of is not None:
        value["instead_of"] = request.instead_of
    while True:
        answer = interrupt(value)
        approval = None if isinstance(answer, bool) and not bare else Approval.read(answer)
        if approval is not None:
            return approval
        if not _is_of_another(answer):
            value["problem"] = _UNCLEAR


def is_approval_answer(answer: object) -> bool:
    """Tell what resumes such an interrupt from the answer to another question."""
    return not isinstance(answer, bool) and Approval.read(answer) is not None


def _is_of_another(answer: object) -> bool:
    """Recognize the answer to a server's question, or that somebody has signed in."""
    told = as_mapping(answer)
    return told is not None and ("responses" in told or "action" in told)
