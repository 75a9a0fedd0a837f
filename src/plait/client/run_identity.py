"""The credentials of a run: calling the functions that a server's configuration has for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from plait._support.gather import resolve
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


def _run_functions(server: ServerConfig) -> dict[str, Any]:
    """Return the settings of a server that are functions of the run, by name."""
    depends: dict[str, bool] = {}
    if isinstance(server, RemoteServer):
        depends = {"headers": takes_run(server.headers), "auth": _is_auth_function(server.auth)}
    elif isinstance(server, StdioServer):
        depends = {"env": callable(server.env)}
    return {name: getattr(server, name) for name, is_function in depends.items() if is_function}


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
    """Return the credentials of a run on a server; the functions run in the caller's loop.

    Raises:
        ConfigError: A function failed, or returned a value of the wrong type.
    """
    values = {
        setting: await _value(name, setting, function, run)
        for setting, function in _run_functions(server).items()
    }
    if isinstance(token := values.get("auth"), str):
        del values["auth"]
        values["headers"] = {**values.get("headers", {}), "Authorization": f"Bearer {token}"}
    thread = thread_of(run) if server.scope == "thread" else None
    return CallerCredentials.of(
        values.get("headers"), values.get("auth"), env=values.get("env"), thread=thread
    )


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


async def _value(name: str, setting: str, function: Callable[..., Any], run: Run | None) -> Any:
    try:
        value = await resolve(function(run or {}) if takes_run(function) else function())
    except Exception as error:
        hint = "" if run else "; it was called without a run: pass `config` to get_tools"
        reason = f"{type(error).__name__}: {Redactor().excerpt(str(error))}"
        text = f"{name}: the function for `{setting}` failed: {reason}{hint}"
        raise ConfigError(text, server=name) from error
    if setting == "auth" or isinstance(value, Mapping):
        return cast("Any", value)
    if value is not None:
        kind = type(value).__name__
        text = f"{name}: the function for `{setting}` returned a {kind}; it must return a mapping"
        raise ConfigError(text, server=name)
    return {}
