"""`plait replay`: play recorded MCP traffic to any client."""

from __future__ import annotations

import click

from plait.cli.base import ExampleGroup
from plait.client.transports.tape import Tape
from plait.errors import ConfigError


@click.group(cls=ExampleGroup)
def replay() -> None:
    """Play recorded MCP traffic.

    Examples:
        plait replay serve tests/tapes/search.jsonl
    """


@replay.command()
@click.argument("tape", type=click.Path(exists=True, dir_okay=False))
@click.option("--server", metavar="NAME", help="Which recorded server to play, if several are.")
def serve(tape: str, server: str | None) -> None:
    """Play a tape as an MCP server on standard input and output, for any MCP client.

    A tape is recorded by a client with `record="…"`. A request that is not on the tape is answered
    with an error that names the nearest one.

    Examples:
        plait replay serve tape.jsonl
        plait replay serve tape.jsonl --server search
    """
    import anyio

    from plait.client.transports.replay import serve_stdio

    played = Tape(tape, mode="none")
    names = played.servers()
    chosen = names[0] if server is None and len(names) == 1 else server
    if chosen is None or chosen not in names:
        which = "choose one with --server" if server is None else f"there is no {server!r}"
        raise ConfigError(f"{tape}: {which}: {', '.join(names) or 'nothing is recorded'}")
    anyio.run(serve_stdio, played, chosen)
