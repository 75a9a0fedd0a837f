"""Reading a configuration, from a file or from Python values, into typed servers."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from plait.client.config.document import load_document
from plait.client.config.file_layouts import ConfigLayout, find_layout
from plait.client.config.key_table import read_table
from plait.client.config.keys import CLIENT_KEYS
from plait.client.config.problems import Location, Problems
from plait.client.config.raw_value import RawValue, RejectedError, describe
from plait.client.config.read_server import is_disabled, read_server
from plait.client.config.variables import Ask, InputRequest, Variables

if TYPE_CHECKING:
    from plait.client.config.servers import ServerConfig
    from plait.errors import Problem

__all__ = ["Ask", "ClientConfig", "ConfigSource", "InputRequest", "read_config"]

logger = logging.getLogger("plait.client.config")


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
        if is_disabled(raw):
            disabled.append(name)
        else:
            with suppress(RejectedError):
                servers[name] = read_server(raw)
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
