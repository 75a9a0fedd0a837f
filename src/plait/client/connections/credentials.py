"""Who a call is made for: whoever brings credentials of their own gets sessions of their own."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plait.client.config.servers import Headers, RemoteServer, ServerConfig, StdioServer

_SALT = secrets.token_bytes(16)
"""Keys of different processes cannot be compared, so that a leaked one tells nothing."""

PRIVATE_IDLE_SECONDS = 900.0
"""A session that serves one user or thread is closed after so long without a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerCredentials:
    """Headers, authentication and environment for some calls, on top of the server's own."""

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
        """Make one, or `None` where nothing is given."""
        if not headers and not env and auth is None and thread is None:
            return None
        return cls(headers=_texts(headers), auth=auth, env=_texts(env), thread=thread)

    def joined(self, other: CallerCredentials | None) -> CallerCredentials:
        """Return both; what the other says wins."""
        if other is None:
            return self
        return CallerCredentials(
            headers=_merged(self.headers, other.headers),
            auth=self.auth if other.auth is None else other.auth,
            env={**self.env, **other.env},
            thread=other.thread or self.thread,
        )

    @property
    def key(self) -> str:
        """A name for these credentials from which they cannot be learned."""
        headers = sorted((name.lower(), text) for name, text in self.headers.items())
        auth = None if self.auth is None else id(self.auth)
        told = json.dumps([headers, auth, sorted(self.env.items()), self.thread])
        text = told.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=_SALT, digest_size=16).hexdigest()

    def applied_to(self, server: ServerConfig) -> ServerConfig | None:
        """Return the server with these credentials, or `None` if they mean nothing to it."""
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
    """Return both of two accesses; what the second says wins."""
    return second if first is None else first.joined(second)


def _texts(given: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (given or {}).items()}


def _joined(own: Headers, more: Mapping[str, str]) -> Headers:
    if not callable(own):
        return _merged(own, more)

    async def joined() -> Mapping[str, str]:
        made: Any = own()
        if inspect.isawaitable(made):
            made = await made
        return _merged(dict(made), more)

    return joined if more else own


def _merged(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    replaced = {name.lower() for name in more}
    return {name: text for name, text in own.items() if name.lower() not in replaced} | dict(more)
