"""Reading one server: its transport, its keys, and the typed value they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from plait._support.dotenv import DotenvError, parse_dotenv
from plait.client.config.key_table import read_table
from plait.client.config.keys import server_keys
from plait.client.config.raw_value import RawValue, as_mapping
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
    ServerConfig,
    SseServer,
    StdioServer,
    TransportName,
    WebSocketServer,
)
from plait.client.config.timing import Timeouts
from plait.client.config.transport import choose_transport
from plait.client.config.value_types import read_bool

_CLASSES: Final[dict[TransportName, type[ServerConfig]]] = {
    "stdio": StdioServer,
    "http": HttpServer,
    "sse": SseServer,
    "websocket": WebSocketServer,
    "in-process": InProcessServer,
}


def read_server(raw: RawValue) -> ServerConfig | None:
    """Read a server from an object, a typed value, or an MCP server in this process.

    Returns `None` after recording why the server cannot be used.
    """
    value = raw.value
    if isinstance(value, (StdioServer, HttpServer, SseServer, WebSocketServer, InProcessServer)):
        return value
    if is_mcp_server(value):
        return InProcessServer(server=cast("Any", value))
    if as_mapping(value) is None:
        hint = 'write {"command": …} or {"url": …}'
        raw.wrong_type("a server", hint)
        return None
    known = len(raw.location.problems.errors)
    transport = choose_transport(raw)
    values = read_table(raw, server_keys(transport))
    if transport == "stdio":
        _finish_stdio(raw, values)
    if transport is None or len(raw.location.problems.errors) > known:
        return None
    return _build(raw, _CLASSES[transport], values)


def is_disabled(raw: RawValue) -> bool:
    """Say whether a server is switched off; a disabled server is not looked into further."""
    entry = as_mapping(raw.value) or {}
    off = entry.get("disabled")
    on = entry.get("enabled")
    disabled = read_bool(raw.child("disabled", off)) if off is not None else False
    enabled = read_bool(raw.child("enabled", on)) if on is not None else True
    return disabled is True or enabled is False


def is_mcp_server(value: object) -> bool:
    """Say whether a value is a server object of the MCP SDK, without importing the SDK."""
    return any(
        cls.__name__ in ("MCPServer", "Server") and cls.__module__.startswith("mcp.server")
        for cls in type(value).__mro__
    )


def _build(raw: RawValue, cls: type[ServerConfig], values: dict[str, Any]) -> ServerConfig:
    waits = {name: value for name, value in values.items() if name.startswith("timeouts.")}
    fields = {name: value for name, value in values.items() if name not in waits}
    timeouts = Timeouts(**{name.removeprefix("timeouts."): value for name, value in waits.items()})
    secrets = frozenset(raw.variables.secrets)
    return cls(**fields, timeouts=timeouts, secrets=secrets, source=raw.location.file)


def _finish_stdio(raw: RawValue, values: dict[str, Any]) -> None:
    """Resolve paths, add the variables of the env file, and look at the command."""
    home = str(raw.variables.home)
    for name in ("command", "cwd", "env_file"):
        if name in values and (values[name] == "~" or values[name].startswith("~/")):
            values[name] = home + values[name][1:]
    if "cwd" in values and raw.location.file is not None:
        values["cwd"] = str((raw.variables.folder / values["cwd"]).absolute())
    if "env_file" in values:
        values["env"] = {**_read_env_file(raw, values.pop("env_file")), **values.get("env", {})}
    first, blank, _ = values.get("command", "").strip().partition(" ")
    if blank and not values.get("args") and not {"/", "\\"} & set(first):
        raw.location.at("command").warn(
            "command_line",
            "looks like a whole command line",
            f'write "command": "{first}", and the other words into "args"',
        )


def _read_env_file(raw: RawValue, name: str) -> dict[str, str]:
    entry = raw.child("envFile" if "envFile" in (as_mapping(raw.value) or {}) else "env_file", name)
    path = raw.variables.folder / Path(name)
    try:
        return parse_dotenv(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        entry.reject("file_missing", f"there is no file {path}")
    except DotenvError as error:
        entry.reject("bad_env_file", f"{path}: {error}")
    except (OSError, UnicodeDecodeError) as error:
        entry.reject("file_unreadable", f"{path} cannot be read: {type(error).__name__}")
    return {}
