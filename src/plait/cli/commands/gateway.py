"""`plait gateway`: the tool servers of an agent, from a manifest or a hosted gateway."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from plait._support.suggestions import suggest_names
from plait.cli import terminal
from plait.cli.click_classes import ExampleGroup
from plait.cli.commands.gateway_history import endpoint_option, outbox, send_history
from plait.cli.commands.gateway_mock import mock
from plait.cli.exits import Exit
from plait.cli.options import Command, json_option
from plait.errors import UnknownServerError

if TYPE_CHECKING:
    from plait.gateway.configuration import McpToolServerConfigurationService
    from plait.gateway.credentials import TokenSource
    from plait.gateway.entries import GatewayServer, ServerList
    from plait.gateway.verify import Verification


@click.group(cls=ExampleGroup)
def gateway() -> None:
    """Manage the tool servers of an agent, and its chat history.

    They are listed in ToolingManifest.json during development, and by a gateway in production.

    Examples:
        plait gateway mock --init             a mock gateway on this machine
        plait gateway add mcp_MailTools       add a server to ToolingManifest.json
        plait gateway servers                 list the servers
        plait gateway verify                  compare declared and actual tools
    """


gateway.add_command(mock)
gateway.add_command(send_history)
gateway.add_command(outbox)


def _source_options(command: Command) -> Command:
    manifest_help = "The manifest; by default ToolingManifest.json here or above."
    agent_help = "List the servers of this agent from the gateway, with $BEARER_TOKEN."
    command = click.option("--manifest", metavar="PATH", help=manifest_help)(command)
    return click.option("--agent", metavar="ID", help=agent_help)(endpoint_option(command))


@gateway.command()
@click.option("--available", is_flag=True, help="List all servers of the gateway.")
@_source_options
@json_option
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

    Exits with code 4 if an entry cannot be used.

    Examples:
        plait gateway servers
        plait gateway servers --json
        plait gateway servers --agent 11111111-2222-3333-4444-555555555555
        plait gateway servers --available     all servers of the gateway
    """
    service = _service(manifest, endpoint, agent)
    found = asyncio.run(_listed(service, agent, available=available))
    if as_json:
        listed = [one.to_dict() for one in found]
        skipped = [{"name": one.name, "reason": one.reason} for one in found.skipped]
        terminal.print_json({"servers": listed, "skipped": skipped})
    elif found.servers:
        terminal.print_rich(servers_table(found.servers))
    else:
        click.echo("no tool servers", err=True)
    for one in found.skipped:
        terminal.print_aside("skipped", str(one), colour="red")
    if found.skipped:
        ctx.exit(Exit.CONFIG)


@gateway.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--url", help="The URL of the server; by default its URL at the gateway.")
@click.option("--scope", help="The scope of its token.")
@click.option("--audience", help="The audience of its token.")
@click.option("--publisher", help="The publisher of the server.")
@click.option(
    "--tool", "tools", metavar="NAME", multiple=True, help="A declared tool; may be repeated."
)
@click.option("--manifest", metavar="PATH", default="ToolingManifest.json", show_default=True)
def add(
    names: tuple[str, ...],
    url: str | None,
    scope: str | None,
    audience: str | None,
    publisher: str | None,
    tools: tuple[str, ...],
    manifest: str,
) -> None:
    """Add servers to the manifest, which is created if needed.

    An existing entry keeps the fields that are not set by options.

    Examples:
        plait gateway add mcp_MailTools mcp_CalendarTools
        plait gateway add mcp_MailTools --scope McpServers.Mail.All
        plait gateway add tracker --url https://tracker.example/mcp --tool open
    """
    from plait.gateway.manifest import add_entries

    if url and len(names) > 1:
        raise click.UsageError("--url needs exactly one NAME")
    fields: dict[str, object] = {
        "url": url,
        "scope": scope,
        "audience": audience,
        "publisher": publisher,
        "tools": list(tools),
    }
    fields = {key: value for key, value in fields.items() if value}
    entries = [{"mcpServerName": name, "mcpServerUniqueName": name, **fields} for name in names]
    added = add_entries(Path(manifest), entries)
    for name in names:
        click.echo(f"{'added' if name in added else 'changed'} {name} in {manifest}", err=True)


@gateway.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--manifest", metavar="PATH", default="ToolingManifest.json", show_default=True)
@click.pass_context
def remove(ctx: click.Context, names: tuple[str, ...], manifest: str) -> None:
    """Remove servers from the manifest.

    Exits with code 4 if one of them is not in it.

    Examples:
        plait gateway remove mcp_MailTools
    """
    from plait.gateway.manifest import remove_entries

    removed = remove_entries(Path(manifest), names)
    for name in names:
        message = f"removed {name} from {manifest}" if name in removed else f"no server {name}"
        click.echo(message, err=True)
    if len(removed) < len(names):
        ctx.exit(Exit.CONFIG)


@gateway.command()
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--write", is_flag=True, help="Write the actual tools to the manifest.")
@_source_options
@json_option
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
    """Compare the declared tools of servers with the actual ones.

    Exits with code 3 if a server cannot be reached, and with 6 if its tools differ.

    Examples:
        plait gateway verify
        plait gateway verify mcp_MailTools --json
        plait gateway verify --write          declare the actual tools
    """
    service = _service(manifest, endpoint, agent)
    verdicts = asyncio.run(_verified(service, agent, names))
    if as_json:
        terminal.print_json([one.to_dict() for one in verdicts])
    else:
        terminal.print_rich(verdicts_table(verdicts))
        for one in verdicts:
            if one.error is not None:
                terminal.print_text(terminal.wrapped(f"{one.server}: {one.error}", sys.stdout))
    if write:
        _declare(manifest, verdicts)
    elif any(one.state == "differs" for one in verdicts):
        ctx.exit(Exit.PROTOCOL)
    if any(one.state == "failed" for one in verdicts):
        ctx.exit(Exit.UNREACHABLE)


def _service(
    manifest: str | None, endpoint: str | None, agent: str | None
) -> McpToolServerConfigurationService:
    """Use the manifest, unless an agent is named."""
    from plait.gateway.configuration import McpToolServerConfigurationService

    return McpToolServerConfigurationService(
        manifest=manifest,
        endpoint=endpoint,
        use_manifest=agent is None,
        # In development, tokens come from the environment.
        environ={**os.environ, "PYTHON_ENVIRONMENT": "Development"},
    )


async def _listed(
    service: McpToolServerConfigurationService, agent: str | None, *, available: bool = False
) -> ServerList:
    """List the servers of the manifest or of an agent, or those available to all."""
    token = await _tokens(service).shared()
    if available:
        return await service.list_available_servers(token)
    return await service.list_tool_servers(agent or "", token)


def _tokens(service: McpToolServerConfigurationService) -> TokenSource:
    from plait.gateway.credentials import TokenSource

    return TokenSource(service.settings(), environ=service.environ)


async def _verified(
    service: McpToolServerConfigurationService, agent: str | None, names: Sequence[str]
) -> list[Verification]:
    from plait.gateway.verify import verify_servers

    listed = await _listed(service, agent)
    known = {one.mcp_server_name: one for one in listed}
    for name in names:
        if name not in known:
            guess = suggest_names(name, known)
            raise UnknownServerError(f"there is no server {name!r}: {guess}", server=name)
    chosen = [known[name] for name in names] or list(known.values())
    return await verify_servers(service, chosen, await _tokens(service).for_servers(chosen, ""))


def _declare(manifest: str | None, verdicts: Sequence[Verification]) -> None:
    from plait.gateway.manifest import add_entries, find_manifest

    path = Path(manifest) if manifest else find_manifest()
    if path is None:
        raise click.UsageError("--write needs a manifest to write to")
    alive = [one for one in verdicts if one.error is None]
    add_entries(path, [{"mcpServerName": one.server, "tools": list(one.live)} for one in alive])
    click.echo(
        f"wrote the tools of {terminal.count_label(len(alive), 'server')} to {path}", err=True
    )


def servers_table(servers: Sequence[GatewayServer]) -> Table:
    """Make a table of the servers."""
    from plait.client.config.urls import public_url

    table = terminal.plain_table("server", "address", "scope", "audience", "tools")
    for one in servers:
        declared = "–" if one.tools is None else str(len(one.tools))
        table.add_row(
            Text(terminal.visible(one.mcp_server_name), "bold"),
            Text(terminal.visible(public_url(one.url))),
            Text(terminal.visible(one.scope or "–")),
            Text(terminal.visible(one.audience or "–")),
            declared,
        )
    return table


def verdicts_table(verdicts: Sequence[Verification]) -> Table:
    """Make a table of declared and actual tools."""
    table = terminal.plain_table("", "server", "state", "tools", "missing", "undeclared")
    for one in verdicts:
        matches = one.state in {"matches", "nothing declared"}
        table.add_row(
            Text("✓" if matches else "✗", "green" if matches else "red"),
            Text(terminal.visible(one.server), "bold"),
            one.state,
            "–" if one.error is not None else str(len(one.live)),
            Text(terminal.visible(", ".join(one.missing)) or "–"),
            Text(terminal.visible(", ".join(one.undeclared)) or "–"),
        )
    return table
