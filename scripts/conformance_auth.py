"""How the conformance client signs in: the suite's page says yes, and nobody looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from plait import OAuth
from plait.client import MemoryTokenStore

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""What the suite expects as the address of the client's own description."""

REDIRECT = "http://127.0.0.1:3030/callback"
"""Nobody listens there: the answer is read off the redirect."""

REFUSED = frozenset(
    {
        "auth/resource-mismatch",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
    }
)
"""Scenarios in which a client that signs in has been deceived."""


class Visitor:
    """A browser that goes to the address and reads where it is sent back to."""

    def __init__(self) -> None:
        self._answer = ""

    async def show(self, address: str) -> None:
        """Visit the page that signs everybody in."""
        async with httpx2.AsyncClient() as client:
            self._answer = (await client.get(address)).headers["location"]

    async def answer(self) -> str:
        """Return the address of the page it ends on."""
        return self._answer


def auth_for(scenario: str, url: str, context: Mapping[str, Any]) -> object:
    """Return the `auth` setting for a scenario."""
    if "idp_id_token" in context:
        return enterprise(url, context)
    if scenario.startswith("auth/client-credentials"):
        return OAuth(
            grant="client_credentials",
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            private_key=context.get("private_key_pem"),
            algorithm=context.get("signing_algorithm", "RS256"),
            store=MemoryTokenStore(),
        )
    visitor = Visitor()
    return OAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        issuer=context.get("issuer"),
        client_metadata_url=DOCUMENT if scenario == "auth/basic-cimd" else None,
        redirect_uri=REDIRECT,
        on_redirect=visitor.show,
        on_callback=visitor.answer,
        store=MemoryTokenStore(),
    )


class NoStorage(TokenStorage):
    """Keeps nothing: the process ends with the scenario."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        del tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        del client_info


def enterprise(url: str, context: Mapping[str, Any]) -> httpx2.Auth:
    """Return the SDK's provider for logins that a company vouches for; plait takes it as it is."""

    async def assertion(audience: str, resource: str) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "subject_token": context["idp_id_token"],
            "client_id": context["idp_client_id"],
            "audience": audience,
            "resource": resource,
        }
        async with httpx2.AsyncClient() as client:
            answer = await client.post(context["idp_token_endpoint"], data=form)
        return answer.raise_for_status().json()["access_token"]

    return IdentityAssertionOAuthProvider(
        url,
        NoStorage(),
        context["client_id"],
        context["client_secret"],
        context.get("issuer") or issuer_of(url),
        assertion,
        token_endpoint_auth_method="client_secret_basic",
    )


def issuer_of(url: str) -> str:
    """Ask the suite's server which authorization server it trusts; a company would know."""
    parts = httpx2.URL(url)
    place = parts.copy_with(path=f"/.well-known/oauth-protected-resource{parts.path}")
    return httpx2.get(place).raise_for_status().json()["authorization_servers"][0]
