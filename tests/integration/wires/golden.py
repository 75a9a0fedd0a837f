"""The golden files: what must come of every exchange.

They were recorded on the client of the MCP SDK, which plait used before it had its own. Where
plait's does something else, the `note` of the exchange says why that is right.
`python -m tests.integration.wires.golden STEP "REASON"` in the root of the repository records the
exchanges anew that end with a step and come out otherwise, and prints all that do.

A file has an object for each exchange, by its name, which lists the steps of the server:

- `outcome`: what the caller gets, or the facts of the error;
- `told`: what callbacks were called with, in order; a client with callbacks is called "heard";
- `server`: what the server received, in order: methods with params, responses to its own
  requests, and on HTTP the MCP headers that differ from what each request must have;
- `reopened`: how many sessions had to be opened during the exchange.

Ids, versions of the client, ports and numbers of bytes are left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.integration.wires.odd_server import Json
from tests.integration.wires.play import ERAS, TRANSPORTS, play

FOLDER = Path(__file__).with_name("golden")


def read(transport: str, era: str) -> dict[str, Json]:
    """Read what must come of the exchanges."""
    golden: dict[str, Json] = json.loads(_file(transport, era).read_text())
    return {
        name: {key: value for key, value in one.items() if key != "note"}
        for name, one in golden.items()
    }


def as_json(played: dict[str, Json]) -> dict[str, Json]:
    """Return outcomes as they are read from a file."""
    return json.loads(json.dumps(played))


def write(transport: str, era: str, played: dict[str, Json]) -> None:
    """Write a file: a line for each part of an exchange."""
    exchanges = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f" {json.dumps(key)}: {_line(value)}" for key, value in sorted(one.items()))
        + "\n}"
        for name, one in sorted(played.items())
    ]
    _file(transport, era).write_text("{\n" + ",\n".join(exchanges) + "\n}\n")


def _file(transport: str, era: str) -> Path:
    return FOLDER / f"{transport}-{era}.json"


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True)


async def _record(transport: str, era: str, step: str, reason: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        present = as_json(await play(transport, era, Path(folder)))
    known, right = json.loads(_file(transport, era).read_text()), read(transport, era)
    for name in [name for name, one in present.items() if one != right.get(name)]:
        sys.stderr.write(f"{transport} {era}, {name}:\n right {_line(right.get(name))}\n")
        sys.stderr.write(f" now   {_line(present[name])}\n")
        if name.rpartition(": ")[2].rpartition(", ")[2] == step:
            known[name] = {**present[name], "note": reason}
    write(transport, era, known)


async def _record_all(step: str, reason: str) -> None:
    for transport in TRANSPORTS:
        for era in ERAS:
            await _record(transport, era, step, reason)


if __name__ == "__main__":
    asyncio.run(_record_all(*sys.argv[1:3]))
