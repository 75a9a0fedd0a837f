"""Whom a run acts for: what a server's functions of the run say about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from plait._support.redact import Redactor
from plait.client.calls.tool_call import RunIdentity
from plait.client.config.servers import RemoteServer, ServerConfig, StdioServer
from plait.client.connections.credentials import CallerCredentials
from plait.errors import ConfigError

Run = Mapping[str, Any]
"""The configuration of a run, as LangChain hands it around: `configurable`, `metadata`, tags."""


def takes_run(function: object) -> bool:
    """Say whether something is a function of the run, not one that gives the same to everyone."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return any(one.kind in positional for one in parameters)


def without_run(server: ServerConfig) -> ServerConfig:
    """Return the server as it is for nobody in particular."""
    changes: dict[str, Any] = {}
    if isinstance(server, RemoteServer):
        if takes_run(server.headers):
            changes["headers"] = {}
        if _is_auth_function(server.auth):
            changes["auth"] = None
    elif isinstance(server, StdioServer):
        changes["env"] = server.fixed_env
    return replace(server, **changes) if changes else server


async def access_for(name: str, server: ServerConfig, run: Run | None) -> CallerCredentials | None:
    """Find out whom a run acts for on a server; runs where the caller is.

    Raises:
        ConfigError: A function of the run failed, or returned something that makes no sense.
    """
    headers: Mapping[str, Any] | None = None
    env: Mapping[str, Any] | None = None
    auth: Any = None
    if isinstance(server, RemoteServer):
        if takes_run(server.headers):
            headers = _mapping(name, "headers", await _asked(name, "headers", server.headers, run))
        if _is_auth_function(server.auth):
            auth = await _asked(name, "auth", server.auth, run)
            if isinstance(auth, str):
                headers = {**(headers or {}), "Authorization": f"Bearer {auth}"}
                auth = None
    elif isinstance(server, StdioServer) and callable(server.env):
        env = _mapping(name, "env", await _asked(name, "env", server.env, run))
    thread = thread_of(run) if server.scope == "thread" else None
    return CallerCredentials.of(headers, auth, env=env, thread=thread)


def thread_of(run: Run | None) -> str | None:
    """Return the conversation that a run belongs to."""
    asked: Mapping[str, Any] = (run or {}).get("configurable") or {}
    thread = asked.get("thread_id")
    return None if thread is None else str(thread)


def mark_of(run: Run | None) -> RunIdentity | None:
    """Say which run, and which conversation, a call belongs to; `None` where nothing is known."""
    key, thread = (run or {}).get("run_id"), thread_of(run)
    return None if key is None and thread is None else RunIdentity(key=key, thread=thread)


def _is_auth_function(auth: object) -> bool:
    return inspect.isroutine(auth) or (takes_run(auth) and not hasattr(auth, "async_auth_flow"))


async def _asked(name: str, setting: str, function: Any, run: Run | None) -> Any:
    ask = cast("Callable[..., Any]", function)
    try:
        answer = ask(run or {}) if takes_run(ask) else ask()
        return await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        hint = "" if run else "; it was asked without a run: give `config` to get_tools"
        said = f"{type(error).__name__}: {Redactor().excerpt(str(error))}"
        raise ConfigError(
            f"{name}: the function for `{setting}` failed: {said}{hint}",
            server=name,
        ) from error


def _mapping(name: str, setting: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise ConfigError(
            f"{name}: the function for `{setting}` returned a {kind}; it returns a mapping",
            server=name,
        )
    return cast("Mapping[str, Any]", value)
