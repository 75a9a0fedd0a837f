"""What came back from the authorization server's page: a redirect, a pasted address, a code."""

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
        OAuthFlowError: The person or the authorization server said no.
    """
    values = _values(query)
    if error := values.get("error"):
        said = values.get("error_description")
        raise OAuthFlowError(f"signing in was refused: {error}{f' ({said})' if said else ''}")
    code = values.get("code")
    if not code:
        raise OAuthFlowError("the answer holds no code")
    return AuthorizationCodeResult(code=code, state=values.get("state"), iss=values.get("iss"))


def result_from_text(text: str, state: str | None) -> AuthorizationCodeResult:
    """Read what a person or a program hands over: the whole address, its query, or the code.

    A bare code has no state to compare, so the `state` that was sent is taken to be its own.

    Raises:
        OAuthFlowError: It is an answer to another question, or no answer.
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


def is_same_state(given: str | None, expected: str | None) -> bool:
    """Compare two states without telling, by the time it takes, how alike they are."""
    return secrets.compare_digest((given or "").encode(), (expected or "").encode())


def _values(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
