"""The golden files: what came of every exchange, recorded on the wire of the MCP SDK.

`python -m tests.integration.wires.golden` in the root of the repository records them anew. It
plays each exchange on the SDK's wire and on plait's own. The outcome of the SDK's is recorded,
except where `LEAN_IS_RIGHT` says why the other one is, which becomes the `note` of the exchange;
other differences are printed.

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
import os
import sys
import tempfile
from pathlib import Path

from tests.integration.wires.odd_server import Json
from tests.integration.wires.play import ERAS, TRANSPORTS, play

FOLDER = Path(__file__).with_name("golden")

LEAN_IS_RIGHT = {
    "nested": "What was cut from an answer is said in a note; and no answer is lost for its depth.",
    "a stream that cannot be resumed": "405 refuses a stream: the session goes on.",
    "call of look: unknown notification, blank, failed": "A session lists its tools once.",
    "call of count: answer": "The notes are those of this answer, not of a list made meanwhile.",
}
"""Why plait's own wire is right where the SDK's does something else, by last step or name."""


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


async def _record(transport: str, era: str) -> None:
    wires: dict[str, dict[str, Json]] = {}
    for wire in ("lean", "sdk"):
        os.environ["PLAIT_WIRE"] = wire
        with tempfile.TemporaryDirectory() as folder:
            wires[wire] = as_json(await play(transport, era, Path(folder)))
    lean, recorded = wires["lean"], wires["sdk"]
    for name in [name for name, one in recorded.items() if one != lean[name]]:
        step = name.rpartition(": ")[2].rpartition(", ")[2]
        reason = LEAN_IS_RIGHT.get(name) or LEAN_IS_RIGHT.get(step)
        if reason is not None:
            recorded[name] = {**lean[name], "note": reason}
        else:
            sys.stderr.write(f"{transport} {era}, {name}:\n sdk  {_line(recorded[name])}\n")
            sys.stderr.write(f" lean {_line(lean[name])}\n")
    write(transport, era, recorded)


async def _record_all() -> None:
    FOLDER.mkdir(exist_ok=True)
    for transport in TRANSPORTS:
        for era in ERAS:
            await _record(transport, era)


if __name__ == "__main__":
    asyncio.run(_record_all())
