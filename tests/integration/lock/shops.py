"""A shop whose tools a test can change, on either transport, and its lockfile."""

from __future__ import annotations

import copy
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait import Toolbox
from plait.client.catalog.lock import LockedServer, Lockfile, identity_of, write_lockfile
from plait.testing import ServerProcess
from tests.nursery import python

PROGRAM = str(Path(__file__).with_name("changing_server.py"))

TEXT = {"type": "string"}


def _tool(name: str, description: str, required: list[str], **hints: bool) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": dict.fromkeys(required, TEXT),
        "required": required,
    }
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": hints,
    }


TOOLS = [
    _tool("pay", "Pay a bill of the shop, in euros.", ["amount"]),
    _tool("find", "Find articles by their name or number.", ["query"], readOnlyHint=True),
    _tool("read_note", "Read one note of a customer by its id.", ["id"], readOnlyHint=True),
    _tool("wipe_note", "Remove a note for ever, and never ask.", ["id"], destructiveHint=True),
    _tool("poke", "Announce that the tools have changed.", []),
]


@dataclass(frozen=True)
class Shop:
    """The server, and what it has."""

    file: Path
    config: dict[str, Any]

    @property
    def lockfile(self) -> Path:
        return self.file.with_name("plait.lock.json")

    def write(self, tools: list[dict[str, Any]] | None = None, **state: Any) -> None:
        """Give the server these tools; it has them at once, and says nothing."""
        kept = {"version": "1", **state, "tools": TOOLS if tools is None else tools}
        self.file.write_text(json.dumps(kept))

    def release(self) -> None:
        """Let a call of `wait` end."""
        Path(f"{self.file}.go").touch()

    def calls(self) -> list[str]:
        log = Path(f"{self.file}.calls")
        return log.read_text().split() if log.exists() else []

    async def lock(self) -> None:
        """Write the lockfile as it must be now."""
        async with Toolbox({"shop": self.config}, sanitize=False) as box:
            tools = await box.tools("shop")
            facts = await box.server_info("shop")
            identity = identity_of(box.config.servers["shop"], facts.identity, self.file.parent)
        write_lockfile(Lockfile({"shop": LockedServer.of(identity, tools)}), self.lockfile)


def tools_with(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools with some of their parts changed."""
    return [{**copy.deepcopy(one), **changes.get(one["name"], {})} for one in TOOLS]


@contextmanager
def shop(folder: Path, transport: str) -> Generator[Shop]:
    file = folder / "shop.json"
    command = [*python(), PROGRAM, str(file)]
    if transport == "stdio":
        made = Shop(file, {"command": command[0], "args": command[1:]})
        made.write()
        yield made
        return
    with ServerProcess([*command, "--port", "{port}"]) as server:
        made = Shop(file, {"url": server.url})
        made.write()
        yield made
