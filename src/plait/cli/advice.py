"""Errors as printed on the terminal: what happened, and advice, one line per cause.

Causes are identified by error class, HTTP status and operating system errors in the chain of
causes, never by the text of a message.
"""

from __future__ import annotations

import errno
import shlex
import shutil
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import cast
from urllib.parse import urlsplit

import click

from plait import errors
from plait._support.front_door import missing_extra
from plait._support.redact import HIDDEN, Redactor
from plait.cli.base import settings_of
from plait.cli.exits import ArgumentError
from plait.cli.terminal import print_aside, visible, wrapped
from plait.cli.trust import WAY_OUT, WAY_OUT_OF_MANIFEST
from plait.client.config.oauth_settings import OAuth
from plait.client.config.secrets import secret_values
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import public_url
from plait.errors import ConfigError, PlaitError, Problem

_INSTALLERS = {
    "npx": "install Node.js (it brings npx)",
    "npm": "install Node.js (it brings npm)",
    "node": "install Node.js",
    "bunx": "install Bun (it brings bunx)",
    "deno": "install Deno",
    "uvx": "install uv (it brings uvx)",
    "uv": "install uv",
    "pipx": "install pipx",
    "docker": "install Docker and start it",
    "python": 'use "python3", or give the full path of the interpreter',
}
"""How to install the programs that most server configurations start."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The cause of an error, as a stable short name, and how to fix it."""

    code: str
    fix: str | None = None


def advice_for(error: PlaitError, server: ServerConfig | None = None) -> Advice:
    """Return the cause of an error and how to fix it; `server` makes it specific."""
    server_name = error.server or ""
    match error:
        case errors.UntrustedConfigError():
            is_manifest = "ToolingManifest.json was found" in str(error)
            return Advice("untrusted", WAY_OUT_OF_MANIFEST if is_manifest else WAY_OUT)
        case errors.ConfigError():
            return Advice("config")
        case errors.AuthRequiredError():
            fix = (
                'set the Authorization header: "headers": {"Authorization": "Bearer ${TOKEN}"}, '
                'or sign in: "auth": "oauth"'
            )
            if isinstance(server, RemoteOptions) and isinstance(server.auth, OAuth):
                fix = f"plait auth login {server_name}".rstrip()
                if server.auth.grant == "client_credentials":
                    fix = "check client_id, its secret or key, and the scopes"
            return Advice("auth_required", fix)
        case errors.ForbiddenError():
            reason = "the credentials are valid, but do not permit this"
            return Advice("forbidden", error.login or reason)
        case errors.RateLimitedError():
            wait = f"{error.retry_after:g} s" if error.retry_after is not None else "a while"
            return Advice("rate_limited", f"wait {wait}, then try again")
        case errors.ServerError():
            return Advice("server_error", "the server failed: check its log")
        case errors.OutcomeUnknownError():
            return Advice("outcome_unknown", "check whether it ran before repeating it")
        case errors.CallTimeoutError():
            return Advice("call_timeout", "wait longer with --timeout SECONDS")
        case errors.ListTimeoutError():
            fix = "the server is connected but does not respond: restart it"
            return Advice("list_timeout", fix)
        case errors.ToolNotFoundError():
            return Advice("tool_not_found", f"list them: plait tools {server_name}".rstrip())
        case errors.ResourceNotFoundError():
            fix = f"list them: plait resources {server_name}".rstrip()
            return Advice("resource_not_found", fix)
        case errors.TransportError():
            return _transport_advice(error, server)
        case errors.ProtocolError():
            return Advice("protocol")
        case errors.TokenError():
            return Advice("token", "set BEARER_TOKEN, or BEARER_TOKEN_<SERVER> for one server")
        case errors.DiscoveryError() | errors.ChatHistoryError():
            return Advice("gateway", "check MCP_PLATFORM_ENDPOINT; `plait gateway mock` serves one")
        case _:
            return Advice("other")


def _transport_advice(error: errors.TransportError, server: ServerConfig | None) -> Advice:
    if isinstance(error, errors.CircuitOpenError) and isinstance(error.__cause__, PlaitError):
        return advice_for(error.__cause__, server)
    if isinstance(error, errors.McpVersionError):
        command = "…"
        if isinstance(server, StdioServer):
            # The interpreter of another environment would not see that of uv.
            name = PurePath(server.command).name
            program = "python" if name.startswith("python") else server.command
            command = target_of(replace(server, command=program))
        fix = (
            f"an environment of its own: uv run --no-project --with '{error.requirement}' {command}"
        )
        return Advice("mcp_version", fix)
    if isinstance(error, errors.EndpointNotFoundError):
        path = urlsplit(server.url).path if isinstance(server, RemoteOptions) else ""
        others = [common for common in ("/mcp", "/sse") if common != path.rstrip("/")]
        fix = f"check the path of the URL (try {' or '.join(others)})"
        return Advice("endpoint_not_found", fix)
    is_late = isinstance(error, errors.ConnectTimeoutError)
    if isinstance(server, StdioServer):
        if server.cwd and not Path(server.cwd).is_dir():
            return Advice("no_such_folder", f'create the folder, or correct "cwd": {server.cwd}')
        if not Path(server.command).exists() and not is_on_path(server):
            return Advice("command_not_found", command_fix(server.command))
        if any(isinstance(cause, PermissionError) for cause in causes_of(error)):
            return Advice("not_executable", f"make it executable: chmod +x {server.command}")
        if not is_late:
            return Advice("start_failed", f"run it in a terminal to see why: {target_of(server)}")
    elif advice := _network_advice(error, server):
        return advice
    if is_late:
        how = "run its command in a terminal to see why"
        if not isinstance(server, StdioServer):
            how = "check that an MCP server listens there"
        return Advice("connect_timeout", f'{how}, or raise "connect_timeout"')
    if isinstance(server, RemoteOptions):
        return Advice("unreachable", _running_fix(server))
    return Advice("unreachable")


def is_on_path(server: StdioServer) -> bool:
    """Return whether the command of a server is found on its `PATH`."""
    return shutil.which(server.command, path=server.fixed_env.get("PATH")) is not None


def command_fix(command: str) -> str:
    """Return how to install a missing program."""
    program = PurePath(command).name.removesuffix(".exe").removesuffix(".cmd")
    if program == command and program in _INSTALLERS:
        return f"{_INSTALLERS[program]}, or give its full path"
    if program != command:
        return "check the path: there is no such file"
    return "install it, or give its full path"


def _network_advice(error: PlaitError, server: ServerConfig | None) -> Advice | None:
    for cause in causes_of(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return Advice("certificate", "its certificate is not trusted: set SSL_CERT_FILE")
            case ssl.SSLError():
                return Advice("tls", "check whether the URL needs http:// or https://")
            case socket.gaierror():
                return Advice("unknown_host", "check the host name in the URL")
            case ConnectionRefusedError():
                return Advice("refused", _running_fix(server))
            case OSError() if cause.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH}:
                return Advice("no_route", "check the network, VPN or proxy")
            case _:
                continue
    return None


def _running_fix(server: ServerConfig | None) -> str:
    place = address_of(server) if server else None
    return f"is the server running{f' at {place}' if place else ''}? start it, or correct the URL"


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, including those in exception groups, nearest first."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(cast("BaseExceptionGroup[BaseException]", current).exceptions)
        if current.__cause__ is not None:
            waiting.append(current.__cause__)
        elif current.__context__ is not None:
            waiting.append(current.__context__)


def target_of(server: ServerConfig) -> str:
    """Return the command line or the URL of a server, without secrets."""
    redact = Redactor(secret_values(server))
    match server:
        case StdioServer():
            words = [redact(word) for word in (server.command, *server.args)]
            return " ".join(word if HIDDEN in word else shlex.quote(word) for word in words)
        case RemoteOptions():
            return redact(public_url(server.url))
        case _:
            return "in this process"


def address_of(server: ServerConfig) -> str | None:
    """Return `host:port` of a server with a URL."""
    if not isinstance(server, RemoteOptions):
        return None
    parts = urlsplit(server.url)
    default_port = 443 if parts.scheme in {"https", "wss"} else 80
    try:
        port = parts.port or default_port
    except ValueError:
        port = default_port
    return f"{parts.hostname}:{port}"


@dataclass(frozen=True, slots=True)
class Block:
    """An error as printed."""

    headline: str
    details: tuple[str, ...] = ()
    hint: str | None = None


def show_failure(ctx: click.Context, error: Exception) -> None:
    """Print an error on stderr as a short block, with the traceback under `-v`."""
    settings = settings_of(ctx)
    if settings.verbosity:
        import traceback

        secrets = [one for each in settings.servers.values() for one in secret_values(each)]
        text = "".join(traceback.format_exception(error))
        click.echo(visible(Redactor(secrets)(text)), err=True)
    server = error.server if isinstance(error, PlaitError) else None
    block = block_for(error, settings.servers.get(server or ""))
    print_aside("error", block.headline, colour="red")
    for line in block.details:
        click.echo(wrapped(f"  {visible(line)}", sys.stderr, indent=4), err=True)
    if block.hint:
        print_aside("hint", block.hint, colour="cyan")


def block_for(error: Exception, server: ServerConfig | None = None) -> Block:
    """Format an error; every problem of a configuration has its own line."""
    match error:
        case ConfigError() if error.problems:
            problems = error.problems
            if len(problems) == 1:
                (problem,) = problems
                return Block(_line(problem, problem.file), hint=problem.suggestion)
            files = {problem.file for problem in problems}
            shared = files.pop() if len(files) == 1 else None
            details: list[str] = []
            for problem in problems:
                details.append(_line(problem, None if shared else problem.file))
                if problem.suggestion:
                    details.append(f"    fix: {problem.suggestion}")
            return Block(
                f"{len(problems)} problems in {shared or 'the configuration'}", tuple(details)
            )
        case PlaitError():
            headline, *details = str(error).splitlines() or [type(error).__name__]
            return Block(headline, tuple(details), advice_for(error, server).fix)
        case ArgumentError():
            return Block(str(error), hint=error.hint)
        case ModuleNotFoundError():
            return Block(str(missing_extra("this command", error)))
        case OSError() if error.filename is not None:
            return Block(f"{error.filename}: {error.strerror}")
        case _:
            name = type(error).__name__
            return Block(f"internal error: {name}: {error}", hint="-v shows the traceback")


def _line(problem: Problem, file: str | None) -> str:
    return ": ".join(part for part in (file, problem.path, problem.message) if part)
