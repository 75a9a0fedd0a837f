"""Calls for which somebody has to sign in first, put off by an interrupt of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

from langgraph.types import interrupt

from plait.client.calls.tool_call import ToolCall
from plait.errors import AuthRequiredError, ForbiddenError, HttpError, PlaitError

AUTH_INTERRUPT_TYPE = "mcp_auth"
"""What `type` says in the value of such an interrupt."""

_SCRATCHPAD = "__pregel_scratchpad"
_REFUSALS = frozenset({"decline", "cancel"})


class AuthInterrupt(TypedDict):
    """The value of the interrupt: where somebody has to sign in, and how."""

    type: Literal["mcp_auth"]
    server_name: str
    tool_name: str
    scopes: list[str]
    message: str
    login: str | None
    """The command that signs in; `None` where credentials are not got that way."""
    authorization_url: NotRequired[str]
    """Where the person was sent to sign in."""


def is_cured_by_signing_in(error: PlaitError) -> bool:
    """Say whether other credentials may help: they are missing, or lack a scope."""
    if isinstance(error, ForbiddenError):
        return bool(error.scopes)
    return isinstance(error, AuthRequiredError)


def wait_for_sign_in(call: ToolCall, error: PlaitError) -> None:
    """Pause the graph until somebody has signed in, or go on if it is resumed.

    Resume with `True` or `{"action": "retry"}` to make the call again, and with `False` or
    `{"action": "decline"}` to give it up.

    Raises:
        GraphInterrupt: There is no answer yet.
        AuthRequiredError: Nobody wants to sign in.
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
    answer = interrupt(value)
    while "responses" in _entries(answer):
        # An answer to a question that the server asked earlier in this call.
        answer = interrupt(value)
    if _is_refusal(answer):
        raise _declined(call)


def check_not_declined(call: ToolCall, config: Mapping[str, Any]) -> None:
    """Refuse a call that a person has given up, even if it could be made by now.

    When a graph goes on, its node starts from the beginning. Somebody may have signed in for
    another call meanwhile, so that this one would not come to ask again.

    Raises:
        AuthRequiredError: It was given up.
    """
    asked: Mapping[str, Any] = config.get("configurable") or {}
    pad = asked.get(_SCRATCHPAD)
    if pad is None:
        return
    given = [one for one in (*pad.resume, pad.get_null_resume(False)) if one is not None]
    # A bare `False` may answer anybody's question.
    if given and given[-1] is not False and _is_refusal(given[-1]):
        raise _declined(call)


def is_sign_in_answer(answer: object) -> bool:
    """Tell what resumes such an interrupt from the answer to another question."""
    told = _entries(answer)
    return isinstance(answer, bool) or ("action" in told and "responses" not in told)


def _is_refusal(answer: object) -> bool:
    refuses = _entries(answer).get("action") in _REFUSALS
    return is_sign_in_answer(answer) and (answer is False or refuses)


def _entries(answer: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}


def _declined(call: ToolCall) -> AuthRequiredError:
    return AuthRequiredError(
        f"{call.where}: it needs somebody to sign in, and the user declined",
        server=call.server,
        tool=call.tool,
    )
