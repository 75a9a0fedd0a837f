"""Credentials of a caller: calls with their own credentials get sessions of their own."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, cast
from weakref import ref

from cachetools import LRUCache

from plait._support.threads import lock_across_forks
from plait.client.config.servers import Headers, RemoteServer, ServerConfig, StdioServer
from plait.errors import ConfigError

_SALT = secrets.token_bytes(16)
"""Makes keys of different processes incomparable, so that a leaked key reveals nothing."""
PRIVATE_IDLE_SECONDS = 900.0
"""How long a session of one user or thread may be idle before it is closed."""
_MOST_KEPT_ALIVE = 1024
"""Of how many objects without weak references the token is remembered."""


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
        auth = None if self.auth is None else _tokens.token_of(self.auth)
        return _digest([_folded(self.headers), auth, sorted(self.env.items()), self.thread])

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


def digest_of_headers(headers: Mapping[str, str]) -> str:
    """Return a keyed hash of headers, whatever the order and the case of their names."""
    return _digest(_folded(headers))


def _digest(parts: object) -> str:
    data = json.dumps(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=_SALT, digest_size=16).hexdigest()


class _ObjectTokens:
    """Gives each object a token that no other one ever gets; an `id` is used again."""

    def __init__(self) -> None:
        # Reentrant, as a garbage collection in the midst of it may call `_forget`.
        self._lock = lock_across_forks()
        self._weak: dict[int, tuple[ref[object], str]] = {}
        self._strong: LRUCache[int, tuple[object, str]] = LRUCache(_MOST_KEPT_ALIVE)
        """Objects without weak references are kept alive, so that their id stays theirs."""

    def token_of(self, one: object) -> str:
        """Return the token of an object, from any thread."""
        key = id(one)
        with self._lock:
            weak, strong = self._weak.get(key), self._strong.get(key)
            if weak is not None and weak[0]() is one:
                return weak[1]
            if strong is not None and strong[0] is one:
                return strong[1]
            token = secrets.token_hex(16)
            try:
                self._weak[key] = (ref(one, lambda gone: self._forget(key, gone)), token)
            except TypeError:
                self._strong[key] = (one, token)
            return token

    def _forget(self, key: int, gone: ref[object]) -> None:
        with self._lock:
            known = self._weak.get(key)
            if known is not None and known[0] is gone:
                del self._weak[key]


_tokens = _ObjectTokens()


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


def _folded(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    # By name only: of names that differ in case, the order of the values counts for servers.
    return sorted(((name.lower(), text) for name, text in headers.items()), key=itemgetter(0))


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
