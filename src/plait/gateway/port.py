"""What is needed of a hosting library: the turn that is being answered, and who gives out tokens.

The objects of `microsoft-agents-hosting-core` fit as they are; so does anything of the same shape.
"""

from __future__ import annotations

from typing import Any, Protocol


class Conversation(Protocol):
    """The conversation that a message belongs to."""

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
        """What the user wrote."""
        ...

    @property
    def conversation(self) -> Conversation | None:
        """Where it was written."""
        ...

    @property
    def channel_id(self) -> str | None:
        """The channel, and after a colon the channel inside it."""
        ...

    def is_agentic_request(self) -> bool:
        """Say whether an agent with an identity of its own is spoken to."""
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
    """What an exchange gives; an empty token where it gives none."""

    @property
    def token(self) -> str | None:
        """The token itself."""
        ...


class Authorization(Protocol):
    """Gives out tokens for the user of a turn."""

    async def exchange_token(
        self,
        context: Any,
        scopes: list[str] | None = None,
        auth_handler_id: str | None = None,
    ) -> ExchangedToken:
        """Return a token for these scopes."""
        ...
