"""Protocols for the objects of a hosting library: turns and authorization.

The objects of `microsoft-agents-hosting-core` satisfy them.
"""

from __future__ import annotations

from typing import Any, Protocol


class Conversation(Protocol):
    """The conversation of a message."""

    @property
    def id(self) -> str | None:
        """Its id."""
        ...


class Activity(Protocol):
    """The message that is being answered."""

    @property
    def id(self) -> str | None:
        """The id of the message."""
        ...

    @property
    def text(self) -> str | None:
        """The text of the user."""
        ...

    @property
    def conversation(self) -> Conversation | None:
        """The conversation of the message."""
        ...

    @property
    def channel_id(self) -> str | None:
        """The channel, and after a colon the sub-channel."""
        ...

    def is_agentic_request(self) -> bool:
        """Say whether an agent with an identity of its own is addressed."""
        ...

    def get_agentic_instance_id(self) -> str | None:
        """Return the id of that agent."""
        ...


class TurnContext(Protocol):
    """One turn of a conversation."""

    @property
    def activity(self) -> Activity:
        """The message of the turn."""
        ...


class ExchangedToken(Protocol):
    """The result of a token exchange; the token is empty if it failed."""

    @property
    def token(self) -> str | None:
        """The token itself."""
        ...


class Authorization(Protocol):
    """Exchanges tokens for the user of a turn."""

    async def exchange_token(
        self, context: Any, scopes: list[str] | None = None, auth_handler_id: str | None = None
    ) -> ExchangedToken:
        """Return a token for these scopes."""
        ...
