"""Parses the result of an authorization: a redirect, a pasted address, or a code."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult


def state_in(address: str) -> str | None:
    """Return the `state` of an address."""
    return _values(urlsplit(address).query).get("state")


def result_from_query(query: str) -> AuthorizationCodeResult:
    """Read the query of a redirect.

    Raises:
        OAuthFlowError: The user or the authorization server refused.
    """
    values = _values(query)
    if error := values.get("error"):
        details = values.get("error_description")
        raise OAuthFlowError(f"signing in was refused: {error}{f' ({details})' if details else ''}")
    code = values.get("code")
    if not code:
        raise OAuthFlowError("the answer holds no code")
    return AuthorizationCodeResult(code=code, state=values.get("state"), iss=values.get("iss"))


def result_from_text(text: str, state: str | None) -> AuthorizationCodeResult:
    """Parse the whole redirect address, its query, or the code alone.

    A bare code has no state to compare, so the expected `state` is used.

    Raises:
        OAuthFlowError: It belongs to another attempt, or cannot be parsed.
    """
    text = text.strip()
    if "://" in text or "code=" in text or "error=" in text:
        query = urlsplit(text).query if "://" in text else text.lstrip("?")
        answer = result_from_query(query)
        if not is_same_state(answer.state, state):
            raise OAuthFlowError("the answer belongs to another attempt to sign in")
        return answer
    if not text or any(letter.isspace() for letter in text):
        raise OAuthFlowError("that is neither an address nor a code")
    return AuthorizationCodeResult(code=text, state=state)


def is_same_state(actual: str | None, expected: str | None) -> bool:
    """Compare two states in constant time."""
    return secrets.compare_digest((actual or "").encode(), (expected or "").encode())


def _values(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
