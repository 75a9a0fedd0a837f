"""`plait serve`: all servers of an mcp.json as one MCP server."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from plait.cli.base import ExampleGroup, json_option, repeatable, settings_of
from plait.cli.session import read_configuration, with_servers
from plait.cli.terminal import print_aside
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.serve.answer_store import Deciding
    from plait.serve.configuration import ServedConfiguration
    from plait.serve.first_answers import Conversation
    from plait.serve.names import Naming


@click.group(cls=ExampleGroup, invoke_without_command=True)
@repeatable("--only", "servers", "SERVER", "Serve only these servers")
@repeatable("--include", "include", "TOOL", "Offer only these tools, by name or glob")
@repeatable("--exclude", "exclude", "TOOL", "Do not offer these tools, by name or glob")
@click.option(
    "--names",
    "naming",
    type=click.Choice(["server", "plain"]),
    default="server",
    show_default=True,
    help="Call tools server__tool, or, for a single server, as it does.",
)
@click.option("--search", is_flag=True, help="Offer a search in place of the tools.")
@click.option(
    "--http", "address", metavar="[HOST:]PORT", help="Serve Streamable HTTP, for several clients."
)
@repeatable("--allowed-host", "allowed_hosts", "NAME", "A name under which this server is reached")
@click.option("--no-trace", is_flag=True, help="Do not write a trace of the calls.")
@click.option(
    "--status", "shows_status", is_flag=True, help="Show what runs: clients, servers, calls, heals."
)
@json_option
@click.pass_context
def serve(
    ctx: click.Context,
    servers: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    naming: Naming,
    search: bool,
    address: str | None,
    allowed_hosts: tuple[str, ...],
    no_trace: bool,
    shows_status: bool,
    as_json: bool,
) -> None:
    """Serve all servers as one MCP server, whose sessions heal.

    A client starts this command, and talks to it on standard input and output; with --http it
    listens for clients. A server behind that stops is started again, and no call that may have
    run is repeated.

    Examples:
        plait serve                             every server of the mcp.json
        plait serve --only github --only files  two of them
        plait serve --only time --names plain   one, with its own names
        plait serve --search                    two tools find and call the others
        plait serve --http 8000                 for clients that speak Streamable HTTP
        plait serve --status                    clients, servers, calls and heals
    """
    if ctx.invoked_subcommand is not None:
        return
    if shows_status:
        from plait.cli.serve_status import show_status

        show_status(as_json=as_json)
        return
    from plait.cli.found_config import find_config
    from plait.client.config.read import ClientConfig
    from plait.serve.answer_store import Deciding
    from plait.serve.configuration import ServedConfiguration
    from plait.serve.first_answers import fingerprint
    from plait.serve.snapshot import secrets_in

    may_ask = True

    def read() -> ClientConfig:
        nonlocal may_ask
        try:
            config = read_configuration(ctx, may_ask=may_ask)
        except ConfigError as error:
            # Servers may be added while a program is connected.
            if {problem.code for problem in error.problems} != {"no_servers"}:
                raise
            found = find_config(settings_of(ctx).config)
            config = ClientConfig(servers={}, source=str(found.path))
        may_ask = False
        config = _served(config, servers, include, exclude)
        if naming == "plain" and len(config.servers) > 1:
            raise ConfigError("--names plain is for one server: add --only SERVER")
        return config

    begun = settings_of(ctx).begun
    files = _deciding_files(ctx) if begun is not None and address is None else []
    known = fingerprint(files)
    choices = (*servers, "|", *include, "|", *exclude)
    served = ServedConfiguration(
        read, choices=choices, naming=naming, search=search, traces=not no_trace
    )
    if address is None:
        deciding = Deciding(files, known, secrets_in(served.config)) if files else None
        asyncio.run(_serve_stdio(served, begun, deciding))
    else:
        _serve_http(address, allowed_hosts, served)


def _deciding_files(ctx: click.Context) -> list[str]:
    """Return the files that decide about what is served; none if the configuration is not valid."""
    from plait.cli.found_config import config_places, find_config
    from plait.cli.trust import Approvals, preview_of

    try:
        found = find_config(settings_of(ctx).config)
        others = preview_of(found.path).files
    except ConfigError:
        return []  # reading it says why
    places = () if found.origin == "named" else config_places()
    files = [found.path, *places, Approvals().file_for(found.path), *others]
    return [str(file.absolute()) for file in files]


async def _serve_stdio(
    served: ServedConfiguration, begun: Conversation | None, deciding: Deciding | None
) -> None:
    from plait.serve.answer_store import AnswerStore
    from plait.serve.session import ClientSession
    from plait.serve.stdio import serve_stdio

    session = ClientSession("the client", served.open_upstream)
    store = AnswerStore(session, begun, deciding) if begun and deciding else None
    async with served.running():
        await serve_stdio(session, begun, store)


def _serve_http(address: str, allowed_hosts: tuple[str, ...], served: ServedConfiguration) -> None:
    from plait._support.http_servers import LOOPBACK, listen
    from plait.serve.http import PATH, HttpOptions, HttpServer, serve_http
    from plait.serve.session import ClientSession
    from plait.serve.tokens import read_tokens, tokens_path

    host, _, port = address.rpartition(":")
    host = host or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address!r} is no address to listen on: write HOST:PORT, or PORT")
    tokens = tokens_path()
    if host not in LOOPBACK:
        if not read_tokens(tokens):
            raise ConfigError(
                f"{host} can be reached by others: create a token for each client with "
                "plait serve token add NAME"
            )
        if not allowed_hosts:
            raise ConfigError(
                f"{host} can be reached by others: say with --allowed-host under which names"
            )
    options = HttpOptions(tokens=tokens, allowed_hosts=allowed_hosts)
    server = HttpServer(
        lambda name: ClientSession(name or "a client", served.open_upstream), options
    )
    try:
        listener = listen(host.strip("[]"), int(port))
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
    with listener:
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        served.journal.address = f"http://{shown}:{listener.getsockname()[1]}{PATH}"
        click.echo(f"serving {served.journal.address}", err=True)

        async def serve_and_follow() -> None:
            async with served.running():
                await serve_http(server, options, listener)

        asyncio.run(serve_and_follow())


@serve.command("install")
@click.argument("program", type=click.Choice(["claude-code", "codex", "cursor"]))
@click.option("--yes", "-y", is_flag=True, help="Do not prompt for confirmation.")
@click.pass_context
def install(ctx: click.Context, program: str, yes: bool) -> None:
    """Put plait in front of the servers of a program.

    Its servers move to the mcp.json of plait, and the program has one server instead, which is
    plait. The program's file is kept beside it, for `plait serve uninstall`.

    Examples:
        plait serve install claude-code
        plait serve install codex --config ./mcp.json
    """
    from plait._support.files import write_atomically
    from plait.cli.commands.init import merge_servers, to_mcp_json
    from plait.serve.programs import PROGRAMS, backup_of, projects_in, servers_in, with_plait

    about, file, target = PROGRAMS[program], _program_file(program), _own_config(ctx)
    text = file.read_bytes().decode() if file.is_file() else ""
    servers = servers_in(about, text, file)
    known = _servers_of(target)
    merged, renamed = merge_servers(known, servers, label=program)
    changed = with_plait(about, text, file, _command(target))
    if changed == text:
        click.echo(f"{about.title} has plait already: {file}")
        return
    if backup_of(file).exists():
        raise ConfigError(
            f"{backup_of(file)} is from an earlier installation: run plait serve uninstall "
            f"{program} first, or move it away"
        )
    for name in servers:
        click.echo(f"move {name} to {target}" + _as_other(name, renamed), err=True)
    for project in projects_in(about, text, file):
        click.echo(f"the servers of the project {project} stay in {file}", err=True)
    click.echo(_difference(text, changed, file), err=True, nl=False)
    if not yes and not click.confirm(f"Change {file}?", default=True, err=True):
        raise click.Abort
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if merged != known or not target.exists():
        if target.exists():
            write_atomically(backup_of(target), target.read_text("utf-8"), mode=0o600)
        write_atomically(target, to_mcp_json(merged), mode=0o600)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(backup_of(file), text, mode=0o600)
    write_atomically(file, changed)
    click.echo(f"{about.title} now has one server, plait, with those of {target}; start it again")


@serve.command("uninstall")
@click.argument("program", type=click.Choice(["claude-code", "codex", "cursor"]))
def uninstall(program: str) -> None:
    """Give a program its own servers back."""
    from plait._support.files import write_atomically
    from plait.serve.programs import PROGRAMS, backup_of, restored

    about, file = PROGRAMS[program], _program_file(program)
    backup = backup_of(file)
    if not backup.exists():
        raise ConfigError(f"{backup} is not there: nothing was installed for {about.title}")
    before, text = backup.read_bytes().decode(), file.read_bytes().decode() if file.exists() else ""
    if before:
        write_atomically(file, restored(about, text, before, file))
    else:
        file.unlink(missing_ok=True)  # there was none
    backup.unlink()
    click.echo(f"{about.title} has its own servers again: {file}")


def _program_file(program: str) -> Path:
    from plait.serve.programs import PROGRAMS

    return PROGRAMS[program].file(Path.home(), os.environ).resolve()  # a link stays one


def _own_config(ctx: click.Context) -> Path:
    """Return the mcp.json that plait serves: the one that is named, else the user's."""
    from plait.cli.found_config import config_places

    named = settings_of(ctx).config
    return Path(named).expanduser().resolve() if named else config_places()[-1]


def _command(config: Path) -> tuple[str, ...]:
    """Return the command by which a program starts plait, in whatever folder and environment."""
    found = Path(sys.executable).with_name("plait")
    words = [str(found)] if found.exists() else [sys.executable, "-P", "-m", "plait"]
    return (*words, "serve", "--config", str(config))


def _servers_of(config: Path) -> dict[str, dict[str, object]]:
    """Return the servers of an mcp.json as they are written in it."""
    from plait.client.config.document import read_json_file
    from plait.client.config.raw_value import Location, Problems, as_mapping

    if not config.exists():
        return {}
    problems = Problems()
    document = read_json_file(config, Location(problems, file=str(config))) or {}
    if problems.errors:
        raise ConfigError.from_problems(problems.errors)
    listed = as_mapping(document.get("mcpServers") or document.get("servers")) or {}
    if document.keys() - {"mcpServers", "servers"}:
        more = ", ".join(sorted(document.keys() - {"mcpServers", "servers"}))
        raise ConfigError(
            f"{config} has options of its own ({more}), which would be lost: add the servers to "
            "it yourself, or name another file with --config"
        )
    return {
        str(name): {str(key): value for key, value in (as_mapping(entry) or {}).items()}
        for name, entry in listed.items()
    }


def _as_other(name: str, renamed: Mapping[str, str]) -> str:
    return f" as {renamed[name]}" if name in renamed else ""


def _difference(before: str, after: str, file: Path) -> str:
    """Show what changes, without values that may be secret."""
    from plait._support.redact import Redactor, looks_secret

    secret = re.compile(r"[\"']?([\w-]+)[\"']?\s*[:=]\s*[\"']([^\"']+)[\"']")
    found = {value for key, value in secret.findall(before + after) if looks_secret(key)}
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(file), str(file), lineterm="", n=1
    )
    return Redactor(found)("\n".join(lines)) + "\n"


@serve.group("token", cls=ExampleGroup)
def token_group() -> None:
    """Manage the tokens of clients over HTTP.

    With a token or more, every client must send one; each has servers of its own behind.

    Examples:
        plait serve token add laptop
        plait serve token list
        plait serve token remove laptop
    """


@token_group.command("add")
@click.argument("name")
def add(name: str) -> None:
    """Create a token for a client, and print it; it is not shown again."""
    from plait.serve.tokens import add_token, tokens_path

    click.echo(add_token(tokens_path(), name))
    print_aside("note", "clients send it as Authorization: Bearer TOKEN", colour="cyan")


@token_group.command("list")
def list_tokens() -> None:
    """List the clients that have a token."""
    from plait.serve.tokens import read_tokens, tokens_path

    for name in read_tokens(tokens_path()):
        click.echo(name)


@token_group.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove the token of a client, which is refused from then on."""
    from plait.serve.tokens import read_tokens, remove_token, tokens_path

    remove_token(tokens_path(), name)
    if not read_tokens(tokens_path()):
        print_aside("note", "no token is left: what starts now lets everybody in", colour="cyan")


def _served(
    config: ClientConfig,
    servers: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> ClientConfig:
    """Keep the named servers and tools; no names keeps all."""
    config = with_servers(config, servers)
    options = dict(config.options)
    if include:
        options["include"] = include
    if exclude:
        known = cast("tuple[str, ...]", options.get("exclude") or ())
        options["exclude"] = (*known, *exclude)
    return replace(config, options=options)
