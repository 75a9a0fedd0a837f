"""Turns and tokens for the tests of the gateway, made of the hosting library's own objects."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from microsoft_agents.activity import Activity, TokenResponse
from microsoft_agents.hosting.core import (
    AuthHandler,
    Authorization,
    ClaimsIdentity,
    MemoryStorage,
    TurnContext,
)

AGENT = "11111111-2222-3333-4444-555555555555"
SHARED_SCOPE = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1/.default"


def jwt(*, expires_in: float = 3600, **claims: Any) -> str:
    """Make a token that nobody signed; only its structure and expiry are looked at."""

    def part(value: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": "none", "typ": "JWT"})
    return f"{head}.{part({'exp': int(time.time() + expires_in), **claims})}.signature"


class _Adapter:
    """A turn needs one; nothing is sent through it."""


def turn(**changes: Any) -> TurnContext:
    """Make a turn of an agent that has an identity of its own."""
    message: dict[str, Any] = {
        "type": "message",
        "id": "message-1",
        "text": "What is new?",
        "channelId": "msteams:email",
        "conversation": {"id": "conversation-1"},
        "from": {"id": "user-1", "aadObjectId": "aad-1"},
        "recipient": {
            "id": "agent",
            "role": "agenticUser",
            "agenticAppId": AGENT,
            "agenticUserId": "agentic-user",
            "tenantId": "tenant",
        },
        **changes,
    }
    activity = Activity.model_validate(message)
    return TurnContext(_Adapter(), activity, ClaimsIdentity({}, "test"))


class _Provider:
    """Gives out the tokens of a test; what the hosting library asks for a token."""

    def __init__(self, tokens: Callable[[str], str]) -> None:
        self._tokens = tokens
        self.asked: list[str] = []

    async def get_agentic_user_token(
        self, tenant: str, instance: str, user: str, scopes: list[str]
    ) -> str:
        assert (tenant, instance, user) == ("tenant", AGENT, "agentic-user")
        (scope,) = scopes
        self.asked.append(scope)
        return self._tokens(scope)


class _Connections:
    def __init__(self, provider: _Provider) -> None:
        self._provider = provider

    def get_token_provider(self, identity: object, service_url: str) -> _Provider:
        return self._provider


def authorization(
    context: TurnContext, tokens: Callable[[str], str]
) -> tuple[Authorization, list[str]]:
    """Make an authorization whose user has signed in, and the list of scopes it is asked for."""
    provider = _Provider(tokens)
    handlers = {"agentic": AuthHandler(name="agentic", auth_type="AgenticUserAuthorization")}
    made = Authorization(MemoryStorage(), _Connections(provider), handlers)  # pyright: ignore[reportArgumentType]
    signed_in = TokenResponse(token="signed-in")
    Authorization._cache_token(context, "agentic", signed_in)
    return made, provider.asked
