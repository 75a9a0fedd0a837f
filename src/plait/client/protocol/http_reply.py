"""What an HTTP response with an error status says, and advice for the user."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Why this client refused an exchange, and how to fix it."""

    text: str
    scopes: tuple[str, ...] = ()
    """The scopes the server requests."""
    login: str | None = None
    """The command that signs in."""
    address: str | None = None
    """The authorization URL the user was sent to."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response with an error status."""

    status: int
    retry_after: str | None
    challenge: str | None
    body: str
    error_code: int | None
    """The JSON-RPC error code in the body; `None` if no MCP server answered."""
    had_session: bool
    """Whether the request carried a session id."""
    advice: Advice | None = None
    """How to fix it, where signing in was tried."""
