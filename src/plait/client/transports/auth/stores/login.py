"""A login as it is kept: who it is for, what was granted, and until when."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Protocol, cast, runtime_checkable

_AHEAD_SECONDS: Final = 60.0
"""Renewing this long before the end leaves time for a call that has just begun."""

_AHEAD_SHARE: Final = 0.25
"""Of a short-lived token, only its last quarter is spent on renewing it."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginKey:
    """What a login belongs to; two logins that differ in any of it are never mixed up."""

    resource: str
    """The server's address."""

    grant: str = "authorization_code"

    issuer: str = ""
    """The configured authorization server; empty while the server names it."""

    client: str = ""
    """The configured client; empty for one that registers itself."""

    user: str = ""

    @property
    def digest(self) -> str:
        """A name for it that tells nothing."""
        parts = (self.resource, self.grant, self.issuer, self.client, self.user)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What one sign-in left behind; nothing secret is shown."""

    key: LoginKey

    access_token: str | None = field(default=None, repr=False)

    refresh_token: str | None = field(default=None, repr=False)

    scope: str | None = None

    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; `None` if nobody said."""

    lifetime_seconds: float | None = None
    """How long the access token was good for when it was new."""

    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """The registered client, as the protocol writes it."""

    authorization_server: Mapping[str, Any] | None = field(default=None, repr=False)
    """The metadata of the authorization server, so that renewing needs no discovery."""

    protected_resource: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def issuer(self) -> str | None:
        """The authorization server that granted it."""
        issuer = (self.authorization_server or {}).get("issuer")
        return issuer if isinstance(issuer, str) else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        client_secret = (self.client or {}).get("client_secret")
        found = (self.access_token, self.refresh_token, client_secret)
        return tuple(value for value in found if isinstance(value, str))

    def is_due(self, now: float) -> bool:
        """Say whether the access token has ended or is about to."""
        if self.expires_at is None:
            return False
        lifetime = math.inf if self.lifetime_seconds is None else self.lifetime_seconds
        return now >= self.expires_at - min(_AHEAD_SECONDS, _AHEAD_SHARE * lifetime)

    def is_over(self, now: float) -> bool:
        """Say whether the access token has ended."""
        return self.expires_at is not None and now >= self.expires_at


@runtime_checkable
class TokenStore(Protocol):
    """Keeps logins; it is used from several loops, threads and processes at once."""

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key, if there is one."""
        ...

    async def save(self, login: Login) -> None:
        """Keep a login in place of the one before.

        Raises:
            PlaitError: It cannot be kept; the one before is still there.
        """
        ...

    async def forget(self, key: LoginKey) -> None:
        """Drop the login of this key, if there is one."""
        ...

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep everybody else from renewing the same login while the context is open."""
        ...


def text_from_login(login: Login) -> str:
    """Write a login as JSON."""
    return json.dumps({"format": _FORMAT, **asdict(login)}, indent=1)


def login_from_text(text: str, key: LoginKey) -> Login:
    """Read a login that belongs to a key.

    Raises:
        ValueError: It is not one, or belongs to something else.
    """
    data: object = json.loads(text)
    entries = dict(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}
    if entries.pop("format", None) != _FORMAT or entries.pop("key", None) != asdict(key):
        raise ValueError("a login of another kind, or for something else")
    known = {item.name for item in fields(Login)} - {"key"}
    values = {name: value for name, value in entries.items() if name in known}
    for name, value in values.items():
        if value is not None and not isinstance(value, _TYPES[name]):
            raise ValueError(f"{name} is of the wrong type")
    return Login(key=key, **values)


_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "access_token": str,
    "refresh_token": str,
    "scope": str,
    "expires_at": (int, float),
    "lifetime_seconds": (int, float),
    "client": dict,
    "authorization_server": dict,
    "protected_resource": dict,
}
