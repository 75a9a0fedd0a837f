"""`plait init`: write an mcp.json, a starter or the servers of other programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.advice import command_fix
from plait.cli.click_classes import ExampleCommand
from plait.cli.options import common_options
from plait.client.config.editors import EditorConfig, RawServer
from plait.client.config.raw_value import as_mapping
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer
from plait.client.config.starter import lift_secrets, merge_servers, starter_config, to_mcp_json
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plait.client.config.editors import EditorConfig


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


EDITORS = {
    "claude-desktop": "Claude Desktop",
    "claude-code": "Claude Code",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
"""What `--from` takes, and the program it means."""


@click.command(
    cls=ExampleCommand,
    examples="""
    plait init                     a starter mcp.json, or the servers it finds
    plait init --from cursor       the servers of Cursor
    plait init --from all --yes    of every program, without asking
    plait init --path ~/.config/plait/mcp.json
    """,
)
@click.option(
    "--from",
    "source",
    type=click.Choice([*EDITORS, "all"]),
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
@click.option("--yes", "-y", is_flag=True, help="Import without asking.")
@click.option(
    "--lift-secrets",
    is_flag=True,
    help="Write ${VARIABLES} in place of secrets, and say which to set.",
)
@common_options
def init(source: str | None, path: Path, force: bool, yes: bool, lift_secrets: bool) -> None:
    """Write an mcp.json: a starter, or your editor's servers.

    Without --from it looks for servers of other programs and, in a terminal,
    asks whether to import them. An existing file is never replaced without
    --force. A file that holds credentials is readable only by you.
    """
    from plait.client.config.editors import discover_editor_configs

    path = path.expanduser()
    if path.exists() and not force:
        raise ConfigError(f"{path} exists already; --force replaces it, --path writes elsewhere")
    found = discover_editor_configs(Path.home(), Path.cwd(), os.environ)
    found = [one for one in found if one.path.resolve() != path.resolve()]
    chosen = _chosen(found, source, path, yes=yes)
    draft = draft_from_editors(chosen, lift=lift_secrets) if chosen else starter_draft()
    _write(draft, path)
    _tell(draft, path)


def _chosen(
    found: Sequence[EditorConfig], source: str | None, path: Path, *, yes: bool
) -> list[EditorConfig]:
    """Decide what to import; nothing means a starter."""
    from plait.cli.terminal import print_aside

    program = EDITORS.get(source or "all")
    wanted = [one for one in found if program in {None, one.editor}]
    for one in wanted:
        for problem in one.problems:
            print_aside("warning", f"left out: {problem}", colour="yellow")
    usable = [one for one in wanted if one.servers]
    if not usable:
        if source is not None:
            raise ConfigError(f"found no servers of {program or 'any program'} on this machine")
        return []
    _list(usable)
    if yes:
        return usable
    if not sys.stdin.isatty():
        if source is None:
            print_aside("hint", "import them with --from all", colour="cyan")
            return []
        return usable
    if click.confirm(f"Import them into {path}?", default=True, err=True):
        return usable
    if source is not None:
        raise click.Abort
    return []


def _list(found: Sequence[EditorConfig]) -> None:
    for one in found:
        names = ", ".join(one.servers)
        click.echo(f"{click.style(one.editor, bold=True)} ({_short(one.path)}): {names}", err=True)


def _write(draft: Draft, path: Path) -> None:
    """Write the file in one step, with its final permissions from the start."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(draft.text)
        temporary = Path(file.name)
        temporary.chmod(0o600 if draft.is_private else 0o644)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _tell(draft: Draft, path: Path) -> None:
    from plait.cli.terminal import count_label, print_aside

    names = ", ".join(draft.servers)
    click.echo(f"wrote {path}: {count_label(len(draft.servers), 'server')} ({names})")
    for note in (*draft.notes, *open_points(path)):
        print_aside("note", note, colour="yellow")
    option = "" if _is_found_by_itself(path) else f" --config {path}"
    click.echo(f"\nNext:\n  plait servers{option}\n  plait tools{option}")


def _is_found_by_itself(path: Path) -> bool:
    from plait.client.config.locate import config_places

    return path.resolve() in {place.resolve() for place in config_places()}


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
