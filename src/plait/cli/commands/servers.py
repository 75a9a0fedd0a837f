"""`plait servers`: connect to every server and show how each one is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from rich.table import Table

    from plait.cli.ask_servers import Answers
    from plait.cli.session import Opened
    from plait.client.catalog.tool import Tool
    from plait.client.config.read import ClientConfig
    from plait.client.connections.status import Status
    from plait.errors import PlaitError


@click.command(
    cls=ExampleCommand,
    examples="""
    plait servers                  every server of mcp.json
    plait servers time files       only these
    plait servers --no-connect     what is configured, without starting it
    plait servers --json | jq -r '.[] | select(.state != "ready") | .name'
    """,
)
@server_arguments
@click.option("--no-connect", is_flag=True, help="Show what is configured; start nothing.")
@json_option
@common_options
@click.pass_context
def servers(ctx: click.Context, servers: tuple[str, ...], no_connect: bool, as_json: bool) -> None:
    """Connect to every server and show how each one is.

    Ends with code 3 when at least one server cannot be reached.
    """
    from plait.cli import session
    from plait.cli.ask_servers import ask_each
    from plait.cli.terminal import print_json, print_rich

    config = session.load_config(ctx, servers)
    if no_connect:
        if as_json:
            print_json(configured_objects(config))
        else:
            print_rich(configured_table(config))
        return

    async def connect(opened: Opened) -> tuple[Answers[list[Tool]], Status]:
        async with opened.connecting:
            answers = await ask_each(config.servers, opened.box.tools)
        return answers, opened.box.status()

    answers, status = session.run_with(ctx, config, connect, show_progress=not as_json)
    if as_json:
        print_json([server.to_dict() for server in status.servers.values()])
    else:
        print_rich(status_table(status, answers.failed))
        _explain(answers.failed)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


def status_table(status: Status, failed: Container[str] = ()) -> Table:
    """Draw what is known of every server, one line each."""
    from rich.text import Text

    from plait.cli.terminal import seconds_label, visible

    table = _table("", "server", "transport", "state", "protocol", "implementation")
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


def _explain(failed: Mapping[str, PlaitError]) -> None:
    """Print why servers are missing, below the table."""
    from plait.cli.ask_servers import reason_for
    from plait.cli.terminal import print_aside, print_text, wrapped

    if not failed:
        return
    click.echo()
    for name, error in failed.items():
        print_text(wrapped(reason_for(name, error), sys.stdout))
    print_aside("hint", f"plait doctor {' '.join(failed)}", colour="cyan")


def configured_table(config: ClientConfig) -> Table:
    """Draw the configured servers, the disabled ones last."""
    from rich.text import Text

    from plait.cli.advice import target_of
    from plait.client.config.servers import transport_of

    table = _table("server", "transport", "target")
    for name, server in config.servers.items():
        table.add_row(Text(name, "bold"), transport_of(server), Text(target_of(server)))
    for name in config.disabled:
        table.add_row(Text(name, "dim"), "–", Text("disabled", "dim"))
    return table


def configured_objects(config: ClientConfig) -> list[dict[str, object]]:
    """Describe the configured servers as plain data, without secrets."""
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


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
