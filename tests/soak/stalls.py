"""Measures how long servers that send too much keep the event loop from its other tasks.

`python -m tests.soak.stalls` prints, for each of them, the longest time of CPU between two turns
of the loop, by how much the memory of the process grew at most, and what became of the call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

from plait import PlaitError, Toolbox
from tests.integration.bounds.loop_stalls import LoopStalls
from tests.integration.bounds.memory import MemoryGrowth

MEGABYTES = 60
TIMEOUT_SECONDS = 60.0
_LEVELS = 18
_HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "stalls", "version": "1"},
}
_PIECES = {
    "text": b"x",
    "text that is not ASCII": "ä".encode(),
    "text with escapes": b"\\n",
    "commas in a text": b"1,2,",
}
"""What fills the text of a result."""
_VALUES = {"empty objects": b"{},", "numbers": b"1,", "nested lists": b"[" * 50 + b"]" * 50 + b","}
"""What fills the structured content of a result."""
_BLOCK = b'{"type":"text","text":"x"},'


def _tools(name: str) -> list[dict[str, Any]]:
    names = [*_PIECES, *_VALUES, "blocks"]
    tools: list[dict[str, Any]] = [{"name": n, "inputSchema": {"type": "object"}} for n in names]
    match name:
        case "50,000 tools":
            text = {"type": "object", "properties": {"a": {"type": "string"}}}
            tools += [{"name": f"tool_{n}", "inputSchema": text} for n in range(50_000)]
        case "a pattern":
            evil = {"a": {"type": "string", "pattern": "^(a+)+$"}}
            tools.append({"name": name, "inputSchema": {"type": "object", "properties": evil}})
        case "references that double":
            links = {
                f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(_LEVELS)
            }
            schema = {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/d0"}},
                "$defs": {**links, f"d{_LEVELS}": {"type": "integer"}},
            }
            tools.append({"name": name, "inputSchema": schema})
        case _:
            pass
    return tools


def _result(name: str, size: int) -> bytes:
    if name in _PIECES:
        text = _PIECES[name] * (size // len(_PIECES[name]))
        return b'{"content":[{"type":"text","text":"' + text + b'"}]}'
    if name in _VALUES:
        items = _VALUES[name] * (size // len(_VALUES[name]))
        return b'{"content":[],"structuredContent":{"a":[' + items + b"1]}}"
    if name == "blocks":
        return b'{"content":[' + _BLOCK * (size // len(_BLOCK)) + _BLOCK[:-1] + b"]}"
    return b'{"content":[]}'


def serve(name: str) -> None:
    """Serve one attack on standard input and output."""
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                result = json.dumps(_HANDSHAKE).encode()
            case "tools/list":
                result = json.dumps({"tools": _tools(name)}).encode()
            case "tools/call":
                result = _result(message["params"]["name"], MEGABYTES * 1_000_000)
            case "ping":
                result = b"{}"
            case _:
                continue
        head = b'{"jsonrpc":"2.0","id":%d,"result":' % message["id"]
        sys.stdout.buffer.write(head + result + b"}\n")
        sys.stdout.buffer.flush()


async def measure(name: str) -> None:
    """Meet one attack, and print what it did."""
    server = {
        "command": sys.executable,
        "args": ["-m", "tests.soak.stalls", name],
        "cwd": str(Path(__file__).parents[2]),
        "protocol": "legacy",
        "timeout": TIMEOUT_SECONDS,
    }
    outcome = "listed" if name == "50,000 tools" else "answered"
    async with Toolbox({"server": server}) as box:
        await box.ping("server")
        if name != "50,000 tools":
            await box.tools()
        with MemoryGrowth() as growth:
            async with LoopStalls() as stalls:
                try:
                    if name == "50,000 tools":
                        await box.tools()
                    else:
                        await box.call("server", name, {"a": "a" * 28 + "!"})
                except PlaitError as error:
                    outcome = type(error).__name__
    stall, memory = stalls.worst_seconds * 1000, growth.worst_bytes / 1e6
    print(f"| {name} | {stall:.0f} ms | {memory:.0f} MB | {outcome} |", flush=True)


async def main() -> None:
    """Measure all of them."""
    logging.getLogger("plait").setLevel(logging.CRITICAL)
    print("| the server sends | worst stall | memory | the call |\n| --- | --- | --- | --- |")
    for name in ("a pattern", "references that double", "50,000 tools", *_PIECES, *_VALUES):
        await measure(name)
    await measure("blocks")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        asyncio.run(main())
