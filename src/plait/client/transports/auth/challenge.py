"""Parses authentication challenges, and advises how to sign in; no I/O."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import httpx2

from plait.client.protocol.exchange import Advice

ADVICE = "plait.advice"
"""The response extension that holds the advice."""

_PARAMETER: Final = re.compile(r'(?<![\w-])([\w-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,"]++))')
"""A parameter of a challenge, quoted or not: https://www.rfc-editor.org/rfc/rfc9110#section-11.2

It takes linear time: a name is tried at its beginning only, and nothing is tried twice.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A refusal that other credentials may resolve."""

    status: int
    scope: str | None = None
    """The scopes the server names."""
    resource_metadata: str | None = None
    header: str | None = None
    """The whole `WWW-Authenticate` header."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes as a tuple."""
        return tuple((self.scope or "").split())

    @property
    def steps_up(self) -> bool:
        """Whether the login is valid and only lacks scopes."""
        return self.status == HTTPStatus.FORBIDDEN

    def with_scopes(self, *more: str | None) -> Challenge:
        """Return the same challenge with more scopes."""
        return replace(self, scope=joined_scopes(*more, self.scope))


def challenge_from(response: httpx2.Response) -> Challenge | None:
    """Parse the challenge of a response; `None` if it requests no other credentials."""
    return challenge_in(response.status_code, response.headers.get("www-authenticate"))


def challenge_in(status: int, header: str | None) -> Challenge | None:
    """Parse the challenge of a status and a `WWW-Authenticate` header.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
    """
    if status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return None
    parameters: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(header or ""):
        if value := re.sub(r"\\(.)", r"\1", quoted) or plain:
            parameters.setdefault(name.lower(), value)
    if status == HTTPStatus.FORBIDDEN and parameters.get("error") != "insufficient_scope":
        return None
    return Challenge(
        status=status,
        scope=parameters.get("scope"),
        resource_metadata=parameters.get("resource_metadata"),
        header=header,
    )


def joined_scopes(*scopes: str | None) -> str | None:
    """Join scopes, each once, in order."""
    words = (word for scope in scopes for word in (scope or "").split())
    return " ".join(dict.fromkeys(words)) or None


class SignInNeededError(Exception):
    """Signing in is not possible here, or failed; `advice` says what to do."""

    def __init__(self, challenge: Challenge, advice: Advice) -> None:
        super().__init__(advice.text)
        self.challenge = challenge
        self.advice = advice

    def response(self, request: httpx2.Request) -> httpx2.Response:
        """Build a response, so that one request fails and the session stays open."""
        header = self.challenge.header
        # Servers may send any characters, not only ASCII.
        fields = {} if header is None else {"WWW-Authenticate": header}
        return httpx2.Response(
            self.challenge.status,
            headers=httpx2.Headers(fields, encoding="utf-8"),
            request=request,
            extensions={ADVICE: self.advice},
        )


def sign_in_advice(server: str, challenge: Challenge, scope: str | None, reason: str) -> Advice:
    """Explain why there is no login, which scopes it needs, and how to sign in."""
    scopes = challenge.scope if challenge.steps_up else joined_scopes(challenge.scope, scope)
    words = ["plait", "auth", "login", server]
    if challenge.steps_up and scopes:
        words += ["--scope", scopes]
    named = tuple((scopes or "").split())
    plural = "" if len(named) == 1 else "s"
    needs = f"; it asks for the scope{plural} {', '.join(named)}" if named else ""
    login = shlex.join(words)
    return Advice(text=f"{reason}{needs}; sign in: {login}", scopes=named, login=login)
