"""A server that keeps notes in memory, and ends in the middle of a call where it is wanted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("notes", log_level="WARNING")
notes: list[str] = []


@server.tool()
def add_note(text: str) -> str:
    notes.append(text)
    return "noted"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_notes() -> str:
    return json.dumps({"notes": notes, "folder": sorted(path.name for path in Path().iterdir())})


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def die_once(file: str) -> str:
    """End the process at the first call, which leaves a file."""
    if not Path(file).exists():
        Path(file).touch()
        os._exit(1)
    return "alive"


if __name__ == "__main__":
    anyio.run(server.run_stdio_async)
