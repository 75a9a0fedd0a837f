"""Credentials of a caller: calls with their own credentials get sessions of their own."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from plait.client.config.servers import Headers, RemoteServer, ServerConfig, StdioServer
from plait.errors import ConfigError

_SALT = secrets.token_bytes(16)
"""Makes keys of different processes incomparable, so that a leaked key reveals nothing."""
PRIVATE_IDLE_SECONDS = 900.0
"""How long a session of one user or thread may be idle before it is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerCredentials:
    """Headers, authentication and environment of some calls, on top of the server's own."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: Any = field(default=None, repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    thread: str | None = None
    """The conversation that has a session to itself."""

    @classmethod
    def of(
        cls,
        headers: Mapping[str, Any] | None = None,
        auth: Any = None,
        *,
        env: Mapping[str, Any] | None = None,
        thread: str | None = None,
    ) -> CallerCredentials | None:
        """Build credentials, or return `None` if all parts are empty."""
        if not headers and not env and auth is None and thread is None:
            return None
        return cls(headers=_texts(headers), auth=auth, env=_texts(env), thread=thread)

    @property
    def key(self) -> str:
        """A keyed hash that identifies these credentials without revealing them."""
        headers = sorted((name.lower(), text) for name, text in self.headers.items())
        auth = None if self.auth is None else id(self.auth)
        parts = json.dumps([headers, auth, sorted(self.env.items()), self.thread])
        data = parts.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=_SALT, digest_size=16).hexdigest()

    def applied_to(self, server: ServerConfig) -> ServerConfig | None:
        """Return the server with these credentials, or `None` if none apply to it."""
        if isinstance(server, RemoteServer):
            auth = server.auth if self.auth is None else self.auth
            changed: ServerConfig = replace(
                server, headers=_joined(server.headers, self.headers), auth=auth
            )
        elif isinstance(server, StdioServer) and self.env:
            changed = replace(server, env={**server.fixed_env, **self.env})
        elif self.thread is not None:
            changed = server
        else:
            return None
        if changed.idle_seconds is None or self.thread is not None:
            changed = replace(changed, idle_seconds=PRIVATE_IDLE_SECONDS)
        return changed


def join(
    first: CallerCredentials | None, second: CallerCredentials | None
) -> CallerCredentials | None:
    """Return the union of two credentials; the second's values win."""
    if first is None or second is None:
        return first or second
    return CallerCredentials(
        headers=_merged(first.headers, second.headers),
        auth=first.auth if second.auth is None else second.auth,
        env={**first.env, **second.env},
        thread=second.thread or first.thread,
    )


def _texts(values: Any) -> dict[str, str]:
    if values and not isinstance(values, Mapping):
        raise ConfigError("headers and env take a mapping of names to texts")
    entries = cast("Mapping[str, Any]", values or {})
    return {name: str(value) for name, value in entries.items()}


def _joined(own: Headers, more: Mapping[str, str]) -> Headers:
    if not callable(own):
        return _merged(own, more)

    async def joined() -> Mapping[str, str]:
        headers: Any = own()
        if inspect.isawaitable(headers):
            headers = await headers
        return _merged(dict(headers), more)

    return joined if more else own


def _merged(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    replaced = {name.lower() for name in more}
    return {name: text for name, text in own.items() if name.lower() not in replaced} | dict(more)
