"""What `plait doctor` looks at to judge how a server is signed in to."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plait.client.config.oauth import OAuth
from plait.client.config.secret_names import looks_secret
from plait.client.config.servers import HttpServer, RemoteOptions, ServerConfig, SseServer
from plait.errors import AuthRequiredError, ConfigError, PlaitError

if TYPE_CHECKING:
    from plait.client.transports.auth.login import LoginStatus
    from plait.client.transports.auth.probe import SignInFacts

_SHORTEST = 6
"""A shorter value may stand in a file for many reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSeen:
    """How one server is signed in to; it holds nothing secret."""

    at: float
    """When it was looked at, in seconds since 1970."""

    login: LoginStatus | None = None

    facts: SignInFacts | None = None
    """What the server and its authorization server say; `None` where nobody was asked."""

    store_failure: str | None = None
    """Why the login cannot be read."""

    open_file: str | None = None
    """The file of the login, if others can read it."""

    plain_secrets: tuple[str, ...] = ()
    """Settings whose secret is written into the configuration file."""


async def look_at_auth(
    name: str, server: ServerConfig, error: PlaitError | None, written: str
) -> AuthSeen | None:
    """Look at the login of a server and, where one is wanted, at who grants it.

    `error` is why the server could not be used, and `written` the text of the configuration.
    """
    from plait.client.transports.auth.login import login_file, login_status
    from plait.client.transports.auth.probe import look_at_sign_in

    if not isinstance(server, RemoteOptions):
        return None
    login, failure, open_file = None, None, None
    try:
        login = await login_status(name, server)
        open_file = _open_to_others(login_file(server))
    except ConfigError as unreadable:
        failure = unreadable.message
    facts = None
    asked = isinstance(server.auth, OAuth) or isinstance(error, AuthRequiredError)
    if asked and isinstance(server, HttpServer | SseServer):
        facts = await look_at_sign_in(name, server)
    return AuthSeen(
        at=time.time(),
        login=login,
        facts=facts,
        store_failure=failure,
        open_file=open_file,
        plain_secrets=plain_secrets(server, written),
    )


def plain_secrets(server: RemoteOptions, written: str) -> tuple[str, ...]:
    """Name the settings of a server whose secret stands as it is in the configuration."""
    settings: dict[str, str | None] = {}
    if not callable(server.headers):
        settings = {
            f"headers.{name}": value for name, value in server.headers.items() if looks_secret(name)
        }
    if isinstance(server.auth, OAuth):
        settings["auth.client_secret"] = server.auth.client_secret
        settings["auth.private_key"] = server.auth.private_key
    return tuple(name for name, value in settings.items() if value and _stands_in(value, written))


def _stands_in(value: str, written: str) -> bool:
    # Of "Bearer abc" the key counts, and of a key in lines, which JSON escapes, one of the lines.
    longest = max(value.split(), key=len, default="")
    return len(longest) >= _SHORTEST and longest in written


def _open_to_others(path: Path | None) -> str | None:
    if path is None or os.name == "nt" or not path.exists():
        return None
    return str(path) if path.stat().st_mode & 0o077 else None
