"""`plait servers`: connect to every server and show its status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import json_option, server_arguments
from plait.cli.query_servers import error_line, query_each
from plait.cli.terminal import (
    plain_table,
    print_aside,
    print_json,
    print_rich,
    print_text,
    seconds_label,
    visible,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from plait.cli.session import Opened
    from plait.client.config.read import ClientConfig
    from plait.client.connections.status import Status
    from plait.errors import PlaitError


@click.command(
    cls=ExampleCommand,
    examples="""
    plait servers                  every server of mcp.json
    plait servers time files       only these
    plait servers --no-connect     the configuration, without connecting
    plait servers --json | jq -r '.[] | select(.state != "ready") | .name'
    """,
)
@server_arguments
@click.option("--no-connect", is_flag=True, help="Show the configuration; start nothing.")
@json_option
@click.pass_context
def servers(ctx: click.Context, servers: tuple[str, ...], no_connect: bool, as_json: bool) -> None:
    """Connect to every server and show its status.

    Exits with code 3 if a server cannot be reached.
    """
    config = session.load_config(ctx, servers)
    if no_connect:
        if as_json:
            print_json(configured_objects(config))
        else:
            print_rich(configured_table(config))
        return

    async def connect(opened: Opened) -> tuple[Mapping[str, PlaitError], Status]:
        async with opened.connecting:
            queried = await query_each(config.servers, opened.box.tools)
        return queried.errors, opened.box.status()

    errors, status = session.run_with(ctx, config, connect, show_progress=not as_json)
    if as_json:
        print_json([server.to_dict() for server in status.servers.values()])
    else:
        print_rich(status_table(status, errors))
        _print_reasons(errors)
    if errors:
        ctx.exit(Exit.UNREACHABLE)


def status_table(status: Status, failed: Container[str] = ()) -> Table:
    """Make a table of the status of every server."""
    table = plain_table("", "server", "transport", "state", "protocol", "implementation")
    table.add_column("tools", justify="right")
    table.add_column("connect", justify="right")
    for server in status.servers.values():
        ready = server.state == "ready" and server.name not in failed
        info = server.server_info or {}
        about = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
        table.add_row(
            Text("✓" if ready else "✗", "green" if ready else "red"),
            Text(server.name, "bold"),
            server.transport,
            Text(server.state, "green" if ready else "red"),
            server.protocol_version or "–",
            Text(visible(about) or "–"),
            "–" if server.tool_count is None else str(server.tool_count),
            seconds_label(server.connect_seconds if ready else None),
        )
    return table


def _print_reasons(errors: Mapping[str, PlaitError]) -> None:
    """Print why servers are not ready, below the table."""
    if not errors:
        return
    click.echo()
    for name, error in errors.items():
        print_text(wrapped(error_line(name, error), sys.stdout))
    print_aside("hint", f"plait doctor {' '.join(errors)}", colour="cyan")


def configured_table(config: ClientConfig) -> Table:
    """Make a table of the configured servers, the disabled ones last."""
    from plait.cli.advice import target_of
    from plait.client.config.servers import transport_of

    table = plain_table("server", "transport", "target")
    for name, server in config.servers.items():
        table.add_row(Text(name, "bold"), transport_of(server), Text(target_of(server)))
    for name in config.disabled:
        table.add_row(Text(name, "dim"), "–", Text("disabled", "dim"))
    return table


def configured_objects(config: ClientConfig) -> list[dict[str, object]]:
    """Return the configured servers as JSON, without secrets."""
    from plait.cli.advice import target_of
    from plait.client.config.servers import transport_of

    listed: list[dict[str, object]] = [
        {
            "name": name,
            "transport": transport_of(server),
            "target": target_of(server),
            "disabled": False,
            "source": server.source or config.source,
        }
        for name, server in config.servers.items()
    ]
    return [*listed, *({"name": name, "disabled": True} for name in config.disabled)]
