"""`plait servers`: connect to every server and show its status."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from plait.cli import session, terminal
from plait.cli.advice import target_of
from plait.cli.base import ExampleCommand, json_option, server_arguments
from plait.cli.exits import Exit
from plait.client.config.read import ClientConfig
from plait.errors import PlaitError

if TYPE_CHECKING:
    from plait.client.connections.status import Status
    from plait.client.toolbox import Toolbox


@click.command(cls=ExampleCommand)
@server_arguments
@click.option("--no-connect", is_flag=True, help="Show the configuration; start nothing.")
@json_option
@click.pass_context
def servers(ctx: click.Context, servers: tuple[str, ...], no_connect: bool, as_json: bool) -> None:
    """Connect to every server and show its status.

    Exits with code 3 if a server cannot be reached.

    Examples:
        plait servers                  every server of mcp.json
        plait servers time files       only these
        plait servers --no-connect     the configuration, without connecting
        plait servers --json | jq -r '.[] | select(.state != "ready") | .name'
    """
    config = session.load_config(ctx, servers)
    if no_connect:
        if as_json:
            terminal.print_json(_configured_objects(config))
        else:
            terminal.print_rich(_configured_table(config))
        return

    async def connect(box: Toolbox) -> tuple[Mapping[str, PlaitError], Status]:
        queried = await session.query_each(config.servers, box.tools)
        return queried.errors, box.status()

    errors, status = session.run_in_toolbox(ctx, config, connect)
    if as_json:
        terminal.print_json([server.to_dict() for server in status.servers.values()])
    else:
        terminal.print_rich(status_table(status, errors))
        for number, (name, error) in enumerate(errors.items()):
            line = terminal.wrapped(session.error_line(name, error), sys.stdout)
            terminal.print_text(line if number else f"\n{line}")
        if errors:
            terminal.print_aside("hint", f"plait doctor {' '.join(errors)}", colour="cyan")
    if errors:
        ctx.exit(Exit.UNREACHABLE)


def status_table(status: Status, failed: Container[str] = ()) -> Table:
    """Make a table of the status of every server."""
    table = terminal.plain_table("", "server", "transport", "state", "protocol", "implementation")
    table.add_column("tools", justify="right")
    table.add_column("connect", justify="right")
    for server in status.servers.values():
        ready = server.state == "ready" and server.name not in failed
        info = server.server_info or {}
        about = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
        table.add_row(
            terminal.tick(ready),
            Text(server.name, "bold"),
            server.transport,
            Text(server.state, "green" if ready else "red"),
            server.protocol_version or "–",
            terminal.cell(about),
            "–" if server.tool_count is None else str(server.tool_count),
            terminal.seconds_label(server.connect_seconds if ready else None),
        )
    return table


def _configured_table(config: ClientConfig) -> Table:
    """Make a table of the configured servers, the disabled ones last."""
    table = terminal.plain_table("server", "transport", "target")
    for name, server in config.servers.items():
        table.add_row(Text(name, "bold"), server.transport, Text(target_of(server)))
    for name in config.disabled:
        table.add_row(Text(name, "dim"), "–", Text("disabled", "dim"))
    return table


def _configured_objects(config: ClientConfig) -> list[dict[str, object]]:
    """Return the configured servers as JSON, without secrets."""
    listed: list[dict[str, object]] = [
        {
            "name": name,
            "transport": server.transport,
            "target": target_of(server),
            "disabled": False,
            "source": server.source or config.source,
        }
        for name, server in config.servers.items()
    ]
    return [*listed, *({"name": name, "disabled": True} for name in config.disabled)]
