"""Reading a configuration, from a file or from Python values, into typed servers."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard, cast, get_args
from urllib.parse import urlsplit

from plait._support.dotenv import DotenvError, parse_dotenv
from plait._support.suggestions import did_you_mean, nearest
from plait.client.config.document import load_document
from plait.client.config.file_layouts import ConfigLayout, find_layout
from plait.client.config.key_table import read_table
from plait.client.config.keys import CLIENT_KEYS, server_keys
from plait.client.config.raw_value import (
    Location,
    Problems,
    RawValue,
    RejectedError,
    as_mapping,
    describe,
)
from plait.client.config.servers import InProcessServer, ServerConfig, TransportName
from plait.client.config.timing import Timeouts
from plait.client.config.urls import url_fault
from plait.client.config.value_types import quote, read_bool
from plait.client.config.variables import Ask, InputRequest, Variables

if TYPE_CHECKING:
    from plait.errors import Problem

__all__ = ["Ask", "ClientConfig", "ConfigSource", "InputRequest", "read_config"]

logger = logging.getLogger("plait.client.config")

_CLASSES: Final[dict[TransportName, type[ServerConfig]]] = {
    cls.transport: cls for cls in get_args(ServerConfig)
}

_SPELLINGS: Final[dict[str, TransportName]] = {
    **{name: name for name in _CLASSES},
    "streamable_http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "ws": "websocket",
}


def _letters(spelling: str) -> str:
    return re.sub(r"[^a-z]", "", spelling.lower())


_BY_LETTERS: Final[dict[str, TransportName]] = {
    _letters(spelling): name for spelling, name in _SPELLINGS.items()
}

_NEEDED: Final[dict[TransportName, str]] = {
    **dict.fromkeys(("http", "sse", "websocket"), "url"),
    "stdio": "command",
    "in-process": "server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """A validated configuration: the servers and the client's options."""

    servers: Mapping[str, ServerConfig]
    disabled: tuple[str, ...] = ()
    """Servers that are configured but switched off."""
    default_tool_timeout: float | None = None
    """Seconds for one call on servers that set none; `None` is 60."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """The other options of the client, by their snake_case names, durations in seconds."""
    warnings: tuple[Problem, ...] = ()
    source: str | None = None
    """The file it was read from."""


ConfigSource = Mapping[str, object] | str | os.PathLike[str] | ClientConfig
"""What a configuration can be read from."""


def read_config(
    source: ConfigSource,
    *,
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
    ask: Ask | None = None,
) -> ClientConfig:
    """Read servers, or a whole configuration, from a mapping or from the file at a path.

    `base` is the folder of relative paths and of `${workspaceFolder}`, by default that of the
    file, or the current one. `environ` replaces the process environment. `ask` prompts for the
    value of an `${input:…}`.

    Raises:
        ConfigError: Anything is wrong; `problems` lists all of it.
    """
    if isinstance(source, ClientConfig):
        return source
    problems = Problems()
    document = load_document(source, problems, base)
    layout = find_layout(document.value, document.location) if document else None
    if document is None or layout is None:
        problems.finish(logger)
        raise AssertionError("unreachable: a source that cannot be read has recorded why")
    variables = Variables.of(environ, document.folder, layout.inputs, ask)
    options = read_table(RawValue(layout.options, document.location, variables), CLIENT_KEYS)
    servers, disabled = _read_servers(layout, variables)
    problems.finish(logger)
    return ClientConfig(
        servers=servers,
        disabled=disabled,
        default_tool_timeout=options.pop("default_tool_timeout", None),
        options=options,
        warnings=tuple(problems.warnings),
        source=document.location.file,
    )


def read_options(options: Mapping[str, object]) -> dict[str, Any]:
    """Check client options passed in Python, under the names they have in files.

    Raises:
        ConfigError: Anything is wrong; `problems` lists all of it.
    """
    if not options:
        return {}
    problems = Problems()
    read = read_table(RawValue(options, Location(problems), Variables.of(None)), CLIENT_KEYS)
    problems.finish(logger)
    return read


def _read_servers(
    layout: ConfigLayout, variables: Variables
) -> tuple[dict[str, ServerConfig], tuple[str, ...]]:
    servers: dict[str, ServerConfig] = {}
    disabled: list[str] = []
    for name, value in layout.servers.items():
        if not _is_server_name(name, layout.location):
            continue
        raw = RawValue(value, layout.location.at(name), variables.for_server())
        if _is_disabled(raw):
            disabled.append(name)
        else:
            with suppress(RejectedError):
                servers[name] = _read_server(raw)
    return servers, tuple(disabled)


def _is_server_name(name: object, location: Location) -> TypeGuard[str]:
    if not isinstance(name, str):
        location.error("bad_name", f"the name of a server is a string, found {describe(name)}")
    elif not name.strip():
        location.error("bad_name", "the name of a server must not be empty")
    elif "/" in name:
        hint = f'such as "{name.replace("/", "-")}"; a tool is named server/tool'
        location.at(name).error("bad_name", 'the name of a server has no "/"', hint)
    else:
        return True
    return False


def _read_server(raw: RawValue) -> ServerConfig:
    """Read a server from an object, a typed value, or an MCP server in this process."""
    value = raw.value
    if isinstance(value, ServerConfig):
        return value
    if _is_mcp_server(value):
        return InProcessServer(server=cast("Any", value))
    if as_mapping(value) is None:
        raw.reject_type("a server", 'write {"command": …} or {"url": …}')
    known = len(raw.location.problems.errors)
    transport = None
    with suppress(RejectedError):
        transport = _choose_transport(raw)
    values = read_table(raw, server_keys(transport))
    if transport == "stdio":
        _finish_stdio(raw, values)
    if transport is None or len(raw.location.problems.errors) > known:
        raise RejectedError
    waits = {name: values.pop(name) for name in list(values) if name.startswith("timeouts.")}
    timeouts = Timeouts(**{name.removeprefix("timeouts."): value for name, value in waits.items()})
    secrets = frozenset(raw.variables.secrets)
    return _CLASSES[transport](
        **values, timeouts=timeouts, secrets=secrets, source=raw.location.file
    )


def _is_disabled(raw: RawValue) -> bool:
    """Return whether a server is switched off; the rest of it is not read then."""
    entry = as_mapping(raw.value) or {}
    flags = {"disabled": False, "enabled": True}
    for key in flags:
        if entry.get(key) is not None:
            with suppress(RejectedError):
                flags[key] = read_bool(raw.child(key, entry[key]))
    return flags["disabled"] or not flags["enabled"]


def _is_mcp_server(value: object) -> bool:
    """Return whether a value is a server object of the MCP SDK, without importing the SDK."""
    return any(
        cls.__name__ in ("MCPServer", "Server") and cls.__module__.startswith("mcp.server")
        for cls in type(value).__mro__
    )


def _finish_stdio(raw: RawValue, values: dict[str, Any]) -> None:
    """Resolve paths, add the variables of the env file, and check the command."""
    home = str(raw.variables.home)
    for name in ("command", "cwd", "env_file"):
        if name in values and (values[name] == "~" or values[name].startswith("~/")):
            values[name] = home + values[name][1:]
    if "cwd" in values and raw.location.file is not None:
        values["cwd"] = str(raw.path(values["cwd"]).absolute())
    if "env_file" in values:
        values["env"] = {**_read_env_file(raw, values.pop("env_file")), **values.get("env", {})}
    program, blank, _ = values.get("command", "").strip().partition(" ")
    if blank and not values.get("args") and not {"/", "\\"} & set(program):
        raw.location.at("command").warn(
            "command_line",
            "looks like a whole command line",
            f'write "command": "{program}", and the other words into "args"',
        )


def _read_env_file(raw: RawValue, name: str) -> dict[str, str]:
    key = "envFile" if "envFile" in (as_mapping(raw.value) or {}) else "env_file"
    location = raw.location.at(key)
    path = raw.path(name)
    try:
        return parse_dotenv(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        location.error("file_missing", f"there is no file {path}")
    except DotenvError as error:
        location.error("bad_env_file", f"{path}: {error}")
    except (OSError, UnicodeDecodeError) as error:
        location.error("file_unreadable", f"{path} cannot be read: {type(error).__name__}")
    return {}


def _choose_transport(raw: RawValue) -> TransportName | None:
    """Find the transport of a server: the declared one, else by its command or URL.

    Returns `None` after recording that the server has neither.
    """
    entry = as_mapping(raw.value) or {}
    targets = [name for name in ("command", "url", "server") if entry.get(name) not in (None, "")]
    if len(targets) > 1:
        hint = 'a program has "command", a server elsewhere has "url"; keep one'
        message = f'has both "{targets[0]}" and "{targets[1]}"'
        raw.location.error("transport_conflict", message, hint)
    declared = _declared_transport(raw, entry)
    if len(targets) > 1:
        raise RejectedError
    if not targets:
        _report_missing(raw, entry, declared)
        return declared
    (key,) = targets
    inferred = _infer_transport(raw.child(key, entry[key]), key)
    if declared in (None, inferred) or (declared, inferred) == ("sse", "http"):
        return declared or inferred
    return _reject_conflict(raw, declared, inferred, key)


def _declared_transport(raw: RawValue, entry: Mapping[object, object]) -> TransportName | None:
    keys = [name for name in ("transport", "type") if entry.get(name) is not None]
    names: set[TransportName] = {_read_transport(raw.child(name, entry[name])) for name in keys}
    if len(names) > 1:
        raw.reject("transport_conflict", '"transport" and "type" disagree', "keep one of them")
    return names.pop() if names else None


def _read_transport(raw: RawValue) -> TransportName:
    expected = 'a name such as "stdio" or "http"'
    if as_mapping(raw.value) is not None:
        raw.reject_type(expected, "move its keys up into the server")
    text = raw.text(expected)
    transport = _BY_LETTERS.get(_letters(text))
    if transport is None:
        hint = did_you_mean(text, _SPELLINGS) or 'use "stdio", "http", "sse" or "websocket"'
        raw.reject("unknown_value", f"{quote(raw)} is not a transport", hint)
    return transport


def _infer_transport(raw: RawValue, key: str) -> TransportName:
    """Infer the transport from the key that the server has, or from the scheme of its URL."""
    if key != "url":
        return "stdio" if key == "command" else "in-process"
    url = raw.text("a URL")
    if fault := url_fault(url):
        raw.reject("bad_url", fault, "write all of it, such as https://example.com/mcp")
    return "websocket" if urlsplit(url).scheme in ("ws", "wss") else "http"


def _report_missing(
    raw: RawValue, entry: Mapping[object, object], declared: TransportName | None
) -> None:
    """Record that the command or the URL is missing, with a key that may be a misspelling."""
    needed = [_NEEDED[declared]] if declared else ["command", "url"]
    keys = [key for key in entry if isinstance(key, str)]
    hints = [
        f'is "{written}" meant to be "{name}"?'
        for name in needed
        if (written := nearest(name, keys))
    ]
    subject = f"a {declared} server" if declared else "a server"
    needs = " or ".join(f'"{name}"' for name in needed)
    raw.location.error("missing_key", f"{subject} needs {needs}", hints[0] if hints else None)


def _reject_conflict(
    raw: RawValue, declared: TransportName, inferred: TransportName, key: str
) -> NoReturn:
    if _NEEDED[declared] == key:
        schemes = "ws:// or wss://" if declared == "websocket" else "http:// or https://"
        message = f'the URL of this {declared} server is one for "{inferred}"'
        hint = f'write "{inferred}", or a URL that starts with {schemes}'
    else:
        message = f'is declared as "{declared}" but has "{key}"'
        hint = f'write "{inferred}", or add "{_NEEDED[declared]}"'
    raw.reject("transport_conflict", message, hint)
