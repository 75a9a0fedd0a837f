"""Sign-in by interrupts: a call that needs a login pauses the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from langgraph.types import interrupt

from plait.client.calls.tool_call import ToolCall
from plait.errors import AuthRequiredError, ForbiddenError, HttpError, PlaitError
from plait.langchain.tools.graph_run import entries_of, last_resume_value

AUTH_INTERRUPT_TYPE = "mcp_auth"
"""The `type` of the interrupt's value."""

_REFUSALS = frozenset({"decline", "cancel"})


class AuthInterrupt(TypedDict):
    """The value of the interrupt: the server that needs a login, and how to sign in."""

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


def wait_for_sign_in(call: ToolCall, error: PlaitError) -> None:
    """Pause the graph until the user has signed in, or return if it resumes.

    Resume with `True` or `{"action": "retry"}` to repeat the call, and with `False` or
    `{"action": "decline"}` to cancel it.

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
    answer = interrupt(value)
    while "responses" in entries_of(answer):
        # That answer belongs to an elicitation earlier in this call.
        answer = interrupt(value)
    if _is_refusal(answer):
        raise _declined(call)


def check_not_declined(call: ToolCall, config: Mapping[str, Any]) -> None:
    """Refuse a call whose sign-in the user declined, even if it would succeed now.

    A resumed node starts from the beginning. Another call may have signed in meanwhile, and then
    this one would run although it was declined.

    Raises:
        AuthRequiredError: The user declined.
    """
    answer = last_resume_value(config)
    # A bare `False` may be the answer to any interrupt.
    if answer is not False and _is_refusal(answer):
        raise _declined(call)


def is_sign_in_answer(answer: object) -> bool:
    """Return whether a resume value answers this interrupt, not one of another kind."""
    entries = entries_of(answer)
    return isinstance(answer, bool) or ("action" in entries and "responses" not in entries)


def _is_refusal(answer: object) -> bool:
    refuses = entries_of(answer).get("action") in _REFUSALS
    return is_sign_in_answer(answer) and (answer is False or refuses)


def _declined(call: ToolCall) -> AuthRequiredError:
    return AuthRequiredError(
        f"{call.where}: it needs somebody to sign in, and the user declined",
        server=call.server,
        tool=call.tool,
    )
