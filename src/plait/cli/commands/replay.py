"""`plait replay`: play recorded MCP traffic to any client."""

from __future__ import annotations

import json
import sys
from typing import Any

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

    played = Tape(tape, mode="none")
    names = played.servers()
    chosen = names[0] if server is None and len(names) == 1 else server
    if chosen is None or chosen not in names:
        which = "choose one with --server" if server is None else f"there is no {server!r}"
        raise ConfigError(f"{tape}: {which}: {', '.join(names) or 'nothing is recorded'}")
    anyio.run(_serve_stdio, played, chosen)


async def _serve_stdio(tape: Tape, server: str) -> None:
    """Play a recorded server on standard input and output until the input ends."""
    import anyio
    from msgspec.structs import asdict

    from plait._support.redact import Redactor
    from plait.client.protocol.framing import frames
    from plait.client.protocol.reading import coerced_id
    from plait.client.transports.replay import CANCELLED, TapePlayer, outcome_of
    from plait.client.transports.wire import Wire

    async def write(message: dict[str, Any]) -> None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()

    player = TapePlayer(tape, Wire(server, Redactor(), lambda: None), write)
    async for line in anyio.wrap_file(sys.stdin.buffer):
        for message in frames(line).messages:
            if message.kind == "request":
                player.plays(message.id, message.method or "", message.params)
            elif message.method == CANCELLED:
                player.cancel(coerced_id((message.params or {}).get("requestId")))
            elif message.error is not None:
                player.answer(message.id, outcome_of({"error": asdict(message.error)}))
            elif message.kind == "response":
                player.answer(message.id, {"result": message.decoded_result()})
    await player.stop()
