"""Approval of calls by a person: by the client's callback, or by an interrupt."""

from __future__ import annotations

import json
from typing import Any, Literal, NotRequired, TypedDict

from langgraph.types import interrupt

from plait.client.calls.approval import DECISIONS, Approval, ApprovalRequest, OnApproval
from plait.client.calls.callbacks import resolve
from plait.langchain.tools.graph_run import entries_of

APPROVAL_INTERRUPT_TYPE = "mcp_approval"
"""The `type` of the interrupt's value."""

_UNCLEAR = (
    'there is no clear answer yet: resume with {"decision": "approve"}, '
    '{"decision": "edit", "args": {…}} or {"decision": "reject", "message": "…"}'
)


class ApprovalInterrupt(TypedDict):
    """The value of the interrupt: the call, and the possible decisions."""

    type: Literal["mcp_approval"]
    server_name: str
    tool_name: str
    tool_call_id: str | None
    arguments: dict[str, Any]
    annotations: dict[str, Any]
    reason: str
    allowed_decisions: list[str]
    instead_of: NotRequired[str]
    """The server that failed, if this call goes to its fallback."""
    problem: NotRequired[str]
    """Why the last answer was not accepted."""


class Approvals:
    """Gets approval for the calls of one tool invocation, once for each.

    A call that the client's callback does not decide interrupts a graph with a checkpointer.
    """

    def __init__(
        self, on_approval: OnApproval | None, *, interrupts: bool, tool_call_id: str | None = None
    ) -> None:
        self._on_approval = on_approval
        self._interrupts = interrupts
        self._tool_call_id = tool_call_id
        self._decisions: dict[str, object] = {}
        self.bare_answers = True
        """Whether a bare `True` or `False` can only answer this interrupt."""

    async def __call__(self, request: ApprovalRequest) -> object:
        """Return the decision, or `None` if there is no one to decide.

        Raises:
            GraphInterrupt: There is no answer yet.
        """
        call = [request.server, request.tool, dict(request.arguments)]
        key = json.dumps(call, sort_keys=True, default=repr)
        if key not in self._decisions:
            self._decisions[key] = await self._decide(request)
        return self._decisions[key]

    async def _decide(self, request: ApprovalRequest) -> object:
        if self._on_approval is not None:
            decision: object = await resolve(self._on_approval(request))
            if decision is not None:
                return decision
        if not self._interrupts:
            return None
        # The sign-in of a fallback server, which comes before, is answered with a bare `True`.
        bare = self.bare_answers and request.instead_of is None
        return _approval_from_interrupt(request, self._tool_call_id, bare=bare)


def _approval_from_interrupt(
    request: ApprovalRequest, tool_call_id: str | None, *, bare: bool
) -> Approval:
    """Pause the graph until a person has decided, or return the decision if it resumes.

    A resumed task gets the answers of all its interrupts again, in order. Those to interrupts
    that do not come again are skipped.
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
        if not entries_of(answer).keys() & {"responses", "action"}:
            value["problem"] = _UNCLEAR


def is_approval_answer(answer: object) -> bool:
    """Return whether a resume value answers this interrupt, not one of another kind."""
    return not isinstance(answer, bool) and Approval.read(answer) is not None
