"""The interrupts of a tool call: approval by a person, sign-in, and elicitation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from plait._support import mcp_types as types
from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait.client.calls.approval import DECISIONS, Approval, ApprovalRequest, OnApproval
from plait.client.calls.call_routing import with_schema_defaults
from plait.client.connections.operations import InputAnswers
from plait.errors import (
    AuthRequiredError,
    ConfigError,
    HttpError,
    InputNeededError,
)
from plait.langchain.tools.graph_task import GraphCall, digest

if TYPE_CHECKING:
    from plait.client.calls.tool_call import ToolCall

ELICITATION_INTERRUPT_TYPE = "mcp_elicitation"
"""The `type` of the value of an elicitation interrupt."""


_UNCLEAR_TEXT = (
    'there is no clear answer yet: resume with {"decision": "approve"}, '
    '{"decision": "edit", "args": {…}} or {"decision": "reject", "message": "…"}'
)


_CHANGED_TEXT = "the call changed after it was approved, so it needs another approval"


class Approvals:
    """Gets approval for a call, once for each form that it takes.

    A call that the client's callback does not decide interrupts a graph with a checkpointer.
    """

    def __init__(self, on_approval: OnApproval | None, call: GraphCall | None) -> None:
        """Take the call of a graph; `None` if the graph cannot be interrupted."""
        self._on_approval = on_approval
        self._call = call
        self._decisions: dict[str, object] = {}

    async def __call__(self, request: ApprovalRequest) -> object:
        """Return the decision, or `None` if there is no one to decide.

        Raises:
            GraphInterrupt: There is no answer yet.
        """
        # An approval is bound to the call, and to what the server says of its tool.
        facts = digest(
            [
                request.server,
                request.tool,
                dict(request.arguments),
                dict(request.annotations),
                request.instead_of,
            ]
        )
        if facts in self._decisions:
            return self._decisions[facts]
        decision: object = None
        if self._on_approval is not None:
            decision = await resolve(self._on_approval(request))
        if decision is None and self._call is not None:
            decision = await self._answer(request, facts, self._call)
        self._decisions[facts] = decision
        return decision

    async def _answer(self, request: ApprovalRequest, facts: str, call: GraphCall) -> Approval:
        """Return the answer to the interrupt of a call as it is now, or interrupt the graph."""
        answers, unanswered = call.answers("approval"), call.unanswered
        given = [answer for question, answer in answers if question.facts == facts]
        if given and (approval := Approval.read(given[-1])) is not None:
            return approval
        value: dict[str, Any] = {
            "type": "mcp_approval",
            "server_name": request.server,
            "tool_name": request.tool,
            "tool_call_id": call.call.call_id,
            "arguments": dict(request.arguments),
            "annotations": dict(request.annotations),
            "reason": request.reason,
            "allowed_decisions": list(DECISIONS),
        }
        if request.instead_of is not None:  # the server that failed: the call goes to its fallback
            value["instead_of"] = request.instead_of
        if given or (unanswered is not None and unanswered.facts == facts):
            value["problem"] = _UNCLEAR_TEXT
        elif answers:
            value["problem"] = _CHANGED_TEXT
        return await call.ask("approval", value, facts=facts)


async def wait_for_sign_in(in_graph: GraphCall, call: ToolCall, error: HttpError) -> NoReturn:
    """Interrupt the graph until the user has signed in; then the call is made again.

    Resume with `True` or `{"action": "retry"}` to repeat the call, and with `False` or
    `{"action": "decline"}` to cancel it.

    Raises:
        GraphInterrupt: Always.
    """
    value: dict[str, Any] = {
        "type": "mcp_auth",
        "server_name": call.server,
        "tool_name": call.tool,
        "scopes": list(error.scopes),
        "message": error.message,
        "login": error.login,  # the command that signs in, if there is one for these credentials
    }
    if error.authorization_url is not None:
        value["authorization_url"] = error.authorization_url
    await in_graph.ask("sign-in", value)


def check_not_declined(in_graph: GraphCall, call: ToolCall) -> None:
    """Refuse a call whose sign-in the user declined, even if it would succeed now.

    Another call may have signed in meanwhile, and then this one would be made although it was
    declined.
    """
    answers = in_graph.answers("sign-in")
    answer = answers[-1][1] if answers else None
    if answer is False or entries_of(answer).get("action") in ("decline", "cancel"):
        raise AuthRequiredError(
            f"{call.where}: it needs somebody to sign in, and the user declined",
            server=call.server,
            tool=call.tool,
        )


async def ask_for_input(in_graph: GraphCall, call: ToolCall, needed: InputNeededError) -> NoReturn:
    """Interrupt the graph until the user has answered the elicitations of a server.

    Resume with `{"responses": {key: {"action": "accept", "content": {…}}}}`.

    Raises:
        GraphInterrupt: Always, unless there is another error.
        ConfigError: The server asks for something that an interrupt cannot answer.
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
    described: list[dict[str, Any]] = []
    for key, request in requests.items():
        params = request.params
        one: dict[str, Any] = {"key": key, "message": params.message, "mode": "form"}
        if isinstance(params, types.ElicitRequestURLParams):
            one["mode"], one["url"] = "url", str(params.url)
        else:
            one["requested_schema"] = dict(params.requested_schema)
        described.append(one)
    value = {
        "type": ELICITATION_INTERRUPT_TYPE,
        "server_name": call.server,
        "tool_name": call.tool,
        "requests": described,
    }
    asked = {
        key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, request in requests.items()
    }
    await in_graph.ask("elicitation", value, more={"asked": asked, "state": needed.request_state})


async def input_answers(in_graph: GraphCall, call: ToolCall) -> InputAnswers | None:
    """Return the answers that a call goes on with, if its server has asked for them.

    Raises:
        GraphInterrupt: The questions are not answered yet.
        ConfigError: The run resumes with a value that is not an answer.
    """
    unanswered = in_graph.unanswered
    if unanswered is not None and unanswered.kind == "elicitation":
        await in_graph.ask("elicitation", unanswered.value, more=unanswered.more)
    answers = in_graph.answers("elicitation")
    if not answers:
        return None
    question, answer = answers[-1]

    def unusable(reason: str) -> ConfigError:
        return ConfigError(f"{call.where}: cannot go on: {reason}", server=call.server)

    responses = entries_of(answer).get("responses")
    if not isinstance(responses, Mapping):
        raise unusable('resume with {"responses": {key: {"action": …}}}')
    by_key = entries_of(cast("object", responses))
    asked: dict[str, Any] = question.more["asked"]
    if missing := [key for key in asked if key not in by_key]:
        raise unusable(f"there is no answer to {', '.join(missing)}")
    results: types.InputResponses = {}
    for key, data in asked.items():
        request = types.ElicitRequest.model_validate(data)
        entries = entries_of(by_key[key])
        action = entries.get("action")
        if action not in ("accept", "decline", "cancel"):
            raise unusable(f"the action of {key} is accept, decline or cancel")
        content = entries.get("content") if action == "accept" else None
        result = types.ElicitResult(action=cast("Any", action), content=content)
        results[key] = with_schema_defaults(request.params, result)
    return InputAnswers(results, question.more["state"])
