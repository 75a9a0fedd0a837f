"""Credentials of a caller or a run: calls with credentials of their own get such sessions."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, cast
from weakref import ref

from cachetools import LRUCache

from plait._support.gather import resolve
from plait._support.redact import Redactor
from plait._support.threads import lock_across_forks
from plait.client.config.servers import RemoteServer, ServerConfig, StdioServer
from plait.errors import ConfigError

Run = Mapping[str, Any]
"""The configuration of a run, as LangChain passes it: `configurable`, `metadata`, tags."""

_SALT = secrets.token_bytes(16)
"""Makes keys of different processes incomparable, so that a leaked key reveals nothing."""
PRIVATE_IDLE_SECONDS = 900.0
"""How long a session of one user or thread may be idle before it is closed."""
_MAX_KEPT_ALIVE_OBJECTS = 1024
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
        return cls(headers=_text_values(headers), auth=auth, env=_text_values(env), thread=thread)

    @property
    def key(self) -> str:
        """A keyed hash that identifies these credentials without revealing them."""
        auth = None if self.auth is None else _tokens.token_of(self.auth)
        return _digest([_folded_headers(self.headers), auth, sorted(self.env.items()), self.thread])

    def applied_to(self, server: ServerConfig) -> ServerConfig | None:
        """Return the server with these credentials, or `None` if none apply to it."""
        if isinstance(server, RemoteServer):
            auth = server.auth if self.auth is None else self.auth
            headers = server.headers
            if not callable(headers):
                headers = _merge_headers(headers, self.headers)
            elif self.headers:
                headers = _merge_when_called(headers, self.headers)
            changed: ServerConfig = replace(server, headers=headers, auth=auth)
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
    return _digest(_folded_headers(headers))


def _digest(parts: object) -> str:
    data = json.dumps(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=_SALT, digest_size=16).hexdigest()


class _ObjectTokens:
    """Gives each object a token that no other one ever gets; an `id` is used again."""

    def __init__(self) -> None:
        # Reentrant, as a garbage collection in the midst of it may call `_forget`.
        self._lock = lock_across_forks()
        self._weak: dict[int, tuple[ref[object], str]] = {}
        self._strong: LRUCache[int, tuple[object, str]] = LRUCache(_MAX_KEPT_ALIVE_OBJECTS)
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
        headers=_merge_headers(first.headers, second.headers),
        auth=first.auth if second.auth is None else second.auth,
        env={**first.env, **second.env},
        thread=second.thread or first.thread,
    )


def _folded_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    # By name only: of names that differ in case, the order of the values counts for servers.
    return sorted(((name.lower(), text) for name, text in headers.items()), key=itemgetter(0))


def _text_values(values: Any) -> dict[str, str]:
    if values and not isinstance(values, Mapping):
        raise ConfigError("headers and env take a mapping of names to texts")
    entries = cast("Mapping[str, Any]", values or {})
    return {name: str(value) for name, value in entries.items()}


def _merge_when_called(
    own: Callable[..., Any], more: Mapping[str, str]
) -> Callable[[], Awaitable[Mapping[str, str]]]:
    async def merged() -> Mapping[str, str]:
        return _merge_headers(dict(await resolve(own())), more)

    return merged


def _merge_headers(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    replaced = {name.lower() for name in more}
    return {name: text for name, text in own.items() if name.lower() not in replaced} | dict(more)


def takes_run(function: object) -> bool:
    """Say whether a value is a function with a parameter for the run."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return any(parameter.kind in positional for parameter in parameters)


def _run_functions(server: ServerConfig) -> dict[str, Any]:
    """Return the settings of a server that are functions of the run, by name."""
    if isinstance(server, StdioServer):
        return {"env": server.env} if callable(server.env) else {}
    if not isinstance(server, RemoteServer):
        return {}
    found: dict[str, Any] = {}
    if takes_run(server.headers):
        found["headers"] = server.headers
    auth = server.auth
    # An `httpx2.Auth` may be callable, too.
    if inspect.isroutine(auth) or (takes_run(auth) and not hasattr(auth, "async_auth_flow")):
        found["auth"] = auth
    return found


def without_run(server: ServerConfig) -> ServerConfig:
    """Return the server without credentials that depend on the run."""
    changes: dict[str, Any] = {name: {} for name in _run_functions(server)}
    if "auth" in changes:
        changes["auth"] = None
    return replace(server, **changes) if changes else server


def depends_on_run(server: ServerConfig) -> bool:
    """Return whether the credentials or the session of a call depend on its run."""
    return bool(_run_functions(server)) or server.scope == "thread"


async def access_for(name: str, server: ServerConfig, run: Run | None) -> CallerCredentials | None:
    """Return the credentials of a run on a server; the functions run in the caller's loop."""
    values: dict[str, Any] = {}
    for setting, function in _run_functions(server).items():
        try:
            value = await resolve(function(run or {}) if takes_run(function) else function())
        except Exception as error:
            hint = "" if run else "; it was called without a run: pass `config` to get_tools"
            reason = f"{type(error).__name__}: {Redactor().excerpt(str(error))}"
            text = f"{name}: the function for `{setting}` failed: {reason}{hint}"
            raise ConfigError(text, server=name) from error
        if setting != "auth" and value is not None and not isinstance(value, Mapping):
            kind = type(value).__name__
            text = f"{name}: the function for `{setting}` returned a {kind}"
            raise ConfigError(f"{text}; it must return a mapping", server=name)
        values[setting] = value
    if isinstance(token := values.get("auth"), str):
        headers: Mapping[str, Any] = values.get("headers") or {}
        values |= {"auth": None, "headers": {**headers, "Authorization": f"Bearer {token}"}}
    thread = thread_of(run) if server.scope == "thread" else None
    return CallerCredentials.of(
        values.get("headers"), values.get("auth"), env=values.get("env"), thread=thread
    )


def thread_of(run: Run | None) -> str | None:
    """Return the id of the conversation that a run belongs to."""
    configurable: Mapping[str, Any] = (run or {}).get("configurable") or {}
    thread = configurable.get("thread_id")
    return None if thread is None else str(thread)
