"""`plait init`: write an mcp.json, a starter or the servers of other programs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait._support import demo_server
from plait._support.files import write_atomically
from plait._support.redact import looks_secret
from plait.cli.advice import command_fix, is_on_path
from plait.cli.base import ExampleCommand
from plait.cli.found_config import config_places
from plait.cli.terminal import print_aside
from plait.cli.trust import approve
from plait.client.config.document import read_json_file
from plait.client.config.raw_value import Location, Problems, as_list, as_mapping
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer
from plait.errors import ConfigError
from plait.html.pieces import count_label

if TYPE_CHECKING:
    from plait.errors import Problem

DEMO_SCRIPT = "demo-model.json"
"""The file of the scripted model, beside the configuration."""

_DEMO_EXTRAS = (("models", "langchain"), ("viewer", "starlette"))
"""What `plait run`, `plait chat` and `plait view` need, each with a package of it."""

RawServer = dict[str, object]
"""A server as it was written, its variables not replaced."""

_CODE_FOLDERS = ("Code", "Code - Insiders")
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorConfig:
    """The servers that one file of another program holds."""

    editor: str
    """The display name of the program."""
    path: Path
    servers: dict[str, RawServer] = field(default_factory=dict[str, RawServer], repr=False)
    inputs: tuple[RawServer, ...] = field(default=(), repr=False)
    """Values to prompt for, as VS Code writes them."""
    problems: tuple[Problem, ...] = ()
    """Why the file could not be read."""


def discover_editor_configs(
    home: Path, cwd: Path, environ: Mapping[str, str]
) -> list[EditorConfig]:
    """Find every file of a known program that holds servers, or that is broken.

    Nothing is expanded, started or raised; files without servers are left out.
    """
    # Where applications keep their settings on macOS, Linux and Windows.
    applications = (
        home / "Library" / "Application Support",
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config"),
        Path(environ.get("APPDATA") or home / "AppData" / "Roaming"),
    )
    users_of_code = [one / name / "User" for one in applications for name in _CODE_FOLDERS]
    names = ("mcp.json", "settings.json")
    paths = {
        "Claude Desktop": [one / "Claude" / "claude_desktop_config.json" for one in applications],
        "Claude Code": [home / ".claude.json", cwd / ".mcp.json"],
        "Cursor": [home / ".cursor" / "mcp.json", cwd / ".cursor" / "mcp.json"],
        "VS Code": [one / name for one in (*users_of_code, cwd / ".vscode") for name in names],
    }
    configs = [
        _read_editor_config(editor, path, cwd)
        for editor, candidates in paths.items()
        for path in candidates
        if path.is_file()
    ]
    return [config for config in configs if config.servers or config.problems]


def _read_editor_config(editor: str, path: Path, cwd: Path) -> EditorConfig:
    problems = Problems()
    entries = read_json_file(path, Location(problems, file=str(path))) or {}
    settings = as_mapping(entries.get("mcp")) or {}
    inputs = as_list(entries.get("inputs") or settings.get("inputs")) or ()
    lists = [entries.get("mcpServers")]
    lists += [] if path.name == "settings.json" else [entries.get("servers")]
    lists.append(settings.get("servers"))
    # Claude Code has servers for the current folder, or one above it.
    for folder, project in (as_mapping(entries.get("projects")) or {}).items():
        if isinstance(folder, str) and cwd.is_relative_to(folder):
            lists.append((as_mapping(project) or {}).get("mcpServers"))
    return EditorConfig(
        editor=editor,
        path=path,
        servers={
            name: _with_text_keys(entry)
            for listed in lists
            for name, entry in (as_mapping(listed) or {}).items()
            if isinstance(name, str) and as_mapping(entry) is not None
        },
        inputs=tuple(_with_text_keys(entry) for entry in inputs if as_mapping(entry) is not None),
        problems=tuple(problems.errors),
    )


def _with_text_keys(value: object) -> RawServer:
    return {str(key): entry for key, entry in (as_mapping(value) or {}).items()}


STARTER: Mapping[str, RawServer] = {
    "files": {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}"],
    },
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
}
"""The servers of a first configuration: the files beside it, and the time."""


def demo_servers() -> dict[str, RawServer]:
    """Return the servers of the demo, which need nothing but this interpreter."""
    program = ["-I", "-S", demo_server.__file__]
    folder = "${workspaceFolder}/plait-demo"
    return {
        name: {"command": sys.executable, "args": [*program, name, folder]}
        for name in demo_server.NAMES
    }


def merge_servers(
    existing: Mapping[str, RawServer], new: Mapping[str, RawServer], *, label: str = ""
) -> tuple[dict[str, RawServer], dict[str, str]]:
    """Add servers to others without ever replacing one; return all, and new names by the old.

    A server whose name is taken gets a new name, with `label` if there is one (`files-cursor`),
    else with a number. One that is there already, identically, is not added.
    """
    servers = dict(existing)
    renamed: dict[str, str] = {}
    for name, server in new.items():
        allowed = name.replace("/", "-").strip() or "server"
        if servers.get(allowed) == server:
            continue
        base = f"{allowed}-{label}" if label and allowed in servers else allowed
        numbered = (f"{base}-{number}" for number in count(2))
        free = next(one for one in chain([base], numbered) if one not in servers)
        servers[free] = server
        if free != name:
            renamed[name] = free
    return servers, renamed


def to_mcp_json(
    servers: Mapping[str, RawServer], *, inputs: Sequence[Mapping[str, object]] = ()
) -> str:
    """Write servers as the text of an mcp.json; write it with mode 0600 if it holds secrets."""
    document: dict[str, object] = {"mcpServers": dict(servers)}
    if inputs:
        document["inputs"] = list(inputs)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def with_lifted_secrets(servers: Mapping[str, RawServer]) -> tuple[dict[str, RawServer], list[str]]:
    """Replace literal secrets in `env` and `headers` by variables, and say which are to be set.

    The same secret under the same name shares one variable; values with variables stay.
    """
    lifted: dict[str, RawServer] = {name: dict(server) for name, server in servers.items()}
    notes: list[str] = []
    values: dict[str, str] = {}
    for name, server in lifted.items():
        for part in ("env", "headers"):
            if as_mapping(server.get(part)) is None:
                continue
            texts = server[part] = _with_text_keys(server[part])
            for key, value in texts.items():
                if not (isinstance(value, str) and value) or "${" in value or not looks_secret(key):
                    continue
                scheme = _SCHEME.match(value)
                prefix = scheme[0] if scheme else ""
                secret, own = value.removeprefix(prefix), _variable_name(f"{name}_{key}")
                preferred = [_variable_name(key)] if part == "env" else []
                names = chain(preferred, [own], (f"{own}_{number}" for number in count(2)))
                # The first that is free, or has this value already.
                variable = next(one for one in names if values.setdefault(one, secret) == secret)
                notes.append(f"{name}: {part}.{key} is now ${{{variable}}}")
                texts[key] = f"{prefix}${{{variable}}}"
    return lifted, notes


def _variable_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return name if name[:1].isalpha() else f"MCP_{name}"


_EDITORS = {
    "claude-desktop": "Claude Desktop",
    "claude-code": "Claude Code",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
"""The values of `--from`, and the programs."""


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
@click.option(
    "--demo",
    is_flag=True,
    help="Write five small servers and a scripted model, which need no key, network or Node.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--yes", "-y", is_flag=True, help="Import without confirmation.")
@click.option(
    "--lift-secrets",
    is_flag=True,
    help="Replace secrets with ${VARIABLES}, and list the variables to set.",
)
def init(
    source: str | None, path: Path, demo: bool, force: bool, yes: bool, lift_secrets: bool
) -> None:
    """Write an mcp.json: a starter, or the servers of your editor.

    Without --from it looks for servers of other programs and, on a terminal,
    offers to import them. An existing file is replaced only with --force. A
    file with credentials is readable only by you.

    Examples:
        plait init                     a starter, or the servers of other programs
        plait init --from cursor       the servers of Cursor
        plait init --from all --yes    the servers of every program, without a prompt
        plait init --demo              five servers and a scripted model to try
        plait init --path ~/.config/plait/mcp.json
    """
    path = path.expanduser()
    script = path.with_name(DEMO_SCRIPT)
    for file in (path, script) if demo else (path,):
        if file.exists() and not force:
            text = f"{file} exists already; --force replaces it, --path writes elsewhere"
            raise ConfigError(text)
    if demo and source is not None:
        raise click.BadParameter("leave one of --demo and --from out", param_hint="--demo")
    editors = [] if demo else discover_editor_configs(Path.home(), Path.cwd(), os.environ)
    editors = [config for config in editors if config.path.resolve() != path.resolve()]
    selected = _select(editors, source, path, yes=yes)
    # Servers of several programs are merged, without replacing any.
    starter = demo_servers() if demo else dict(STARTER)
    servers: dict[str, RawServer] = {} if selected else starter
    inputs: dict[str, RawServer] = {}
    notes: list[str] = []
    for config in selected:
        label = config.editor.lower().replace(" ", "-")
        servers, renamed = merge_servers(servers, config.servers, label=label)
        notes += [f"{old} of {config.editor} is renamed to {new}" for old, new in renamed.items()]
        for entry in config.inputs:
            inputs.setdefault(str(entry.get("id")), entry)
    if lift_secrets:
        servers, lifted = with_lifted_secrets(servers)
        notes += lifted
    is_private = any(server.get("env") or server.get("headers") for server in servers.values())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = to_mcp_json(servers, inputs=list(inputs.values()))
        write_atomically(path, text, mode=0o600 if is_private else 0o644)
        if demo:
            write_atomically(script, json.dumps(demo_server.SCRIPT, indent=2) + "\n", mode=0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    if not any(config.path.resolve().is_relative_to(Path.cwd().resolve()) for config in selected):
        # What came from files of this folder has not been seen by the user.
        approve(path)
    click.echo(f"wrote {path}: {count_label(len(servers), 'server')} ({', '.join(servers)})")
    for note in (*notes, *_open_points(path)):
        print_aside("note", note, colour="yellow")
    is_default = path.resolve() in {place.resolve() for place in config_places()}
    option = "" if is_default else f" --config {path}"
    steps = ["plait servers", "plait tools"]
    if demo:
        click.echo(f"wrote {script}: the answers of a scripted model")
        model = f"--model scripted:{script}"
        steps += [f'plait run "Buy tea" {model}', f"plait chat {model}", "plait view"]
    steps = [f"{step}{option}" for step in steps]
    if demo and (lacking := [extra for extra, module in _DEMO_EXTRAS if find_spec(module) is None]):
        steps.insert(2, f"pip install 'plait[{','.join(lacking)}]'")
    click.echo("\n".join(["\nNext:", *(f"  {step}" for step in steps)]))


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
