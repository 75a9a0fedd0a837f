"""The interrupts of a tool call: approval by a person, sign-in, and elicitation.

A graph that resumes runs its node again, and each interrupt gets the next answer. So the answer to
one kind must not be taken for that to another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

import mcp_types as types
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait.client.calls.approval import DECISIONS, Approval, ApprovalRequest, OnApproval
from plait.client.calls.call_routing import with_schema_defaults
from plait.client.connections.operations import InputAnswers
from plait.errors import (
    AuthRequiredError,
    ConfigError,
    ForbiddenError,
    HttpError,
    InputNeededError,
    PlaitError,
)
from plait.langchain.tools.graph_run import ShownInterrupts, last_resume_value

if TYPE_CHECKING:
    from plait.client.calls.tool_call import ToolCall

ELICITATION_INTERRUPT_TYPE = "mcp_elicitation"
"""The `type` of the value of an elicitation interrupt."""

_REFUSALS = frozenset({"decline", "cancel"})
_ACTIONS = ("accept", "decline", "cancel")

_UNCLEAR = (
    'there is no clear answer yet: resume with {"decision": "approve"}, '
    '{"decision": "edit", "args": {…}} or {"decision": "reject", "message": "…"}'
)


_CHANGED = "the call changed after it was approved, so it needs another approval"

_BINDING = ("type", "server_name", "tool_name", "arguments", "annotations", "instead_of")
"""What an approval is bound to: the call, and what the server says of its tool."""


class ApprovalInterrupt(TypedDict):
    """The value of an approval interrupt: the call, and the possible decisions."""

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
    earlier: NotRequired[list[str | None]]
    """Digests of the approvals before this one in the same task, to which answers are bound."""


class Approvals:
    """Gets approval for the calls of one tool invocation, once for each.

    A call that the client's callback does not decide interrupts a graph with a checkpointer.
    """

    def __init__(
        self,
        on_approval: OnApproval | None,
        *,
        shown: ShownInterrupts | None,
        tool_call_id: str | None = None,
    ) -> None:
        """Take the interrupts of the task; `None` if the graph cannot be interrupted."""
        self._on_approval = on_approval
        self._shown = shown
        self._tool_call_id = tool_call_id
        self._decisions: dict[str, object] = {}
        self.bare_answers = True
        """Whether a bare `True` or `False` can only answer this interrupt."""

    def earlier(self) -> dict[str, Any]:
        """Return what an interrupt of another kind says of the approvals before it."""
        return {} if self._shown is None else self._shown.earlier()

    async def __call__(self, request: ApprovalRequest) -> object:
        """Return the decision, or `None` if there is no one to decide.

        Raises:
            GraphInterrupt: There is no answer yet.
        """
        key = _facts(_interrupt_value(request, None))
        if key not in self._decisions:
            self._decisions[key] = await self._decide(request)
        return self._decisions[key]

    async def _decide(self, request: ApprovalRequest) -> object:
        if self._on_approval is not None:
            decision: object = await resolve(self._on_approval(request))
            if decision is not None:
                return decision
        if self._shown is None:
            return None
        # The sign-in of a fallback server, which comes before, is answered with a bare `True`.
        bare = self.bare_answers and request.instead_of is None
        value = _interrupt_value(request, self._tool_call_id)
        return await _ask_user(value, self._shown, bare=bare)


def _interrupt_value(request: ApprovalRequest, tool_call_id: str | None) -> ApprovalInterrupt:
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
    return value


def _facts(value: Mapping[str, Any]) -> str:
    """Return a digest of what an approval is bound to, of the value of its interrupt."""
    bound = json.dumps([value.get(name) for name in _BINDING], sort_keys=True, default=repr)
    return hashlib.sha256(bound.encode()).hexdigest()


async def _ask_user(value: ApprovalInterrupt, shown: ShownInterrupts, *, bare: bool) -> Approval:
    """Pause the graph until a person has decided, or return the decision if it resumes.

    A resumed task gets the answers of all its interrupts again, in order. Those to interrupts
    that do not come again are skipped, and so is the approval of a call that is another one now.
    """
    await shown.load()
    facts = _facts(value)
    while True:
        index = shown.next_index
        is_last = index == shown.last_index
        before = _facts(shown.last) if is_last else shown.digest_before(index)
        try:
            answer = interrupt({**value, **shown.earlier()})
        except GraphInterrupt:
            shown.remember(index, facts)
            raise
        if before is None and _facts(shown.last) == facts:
            continue  # the answer to this very call comes later
        if before is not None and before != facts:
            if not is_last or shown.last.get("type") == value["type"]:
                shown.remember(index, before)
                value["problem"] = _CHANGED
            continue
        approval = None if isinstance(answer, bool) and not bare else Approval.read(answer)
        if approval is not None:
            shown.remember(index, facts)
            return approval
        if not entries_of(answer).keys() & {"responses", "action"}:
            value["problem"] = _UNCLEAR


class AuthInterrupt(TypedDict):
    """The value of a sign-in interrupt: the server that needs a login, and how to sign in."""

    type: Literal["mcp_auth"]
    server_name: str
    tool_name: str
    scopes: list[str]
    message: str
    login: str | None
    """The command that signs in; `None` if there is none for this kind of credentials."""
    authorization_url: NotRequired[str]
    """The page where the user signs in."""


def needs_sign_in(error: PlaitError) -> bool:
    """Return whether a login may help: credentials are missing, or lack a scope."""
    if isinstance(error, ForbiddenError):
        return bool(error.scopes)
    return isinstance(error, AuthRequiredError)


def wait_for_sign_in(
    call: ToolCall, error: PlaitError, earlier: Mapping[str, Any] | None = None
) -> None:
    """Pause the graph until the user has signed in, or return if it resumes.

    Resume with `True` or `{"action": "retry"}` to repeat the call, and with `False` or
    `{"action": "decline"}` to cancel it. `earlier` is what the interrupt says of the approvals
    before it.

    Raises:
        GraphInterrupt: There is no answer yet.
        AuthRequiredError: The user declined.
    """
    facts = error if isinstance(error, HttpError) else HttpError(error.message)
    value: AuthInterrupt = {
        "type": "mcp_auth",
        "server_name": call.server,
        "tool_name": call.tool,
        "scopes": list(facts.scopes),
        "message": facts.message,
        "login": facts.login,
    }
    if facts.authorization_url is not None:
        value["authorization_url"] = facts.authorization_url
    shown = {**value, **(earlier or {})}
    answer = interrupt(shown)
    while "responses" in entries_of(answer):
        # That answer belongs to an elicitation earlier in this call.
        answer = interrupt(shown)
    if _is_refusal(answer):
        raise _declined(call)


def check_not_declined(call: ToolCall, config: Mapping[str, Any]) -> None:
    """Refuse a call whose sign-in the user declined, even if it would succeed now.

    A resumed node starts from the beginning. Another call may have signed in meanwhile, and then
    this one would run although it was declined.
    """
    answer = last_resume_value(config)
    # A bare `False` may be the answer to any interrupt.
    if answer is not False and _is_refusal(answer):
        raise _declined(call)


def _is_sign_in_answer(answer: object) -> bool:
    entries = entries_of(answer)
    return isinstance(answer, bool) or ("action" in entries and "responses" not in entries)


def _is_refusal(answer: object) -> bool:
    refuses = entries_of(answer).get("action") in _REFUSALS
    return _is_sign_in_answer(answer) and (answer is False or refuses)


def _declined(call: ToolCall) -> AuthRequiredError:
    return AuthRequiredError(
        f"{call.where}: it needs somebody to sign in, and the user declined",
        server=call.server,
        tool=call.tool,
    )


class ElicitationRequest(TypedDict):
    """One elicitation: a form to fill in, or a URL to visit."""

    key: str
    message: str
    mode: Literal["form", "url"]
    requested_schema: NotRequired[dict[str, Any]]
    url: NotRequired[str]


class ElicitationInterrupt(TypedDict):
    """The value of an elicitation interrupt: all elicitations of one round."""

    type: Literal["mcp_elicitation"]
    server_name: str
    tool_name: str
    requests: list[ElicitationRequest]


def responses_from_interrupt(
    call: ToolCall, needed: InputNeededError, earlier: Mapping[str, Any] | None = None
) -> InputAnswers:
    """Pause the graph until the user has answered, or return the answers if it resumes.

    `earlier` is what the interrupt says of the approvals before it. Resume with
    `{"responses": {key: {"action": "accept", "content": {…}}}}`.

    Raises:
        GraphInterrupt: There is no answer yet.
        ConfigError: The run resumes with a value that is not an answer.
    """
    requests = {
        key: request
        for key, request in needed.requests.items()
        if isinstance(request, types.ElicitRequest)
    }
    if len(requests) < len(needed.requests):
        others = sorted(set(needed.requests) - set(requests))
        raise ConfigError(
            f"{call.where}: besides questions to the user the server asks for {', '.join(others)}, "
            "which an interrupt cannot answer",
            server=call.server,
        )
    value: ElicitationInterrupt = {
        "type": "mcp_elicitation",
        "server_name": call.server,
        "tool_name": call.tool,
        "requests": [_description(key, request) for key, request in requests.items()],
    }
    shown = {**value, **(earlier or {})}
    answer = interrupt(shown)
    while _is_sign_in_answer(answer) or Approval.read(answer) is not None:
        # That answer belongs to an earlier interrupt of this call.
        answer = interrupt(shown)
    return InputAnswers(_responses(answer, requests, call), needed.request_state)


def _description(key: str, request: types.ElicitRequest) -> ElicitationRequest:
    params = request.params
    if isinstance(params, types.ElicitRequestURLParams):
        return {"key": key, "message": params.message, "mode": "url", "url": str(params.url)}
    return {
        "key": key,
        "message": params.message,
        "mode": "form",
        "requested_schema": dict(params.requested_schema),
    }


def _responses(
    answer: object, requests: Mapping[str, types.ElicitRequest], call: ToolCall
) -> types.InputResponses:
    responses = entries_of(answer).get("responses")
    if not isinstance(responses, Mapping):
        raise _unusable(call, 'resume with {"responses": {key: {"action": …}}}')
    by_key = entries_of(cast("object", responses))
    if missing := [key for key in requests if key not in by_key]:
        raise _unusable(call, f"there is no answer to {', '.join(missing)}")
    return {
        key: with_schema_defaults(request.params, _result(key, by_key[key], call))
        for key, request in requests.items()
    }


def _result(key: str, response: object, call: ToolCall) -> types.ElicitResult:
    entries = entries_of(response)
    action = entries.get("action")
    if action not in _ACTIONS:
        raise _unusable(call, f"the action of {key} is accept, decline or cancel")
    content = entries.get("content") if action == "accept" else None
    return types.ElicitResult(action=cast("Any", action), content=content)


def _unusable(call: ToolCall, reason: str) -> ConfigError:
    return ConfigError(f"{call.where}: cannot go on: {reason}", server=call.server)
