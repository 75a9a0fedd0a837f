"""Make the text of an mcp.json: a starter, or the servers of other programs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from plait.cli.advice import command_fix
from plait.client.config.editors import EditorConfig, RawServer
from plait.client.config.raw_value import as_mapping
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer
from plait.client.config.starter import lift_secrets, merge_servers, starter_config, to_mcp_json
from plait.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A configuration that is about to be written."""

    text: str = field(repr=False)

    servers: tuple[str, ...]

    notes: tuple[str, ...] = ()
    """What the reader should know about it."""

    is_private: bool = False
    """Whether others on this machine should not read it."""


def starter_draft() -> Draft:
    """Make a first configuration."""
    document = starter_config()
    servers = as_mapping(document.get("mcpServers")) or {}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return Draft(text=text, servers=tuple(map(str, servers)))


def draft_from_editors(found: Iterable[EditorConfig], *, lift: bool = False) -> Draft:
    """Put the servers of several programs into one configuration; none replaces another."""
    servers: dict[str, RawServer] = {}
    inputs: dict[str, RawServer] = {}
    notes: list[str] = []
    for one in found:
        merged = merge_servers(servers, one.servers, label=_slug(one.editor))
        servers = merged.servers
        notes.extend(
            f"{old} of {one.editor} is called {new}" for old, new in merged.renamed.items()
        )
        for entry in one.inputs:
            inputs.setdefault(str(entry.get("id")), entry)
    if lift:
        servers, lifted = lift_secrets(servers)
        notes.extend(
            f"{secret.server}: {secret.path} is now ${{{secret.variable}}}" for secret in lifted
        )
    return Draft(
        text=to_mcp_json(servers, inputs=list(inputs.values())),
        servers=tuple(servers),
        notes=tuple(notes),
        is_private=any(server.get("env") or server.get("headers") for server in servers.values()),
    )


def _slug(editor: str) -> str:
    return editor.lower().replace(" ", "-")


def open_points(path: Path) -> Iterator[str]:
    """Say what still has to be done before the configuration at the path works here."""
    try:
        config = read_config(path, ask=lambda request: request.default or "")
    except ConfigError as error:
        for problem in error.problems:
            advice = f" ({problem.suggestion})" if problem.suggestion else ""
            yield f"{problem.path}: {problem.message}{advice}"
        return
    for name, server in config.servers.items():
        if isinstance(server, StdioServer) and not _is_installed(server):
            yield f"{name} needs {server.command!r}: {command_fix(server.command)}"


def _is_installed(server: StdioServer) -> bool:
    return shutil.which(server.command, path=server.fixed_env.get("PATH")) is not None
