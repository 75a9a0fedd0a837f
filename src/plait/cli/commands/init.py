"""`plait init`: write an mcp.json, a starter or the servers of other programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from plait._support.files import write_atomically
from plait.cli.advice import command_fix, is_on_path
from plait.cli.base import ExampleCommand
from plait.cli.starter import (
    EditorConfig,
    RawServer,
    discover_editor_configs,
    lift_secrets,
    merge_servers,
    starter_config,
    to_mcp_json,
)
from plait.cli.terminal import count_label, print_aside
from plait.cli.trust import approve_own
from plait.client.config.document import config_places
from plait.client.config.raw_value import as_mapping
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer
from plait.errors import ConfigError

_EDITORS = {
    "claude-desktop": "Claude Desktop",
    "claude-code": "Claude Code",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
"""The values of `--from`, and the programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    text: str = field(repr=False)
    servers: tuple[str, ...]
    notes: tuple[str, ...] = ()
    is_private: bool = False
    """Whether the file must be readable by its owner only."""


def _draft_from_editors(editors: Iterable[EditorConfig], *, lift: bool) -> _Draft:
    """Merge the servers of several programs into one configuration, without replacing any."""
    servers: dict[str, RawServer] = {}
    inputs: dict[str, RawServer] = {}
    notes: list[str] = []
    for config in editors:
        label = config.editor.lower().replace(" ", "-")
        merged = merge_servers(servers, config.servers, label=label)
        servers = merged.servers
        for old, new in merged.renamed.items():
            notes.append(f"{old} of {config.editor} is renamed to {new}")
        for entry in config.inputs:
            inputs.setdefault(str(entry.get("id")), entry)
    if lift:
        servers, lifted = lift_secrets(servers)
        notes += [f"{one.server}: {one.path} is now ${{{one.variable}}}" for one in lifted]
    return _Draft(
        text=to_mcp_json(servers, inputs=list(inputs.values())),
        servers=tuple(servers),
        notes=tuple(notes),
        is_private=any(server.get("env") or server.get("headers") for server in servers.values()),
    )


def _open_points(path: Path) -> Iterator[str]:
    """Yield what must be done before the configuration at the path works on this machine."""
    try:
        config = read_config(path, ask=lambda request: request.default or "")
    except ConfigError as error:
        for problem in error.problems:
            advice = f" ({problem.suggestion})" if problem.suggestion else ""
            yield f"{problem.path}: {problem.message}{advice}"
        return
    for name, server in config.servers.items():
        if isinstance(server, StdioServer) and not is_on_path(server):
            yield f"{name} needs {server.command!r}: {command_fix(server.command)}"


@click.command(cls=ExampleCommand)
@click.option(
    "--from",
    "source",
    type=click.Choice([*_EDITORS, "all"]),
    help="Import the servers of this program.",
)
@click.option(
    "--path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("mcp.json"),
    show_default=True,
    metavar="FILE",
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--yes", "-y", is_flag=True, help="Import without confirmation.")
@click.option(
    "--lift-secrets",
    is_flag=True,
    help="Replace secrets with ${VARIABLES}, and list the variables to set.",
)
def init(source: str | None, path: Path, force: bool, yes: bool, lift_secrets: bool) -> None:
    """Write an mcp.json: a starter, or the servers of your editor.

    Without --from it looks for servers of other programs and, on a terminal,
    offers to import them. An existing file is replaced only with --force. A
    file with credentials is readable only by you.

    Examples:
        plait init                     a starter, or the servers of other programs
        plait init --from cursor       the servers of Cursor
        plait init --from all --yes    the servers of every program, without a prompt
        plait init --path ~/.config/plait/mcp.json
    """
    path = path.expanduser()
    if path.exists() and not force:
        raise ConfigError(f"{path} exists already; --force replaces it, --path writes elsewhere")
    editors = discover_editor_configs(Path.home(), Path.cwd(), os.environ)
    editors = [config for config in editors if config.path.resolve() != path.resolve()]
    selected = _select(editors, source, path, yes=yes)
    if selected:
        draft = _draft_from_editors(selected, lift=lift_secrets)
    else:
        document = starter_config()
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        names = tuple(map(str, as_mapping(document.get("mcpServers")) or {}))
        draft = _Draft(text=text, servers=names)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, draft.text, mode=0o600 if draft.is_private else 0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    if not any(config.path.resolve().is_relative_to(Path.cwd().resolve()) for config in selected):
        # What came from files of this folder has not been seen by the user.
        approve_own(path)
    names = ", ".join(draft.servers)
    click.echo(f"wrote {path}: {count_label(len(draft.servers), 'server')} ({names})")
    for note in (*draft.notes, *_open_points(path)):
        print_aside("note", note, colour="yellow")
    is_default = path.resolve() in {place.resolve() for place in config_places()}
    option = "" if is_default else f" --config {path}"
    click.echo(f"\nNext:\n  plait servers{option}\n  plait tools{option}")


def _select(
    editors: Sequence[EditorConfig], source: str | None, path: Path, *, yes: bool
) -> list[EditorConfig]:
    """Select what to import; an empty list means a starter."""
    program = _EDITORS.get(source or "all")
    matching = [config for config in editors if program in {None, config.editor}]
    for config in matching:
        for problem in config.problems:
            print_aside("warning", f"skipped: {problem}", colour="yellow")
    usable = [config for config in matching if config.servers]
    if not usable:
        if source is not None:
            raise ConfigError(f"found no servers of {program or 'any program'} on this machine")
        return []
    for config in usable:
        editor, place, home = click.style(config.editor, bold=True), config.path, Path.home()
        place = f"~/{place.relative_to(home)}" if place.is_relative_to(home) else place
        click.echo(f"{editor} ({place}): {', '.join(config.servers)}", err=True)
    if yes or (source is not None and not sys.stdin.isatty()):
        return usable
    if not sys.stdin.isatty():
        print_aside("hint", "import them with --from all", colour="cyan")
        return []
    if click.confirm(f"Import them into {path}?", default=True, err=True):
        return usable
    if source is not None:
        raise click.Abort
    return []
