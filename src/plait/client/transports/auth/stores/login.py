"""A stored login, its key, and the interface of token stores."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Protocol, cast, runtime_checkable

_AHEAD_SECONDS: Final = 60.0
"""Tokens are renewed this long before they expire, so that a call under way can finish."""

_AHEAD_SHARE: Final = 0.25
"""A short-lived token is renewed in the last quarter of its lifetime."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginKey:
    """Identifies a login; logins that differ in any field are kept apart."""

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
        """A hash of the key, as a file name."""
        parts = (self.resource, self.grant, self.issuer, self.client, self.user)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The tokens and metadata of one sign-in; `repr` shows no secrets."""

    key: LoginKey

    access_token: str | None = field(default=None, repr=False)

    refresh_token: str | None = field(default=None, repr=False)

    scope: str | None = None

    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; `None` if unknown."""

    lifetime_seconds: float | None = None
    """How long the access token was good for when it was new."""

    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """The registered client, as OAuth JSON."""

    authorization_server: Mapping[str, Any] | None = field(default=None, repr=False)
    """The authorization server's metadata, so that renewing needs no discovery."""

    protected_resource: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def issuer(self) -> str | None:
        """The authorization server that granted it."""
        issuer = (self.authorization_server or {}).get("issuer")
        return issuer if isinstance(issuer, str) else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown."""
        client_secret = (self.client or {}).get("client_secret")
        found = (self.access_token, self.refresh_token, client_secret)
        return tuple(value for value in found if isinstance(value, str))

    def is_due(self, now: float) -> bool:
        """Return whether the access token has expired or is about to."""
        if self.expires_at is None:
            return False
        lifetime = math.inf if self.lifetime_seconds is None else self.lifetime_seconds
        return now >= self.expires_at - min(_AHEAD_SECONDS, _AHEAD_SHARE * lifetime)

    def is_over(self, now: float) -> bool:
        """Return whether the access token has expired."""
        return self.expires_at is not None and now >= self.expires_at


@runtime_checkable
class TokenStore(Protocol):
    """Stores logins; used from several loops, threads and processes at once."""

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key, if there is one."""
        ...

    async def save(self, login: Login) -> None:
        """Save a login, replacing the previous one.

        Raises:
            PlaitError: It cannot be saved; the previous one is still there.
        """
        ...

    async def forget(self, key: LoginKey) -> None:
        """Delete the login of this key, if there is one."""
        ...

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep others from renewing the same login while the context is open."""
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
