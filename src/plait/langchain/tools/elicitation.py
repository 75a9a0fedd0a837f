"""Elicitation by interrupts: what a server asks the user pauses the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

import mcp_types as types
from langgraph.types import interrupt

from plait.client.calls.call_routing import with_schema_defaults
from plait.client.calls.tool_call import ToolCall
from plait.client.connections.operations import InputAnswers
from plait.errors import ConfigError, InputNeededError
from plait.langchain.tools.approval import is_approval_answer
from plait.langchain.tools.graph_run import entries_of
from plait.langchain.tools.sign_in import is_sign_in_answer

ELICITATION_INTERRUPT_TYPE = "mcp_elicitation"
"""The `type` of the interrupt's value."""

_ACTIONS = ("accept", "decline", "cancel")


class ElicitationRequest(TypedDict):
    """One elicitation: a form to fill in, or a URL to visit."""

    key: str
    message: str
    mode: Literal["form", "url"]
    requested_schema: NotRequired[dict[str, Any]]
    url: NotRequired[str]


class ElicitationInterrupt(TypedDict):
    """The value of the interrupt: all elicitations of one round."""

    type: Literal["mcp_elicitation"]
    server_name: str
    tool_name: str
    requests: list[ElicitationRequest]


def responses_from_interrupt(call: ToolCall, needed: InputNeededError) -> InputAnswers:
    """Pause the graph until the user has answered, or return the answers if it resumes.

    Resume with `{"responses": {key: {"action": "accept", "content": {…}}}}`.

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
    answer = interrupt(value)
    while is_sign_in_answer(answer) or is_approval_answer(answer):
        # That answer belongs to an earlier interrupt of this call.
        answer = interrupt(value)
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
