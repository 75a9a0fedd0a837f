"""Questions of servers to the user, put through an interrupt of the graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

import mcp_types as types
from langgraph.types import interrupt

from plait.client.calls.call_routing import with_schema_defaults
from plait.client.calls.tool_call import Pause, ToolCall
from plait.client.connections.operations import Given
from plait.errors import ConfigError, InputNeededError
from plait.langchain.tools.approval import is_approval_answer
from plait.langchain.tools.sign_in import is_sign_in_answer

ELICITATION_INTERRUPT_TYPE = "mcp_elicitation"
"""What `type` says in the value of such an interrupt."""

_CHECKPOINTER = "__pregel_checkpointer"
_SCRATCHPAD = "__pregel_scratchpad"
_ACTIONS = ("accept", "decline", "cancel")


class ElicitationRequest(TypedDict):
    """One question: a form to fill in, or an address to visit."""

    key: str
    message: str
    mode: Literal["form", "url"]
    requested_schema: NotRequired[dict[str, Any]]
    url: NotRequired[str]


class ElicitationInterrupt(TypedDict):
    """The value of the interrupt: every question of one round."""

    type: Literal["mcp_elicitation"]
    server_name: str
    tool_name: str
    requests: list[ElicitationRequest]


def may_interrupt(config: Mapping[str, Any]) -> bool:
    """Say whether a run can be paused and go on later: it is in a graph that keeps its state."""
    asked: Mapping[str, Any] = config.get("configurable") or {}
    return bool(asked.get(_CHECKPOINTER))


def pause_of(config: Mapping[str, Any], tool_call_id: str | None) -> Pause | None:
    """Say how a call is known again when its graph goes on, or `None` where it cannot be paused."""
    if not may_interrupt(config):
        return None
    asked: Mapping[str, Any] = config.get("configurable") or {}
    task = str(asked.get("checkpoint_ns") or "")
    key = (str(asked.get("thread_id")), tool_call_id or task)
    return Pause(key, resumed=_answer_waits(asked.get(_SCRATCHPAD)))


def _answer_waits(scratchpad: Any) -> bool:
    """Say whether the next interrupt of this task has its answer already."""
    if scratchpad is None:
        return False
    # Other interrupts of the task come first; how many there were is known only to the counter.
    counter = getattr(scratchpad.interrupt_counter, "_counter", None)
    count = re.fullmatch(r"count\((\d+)\)", repr(getattr(counter, "__self__", None)))
    taken: list[Any] = scratchpad.resume
    given = taken[int(count[1]) if count else 0 :]
    for_next = scratchpad.get_null_resume(False)
    if not any(one is for_next for one in taken):
        given.append(for_next)
    return any(isinstance(one, Mapping) and "responses" in one for one in given)


def answered_by_interrupt(call: ToolCall, asked: InputNeededError) -> Given:
    """Pause the graph until the questions are answered, or take the answers if it goes on.

    Resume with `{"responses": {key: {"action": "accept", "content": {…}}}}`.

    Raises:
        GraphInterrupt: There is no answer yet.
        ConfigError: The run goes on with something that answers nothing.
    """
    questions = {
        key: request
        for key, request in asked.requests.items()
        if isinstance(request, types.ElicitRequest)
    }
    if len(questions) < len(asked.requests):
        others = sorted(set(asked.requests) - set(questions))
        raise ConfigError(
            f"{call.where}: besides questions to the user the server asks for {', '.join(others)}, "
            "which an interrupt cannot answer",
            server=call.server,
        )
    value: ElicitationInterrupt = {
        "type": "mcp_elicitation",
        "server_name": call.server,
        "tool_name": call.tool,
        "requests": [_described(key, question) for key, question in questions.items()],
    }
    answer = interrupt(value)
    while is_sign_in_answer(answer) or is_approval_answer(answer):
        # It let the call be made, and the question came after it.
        answer = interrupt(value)
    return Given(_responses(answer, questions, call), asked.request_state)


def _described(key: str, question: types.ElicitRequest) -> ElicitationRequest:
    params = question.params
    if isinstance(params, types.ElicitRequestURLParams):
        return {"key": key, "message": params.message, "mode": "url", "url": str(params.url)}
    return {
        "key": key,
        "message": params.message,
        "mode": "form",
        "requested_schema": dict(params.requested_schema),
    }


def _responses(
    resumed: Any, questions: Mapping[str, types.ElicitRequest], call: ToolCall
) -> types.InputResponses:
    answers = cast("Any", resumed).get("responses") if isinstance(resumed, Mapping) else None
    if not isinstance(answers, Mapping):
        raise _unusable(call, 'resume with {"responses": {key: {"action": …}}}')
    given = cast("Mapping[str, Any]", answers)
    if missing := [key for key in questions if key not in given]:
        raise _unusable(call, f"there is no answer to {', '.join(missing)}")
    return {
        key: with_schema_defaults(question.params, _result(key, given[key], call))
        for key, question in questions.items()
    }


def _result(key: str, answer: Any, call: ToolCall) -> types.ElicitResult:
    told: Mapping[str, Any] = {}
    if isinstance(answer, Mapping):
        told = cast("Mapping[str, Any]", answer)
    action = told.get("action")
    if action not in _ACTIONS:
        raise _unusable(call, f"the action of {key} is accept, decline or cancel")
    content = told.get("content") if action == "accept" else None
    return types.ElicitResult(action=cast("Any", action), content=content)


def _unusable(call: ToolCall, reason: str) -> ConfigError:
    return ConfigError(f"{call.where}: cannot go on: {reason}", server=call.server)
