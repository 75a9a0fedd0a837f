"""The errors of gateways, manifests and chat history."""

from __future__ import annotations

from typing import Any

from plait.errors.base import PlaitError


class GatewayError(PlaitError):
    """Something between an agent and its tool gateway went wrong; `url` says where."""

    def __init__(self, message: str, *, url: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.url = url
        """The address that was asked, without what is secret in it."""

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data; absent facts are left out."""
        return {**super().to_dict(), **({} if self.url is None else {"url": self.url})}


class ManifestError(GatewayError, ValueError):
    """A `ToolingManifest.json` must change."""

    kind = "config"


class DiscoveryError(GatewayError):
    """The gateway did not say which servers an agent has."""

    kind = "transport"
    retry = "always"


class TokenError(GatewayError):
    """A token is missing, malformed or over, or was not given out."""

    kind = "auth"


class ChatHistoryError(GatewayError):
    """Chat history did not arrive at the gateway."""

    kind = "transport"
    retry = "always"


class OutboxError(GatewayError):
    """The outbox is full, or its file cannot be used; nothing was stored."""

    kind = "config"
