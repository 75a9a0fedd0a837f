"""Reading a configuration, from a file or from Python values, into typed servers."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast, get_args
from urllib.parse import urlsplit

from plait._support.dotenv import DotenvError, parse_dotenv
from plait._support.redact import looks_secret
from plait._support.suggestions import did_you_mean, nearest
from plait._support.threads import off_loop
from plait.client.config.document import load_document
from plait.client.config.keys import CLIENT_KEYS, SERVER_LISTS, server_keys
from plait.client.config.raw_value import (
    Ask,
    InputRequest,
    KeyTable,
    Location,
    Problems,
    RawValue,
    RejectedError,
    Variables,
    as_list,
    as_mapping,
    describe,
    read_table,
)
from plait.client.config.servers import InProcessServer, ServerConfig, Timeouts, TransportName
from plait.client.config.urls import url_fault
from plait.client.config.value_types import quote, read_bool
from plait.errors import ConfigError, Problem

logger = logging.getLogger("plait.client.config")

_APPLICATION_FILES = ("settings.json", ".claude.json", "claude_desktop_config.json")
"""Files that hold more than servers, so that unknown keys are not mistakes."""

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
    unusable = [server.problem for server in servers.values() if server.problem is not None]
    if len(unusable) == len(servers):
        problems.errors.extend(problem for error in unusable for problem in error.problems)
    problems.finish(logger)
    return ClientConfig(
        servers=servers,
        disabled=disabled,
        default_tool_timeout=options.pop("default_tool_timeout", None),
        options=options,
        warnings=tuple(problems.warnings),
        source=document.location.file,
    )


def read_options(options: Mapping[str, object], table: KeyTable = CLIENT_KEYS) -> dict[str, Any]:
    """Check client options passed in Python, under the names they have in files."""
    if not options:
        return {}
    problems = Problems()
    read = read_table(RawValue(options, Location(problems), Variables.of(None)), table)
    problems.finish(logger)
    return read


def _read_servers(
    layout: Layout, variables: Variables
) -> tuple[dict[str, ServerConfig], tuple[str, ...]]:
    servers: dict[str, ServerConfig] = {}
    disabled: list[str] = []
    location = layout.location
    for name, value in layout.servers.items():
        if not isinstance(name, str):
            location.error("bad_name", f"the name of a server is a string, found {describe(name)}")
            continue
        if not name.strip():
            location.error("bad_name", "the name of a server must not be empty")
            continue
        if "/" in name:
            hint = f'such as "{name.replace("/", "-")}"; a tool is named server/tool'
            location.at(name).error("bad_name", 'the name of a server has no "/"', hint)
            continue
        # Each server has its own notes on what variables were used for.
        own = replace(variables, secrets=set[str](), templates=dict[str, str]())
        raw = RawValue(value, location.at(name), own)
        # The rest of a server that is switched off is not read.
        switches = {"disabled": False, "enabled": True}
        entry = as_mapping(value) or {}
        for key in switches:
            if entry.get(key) is not None:
                with suppress(RejectedError):
                    switches[key] = read_bool(raw.child(key, entry[key]))
        if switches["disabled"] or not switches["enabled"]:
            disabled.append(name)
        else:
            with suppress(RejectedError):
                servers[name] = _read_server(raw)
    return servers, tuple(disabled)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a configuration."""

    servers: Mapping[object, object]
    location: Location
    """The location of the servers."""
    options: Mapping[object, object] = field(default_factory=dict[object, object])
    inputs: Mapping[str, InputRequest] = field(default_factory=dict[str, InputRequest])


def find_layout(value: object, location: Location) -> Layout | None:
    """Split a configuration: servers only, or a list of servers with options beside it."""
    entries = as_mapping(value)
    if entries is None:
        hint = 'write {"name": {"command": …}}, or pass the path of a file'
        location.error("wrong_type", f"expected an object, found {describe(value)}", hint)
        return None
    settings = as_mapping(entries.get("mcp"))
    if settings is not None and "servers" in settings and not is_server_entry(settings):
        entries, location, options = settings, location.at("mcp"), {}
    elif not any(name in entries and not is_server_entry(entries[name]) for name in SERVER_LISTS):
        return _servers_only(entries, location)
    elif location.file is not None and location.file.endswith(_APPLICATION_FILES):
        options = {key: entries[key] for key in entries if key in CLIENT_KEYS.spellings}
    else:
        options = entries
    lists = [name for name in SERVER_LISTS if name in entries]
    if len(lists) > 1:
        message = f'there are servers under both "{lists[0]}" and "{lists[1]}"'
        location.error("duplicate_key", message, "keep one of them")
    servers, place = as_mapping(entries[lists[0]]), location.at(lists[0])
    inputs = _inputs_from(entries.get("inputs"), location.at("inputs"))
    if servers is None:
        found = describe(entries[lists[0]])
        hint = 'write {"name": {"command": …}}'
        place.error("wrong_type", f"expected an object of servers, found {found}", hint)
        return None
    if not servers:
        place.error("no_servers", "there are no servers", 'add {"name": {"command": …}}')
    return Layout(servers, place, options, inputs)


def is_server_entry(value: object) -> bool:
    """Return whether an object is a server itself."""
    entries = as_mapping(value)
    words = ("command", "url", "transport", "type")
    return entries is not None and any(isinstance(entries.get(name), str) for name in words)


def _servers_only(entries: Mapping[object, object], location: Location) -> Layout | None:
    """Use an object without a server list as that list, unless it clearly is not one."""
    if not entries:
        location.error("no_servers", "there are no servers", 'add "mcpServers": {…}')
        return None
    if is_server_entry(entries):
        hint = 'give it a name: {"name": {…}}'
        location.error("missing_name", "this is one server without a name", hint)
        return None
    known = True
    for key, value in entries.items():
        meant = nearest(str(key), SERVER_LISTS)
        if meant and as_mapping(value) is not None and not is_server_entry(value):
            hint = f'did you mean "{meant}"?'
            location.at(str(key)).error("unknown_key", "is not a key of a configuration", hint)
            known = False
        elif key in CLIENT_KEYS.spellings and as_mapping(value) is None:
            hint = 'put the servers under "mcpServers" beside it'
            location.at(str(key)).error("no_servers", "is an option, not a server", hint)
            known = False
    return Layout(entries, location) if known else None


def _inputs_from(value: object, location: Location) -> dict[str, InputRequest]:
    """Read VS Code's list of values to prompt for."""
    items = as_list(() if value is None else value)
    if items is None:
        location.error("wrong_type", f"expected a list of inputs, found {describe(value)}")
        return {}
    requests: dict[str, InputRequest] = {}
    for index, item in enumerate(items):
        entries = as_mapping(item) or {}
        name = entries.get("id")
        if not isinstance(name, str) or not name:
            location.at(index).error("missing_key", 'an input needs an "id"')
            continue
        description, default = entries.get("description"), entries.get("default")
        options = as_list(entries.get("options")) or ()
        requests[name] = InputRequest(
            id=name,
            description=description if isinstance(description, str) else None,
            password=entries.get("password") is True or looks_secret(name),
            default=default if isinstance(default, str) else None,
            options=tuple(option for option in options if isinstance(option, str)),
        )
    return requests


def _read_server(raw: RawValue) -> ServerConfig:
    """Read a server from an object, a typed value, or an MCP server in this process."""
    value = raw.value
    if isinstance(value, ServerConfig):
        return value
    # Recognized by names, since neither MCP SDK 1.x nor 2.x may be imported for it.
    if any(
        cls.__name__ in ("MCPServer", "FastMCP", "Server")
        and cls.__module__.startswith("mcp.server")
        for cls in type(value).__mro__
    ):
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
    errors = raw.location.problems.errors[known:]
    problem = None
    if errors and all(error.code == "unset_variable" for error in errors):
        # Only this server cannot be used: it keeps the settings that could be read.
        del raw.location.problems.errors[known:]
        text = "; ".join(dict.fromkeys(str(error) for error in errors))
        problem = ConfigError(text, problems=dict.fromkeys(errors))
        transport = transport or ("http" if "url" in (as_mapping(raw.value) or ()) else "stdio")
        usable = {item.name for item in fields(_CLASSES[transport])}
        values = {key: value for key, value in values.items() if key.partition(".")[0] in usable}
        values.setdefault(_NEEDED[transport], "")
    elif transport is None or errors:
        raise RejectedError
    waits = {name: values.pop(name) for name in list(values) if name.startswith("timeouts.")}
    timeouts = Timeouts(**{name.removeprefix("timeouts."): value for name, value in waits.items()})
    return _CLASSES[transport](
        **values,
        timeouts=timeouts,
        secrets=frozenset(raw.variables.secrets),
        templates=raw.variables.templates,
        source=raw.location.file,
        problem=problem,
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


@off_loop
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
    keys = [name for name in ("transport", "type") if entry.get(name) is not None]
    names: set[TransportName] = {_read_transport(raw.child(name, entry[name])) for name in keys}
    if len(names) > 1:
        raw.reject("transport_conflict", '"transport" and "type" disagree', "keep one of them")
    declared = names.pop() if names else None
    if len(targets) > 1:
        raise RejectedError
    if not targets:
        needed = [_NEEDED[declared]] if declared else ["command", "url"]
        written = [key for key in entry if isinstance(key, str)]
        # A misspelt key is likelier than a server without one.
        misspelt = [(key, name) for name in needed if (key := nearest(name, written))]
        hint = f'is "{misspelt[0][0]}" meant to be "{misspelt[0][1]}"?' if misspelt else None
        subject = f"a {declared} server" if declared else "a server"
        needs = " or ".join(f'"{name}"' for name in needed)
        raw.location.error("missing_key", f"{subject} needs {needs}", hint)
        return declared
    (key,) = targets
    inferred = _infer_transport(raw.child(key, entry[key]), key)
    if declared in (None, inferred) or (declared, inferred) == ("sse", "http"):
        return declared or inferred
    if _NEEDED[declared] == key:
        schemes = "ws:// or wss://" if declared == "websocket" else "http:// or https://"
        message = f'the URL of this {declared} server is one for "{inferred}"'
        hint = f'write "{inferred}", or a URL that starts with {schemes}'
    else:
        message = f'is declared as "{declared}" but has "{key}"'
        hint = f'write "{inferred}", or add "{_NEEDED[declared]}"'
    return raw.reject("transport_conflict", message, hint)


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
