"""The credentials of a run: calling the functions that a server's configuration has for them."""

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
"""The configuration of a run, as LangChain passes it: `configurable`, `metadata`, tags."""


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


def without_run(server: ServerConfig) -> ServerConfig:
    """Return the server without credentials that depend on the run."""
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
    """Return the credentials of a run on a server; the functions run in the caller's loop.

    Raises:
        ConfigError: A function failed, or returned a value of the wrong type.
    """
    headers: Mapping[str, Any] | None = None
    env: Mapping[str, Any] | None = None
    auth: Any = None
    if isinstance(server, RemoteServer):
        if takes_run(server.headers):
            headers = _mapping(name, "headers", await _value(name, "headers", server.headers, run))
        if _is_auth_function(server.auth):
            auth = await _value(name, "auth", server.auth, run)
            if isinstance(auth, str):
                headers = {**(headers or {}), "Authorization": f"Bearer {auth}"}
                auth = None
    elif isinstance(server, StdioServer) and callable(server.env):
        env = _mapping(name, "env", await _value(name, "env", server.env, run))
    thread = thread_of(run) if server.scope == "thread" else None
    return CallerCredentials.of(headers, auth, env=env, thread=thread)


def thread_of(run: Run | None) -> str | None:
    """Return the id of the conversation that a run belongs to."""
    configurable: Mapping[str, Any] = (run or {}).get("configurable") or {}
    thread = configurable.get("thread_id")
    return None if thread is None else str(thread)


def run_identity_of(run: Run | None) -> RunIdentity | None:
    """Return the run and conversation of a call; `None` if it has neither."""
    key, thread = (run or {}).get("run_id"), thread_of(run)
    return None if key is None and thread is None else RunIdentity(key=key, thread=thread)


def _is_auth_function(auth: object) -> bool:
    return inspect.isroutine(auth) or (takes_run(auth) and not hasattr(auth, "async_auth_flow"))


async def _value(name: str, setting: str, function: Any, run: Run | None) -> Any:
    call = cast("Callable[..., Any]", function)
    try:
        value = call(run or {}) if takes_run(call) else call()
        return await value if inspect.isawaitable(value) else value
    except Exception as error:
        hint = "" if run else "; it was called without a run: pass `config` to get_tools"
        reason = f"{type(error).__name__}: {Redactor().excerpt(str(error))}"
        raise ConfigError(
            f"{name}: the function for `{setting}` failed: {reason}{hint}",
            server=name,
        ) from error


def _mapping(name: str, setting: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise ConfigError(
            f"{name}: the function for `{setting}` returned a {kind}; it must return a mapping",
            server=name,
        )
    return cast("Mapping[str, Any]", value)
