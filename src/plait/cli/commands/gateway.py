"""`plait gateway`: the tool servers of an agent, from a manifest or a hosted gateway."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from plait.cli.click_classes import ExampleCommand, ExampleGroup
from plait.cli.commands.gateway_history import outbox, send_history
from plait.cli.commands.gateway_mock import mock
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option

if TYPE_CHECKING:
    from rich.table import Table

    from plait.gateway.configuration import McpToolServerConfigurationService
    from plait.gateway.entries import GatewayServer, ServerList
    from plait.gateway.verify import Verdict

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(
    cls=ExampleGroup,
    examples="""
    plait gateway mock --init             a gateway on this machine, to try with
    plait gateway add mcp_MailTools       write it into ToolingManifest.json
    plait gateway servers                 what is in there?
    plait gateway verify                  do servers have what they declare?
    """,
)
@common_options
def gateway() -> None:
    """Manage the tool servers of an agent, and its chat history.

    They stand in ToolingManifest.json during development, and come from a gateway in production.
    """


gateway.add_command(mock)
gateway.add_command(send_history)
gateway.add_command(outbox)


def _source_options(command: Command) -> Command:
    command = click.option(
        "--manifest", metavar="PATH", help="The manifest; else ./ToolingManifest.json or above."
    )(command)
    command = click.option(
        "--endpoint", metavar="URL", help="The gateway; else $MCP_PLATFORM_ENDPOINT."
    )(command)
    return click.option(
        "--agent",
        metavar="ID",
        help="Ask the gateway for this agent's servers, with $BEARER_TOKEN.",
    )(command)


@gateway.command(
    cls=ExampleCommand,
    examples="""
    plait gateway servers
    plait gateway servers --json
    plait gateway servers --agent 11111111-2222-3333-4444-555555555555
    plait gateway servers --available     every server that the gateway knows
    """,
)
@click.option("--available", is_flag=True, help="List every server that the gateway knows.")
@_source_options
@json_option
@common_options
@click.pass_context
def servers(
    ctx: click.Context,
    available: bool,
    manifest: str | None,
    endpoint: str | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """List the tool servers of the manifest, or of an agent.

    Ends with code 4 when an entry cannot be used.
    """
    import asyncio

    from plait.cli.terminal import print_aside, print_json, print_rich

    listing = _available if available else _listed
    found = asyncio.run(listing(_service(manifest, endpoint, agent), agent))
    if as_json:
        listed = [one.to_dict() for one in found]
        skipped = [{"name": one.name, "reason": one.reason} for one in found.skipped]
        print_json({"servers": listed, "skipped": skipped})
    elif found.servers:
        print_rich(servers_table(found.servers))
    else:
        click.echo("there are no tool servers", err=True)
    for one in found.skipped:
        print_aside("left out", str(one), colour="red")
    if found.skipped:
        ctx.exit(Exit.CONFIG)


@gateway.command(
    cls=ExampleCommand,
    examples="""
    plait gateway add mcp_MailTools mcp_CalendarTools
    plait gateway add mcp_MailTools --scope McpServers.Mail.All
    plait gateway add tracker --url https://tracker.example/mcp --tool open
    """,
)
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--url", help="Where the server is; else the gateway's address for it.")
@click.option("--scope", help="The permission that its token needs.")
@click.option("--audience", help="The application that its token is for.")
@click.option("--publisher", help="Whose server it is.")
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="A tool that it declares.")
@click.option("--manifest", metavar="PATH", default="ToolingManifest.json", show_default=True)
@common_options
def add(
    names: tuple[str, ...],
    url: str | None,
    scope: str | None,
    audience: str | None,
    publisher: str | None,
    tools: tuple[str, ...],
    manifest: str,
) -> None:
    """Write servers into the manifest, which is made if there is none.

    A server that stands there already keeps what is not said anew.
    """
    from plait.gateway.manifest import add_entries

    if url and len(names) > 1:
        raise click.UsageError("--url can be that of one server only")
    said: dict[str, object] = {
        "url": url,
        "scope": scope,
        "audience": audience,
        "publisher": publisher,
        "tools": list(tools),
    }
    known = {key: value for key, value in said.items() if value}
    entries = [{"mcpServerName": name, "mcpServerUniqueName": name, **known} for name in names]
    added = add_entries(Path(manifest), entries)
    for name in names:
        click.echo(f"{'added' if name in added else 'changed'} {name} in {manifest}", err=True)


@gateway.command(cls=ExampleCommand, examples="plait gateway remove mcp_MailTools")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--manifest", metavar="PATH", default="ToolingManifest.json", show_default=True)
@common_options
@click.pass_context
def remove(ctx: click.Context, names: tuple[str, ...], manifest: str) -> None:
    """Take servers out of the manifest.

    Ends with code 4 when one of them is not there.
    """
    from plait.gateway.manifest import remove_entries

    gone = remove_entries(Path(manifest), names)
    for name in names:
        done = f"removed {name} from {manifest}" if name in gone else f"there is no {name}"
        click.echo(done, err=True)
    if len(gone) < len(names):
        ctx.exit(Exit.CONFIG)


@gateway.command(
    cls=ExampleCommand,
    examples="""
    plait gateway verify
    plait gateway verify mcp_MailTools --json
    plait gateway verify --write          declare what the servers have now
    """,
)
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--write", is_flag=True, help="Write the tools there are into the manifest.")
@_source_options
@json_option
@common_options
@click.pass_context
def verify(
    ctx: click.Context,
    names: tuple[str, ...],
    write: bool,
    manifest: str | None,
    endpoint: str | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """Compare the tools that servers declare with those they have.

    Ends with code 3 when a server cannot be asked, and with 6 when its tools are others.
    """
    import asyncio

    from plait.cli.terminal import print_json, print_rich, print_text, wrapped

    service = _service(manifest, endpoint, agent)
    verdicts = asyncio.run(_verified(service, agent, names))
    if as_json:
        print_json([one.to_dict() for one in verdicts])
    else:
        print_rich(verdicts_table(verdicts))
        for one in verdicts:
            if one.error is not None:
                print_text(wrapped(f"{one.server}: {one.error}", sys.stdout))
    if write:
        _declare(manifest, verdicts)
    elif any(one.state == "differs" for one in verdicts):
        ctx.exit(Exit.PROTOCOL)
    if any(one.state == "failed" for one in verdicts):
        ctx.exit(Exit.UNREACHABLE)


def _service(
    manifest: str | None, endpoint: str | None, agent: str | None
) -> McpToolServerConfigurationService:
    """Look into the manifest, unless an agent is named: a person at a terminal develops."""
    import os

    from plait.gateway.configuration import McpToolServerConfigurationService

    return McpToolServerConfigurationService(
        manifest=manifest,
        endpoint=endpoint,
        use_manifest=agent is None,
        # Whatever the machine is called: tokens come from the environment of the person.
        environ={**os.environ, "PYTHON_ENVIRONMENT": "Development"},
    )


async def _listed(service: McpToolServerConfigurationService, agent: str | None) -> ServerList:
    from plait.gateway.credentials import TokenSource

    token = await TokenSource(service.settings(), environ=service.environ).shared()
    return await service.list_tool_servers(agent or "", token)


async def _available(service: McpToolServerConfigurationService, _: str | None) -> ServerList:
    from plait.gateway.credentials import TokenSource

    token = await TokenSource(service.settings(), environ=service.environ).shared()
    return await service.list_available_servers(token)


async def _verified(
    service: McpToolServerConfigurationService, agent: str | None, names: Sequence[str]
) -> list[Verdict]:
    from plait.cli.suggestions import did_you_mean
    from plait.errors import UnknownServerError
    from plait.gateway.credentials import TokenSource
    from plait.gateway.verify import verify_servers

    listed = await _listed(service, agent)
    known = {one.mcp_server_name: one for one in listed}
    for name in names:
        if name not in known:
            guess = did_you_mean(name, known)
            raise UnknownServerError(f"there is no server {name!r}: {guess}", server=name)
    chosen = [known[name] for name in names] or list(known.values())
    source = TokenSource(service.settings(), environ=service.environ)
    return await verify_servers(service, chosen, await source.for_servers(chosen, ""))


def _declare(manifest: str | None, verdicts: Sequence[Verdict]) -> None:
    from plait.gateway.manifest import add_entries, find_manifest

    path = Path(manifest) if manifest else find_manifest()
    if path is None:
        raise click.UsageError("--write needs a manifest to write to")
    alive = [one for one in verdicts if one.error is None]
    add_entries(path, [{"mcpServerName": one.server, "tools": list(one.live)} for one in alive])
    click.echo(f"wrote the tools of {len(alive)} into {path}", err=True)


def servers_table(servers: Sequence[GatewayServer]) -> Table:
    """Draw the servers, one line each."""
    from rich.text import Text

    from plait.cli.terminal import visible
    from plait.client.config.urls import public_url

    table = _table("server", "address", "scope", "audience", "tools")
    for one in servers:
        declared = "–" if one.tools is None else str(len(one.tools))
        table.add_row(
            Text(visible(one.mcp_server_name), "bold"),
            Text(visible(public_url(one.url))),
            Text(visible(one.scope or "–")),
            Text(visible(one.audience or "–")),
            declared,
        )
    return table


def verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    """Draw how servers stand to their declarations, one line each."""
    from rich.text import Text

    from plait.cli.terminal import visible

    table = _table("", "server", "state", "tools", "missing", "undeclared")
    for one in verdicts:
        fine = one.state in {"matches", "nothing declared"}
        table.add_row(
            Text("✓" if fine else "✗", "green" if fine else "red"),
            Text(visible(one.server), "bold"),
            one.state,
            "–" if one.error is not None else str(len(one.live)),
            Text(visible(", ".join(one.missing)) or "–"),
            Text(visible(", ".join(one.undeclared)) or "–"),
        )
    return table


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
