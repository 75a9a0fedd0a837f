"""A small MCP server on the standard library alone, for `plait demo` and `plait init --demo`.

Run as a file, `python -I -S demo_server.py NAME FOLDER`, so that it imports nothing of plait; it
starts in a few milliseconds. It speaks MCP on stdin and stdout, or, with a port as third argument,
over Streamable HTTP with sessions that it forgets when it is restarted. Its process id is in
`FOLDER/NAME.pid`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

NAMES: Final = ("files", "notes", "clock", "shop", "bank")

BANK_SECONDS: Final = 1.0
"""How long the bank takes to answer once the money has left."""

PRICES: Final = {"tea": 4, "coffee": 5, "cake": 7}
_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

SCRIPT: Final = (
    {
        "calls": [
            {"name": "price", "arguments": {"item": "tea"}},
            {"name": "add_note", "arguments": {"text": "buy tea"}},
        ]
    },
    "Tea costs 4, and there is a note to buy some.",
    {"calls": [{"name": "pay", "arguments": {"amount": 4}}, {"name": "payments"}]},
    "The tea is paid; the bank has the payment in its ledger.",
    "This is the end of the script. A real model answers after: plait run --model …",
)
"""Turns of a scripted model that calls these servers."""

Tool = tuple[str, dict[str, str], bool, Callable[..., str]]
"""What a tool does, its arguments with their JSON types, whether it only reads, its function."""


def tools_of(name: str, folder: Path) -> dict[str, Tool]:
    """Return the tools of a server; what they keep is in the folder."""
    notes, ledger = folder / "notes.txt", folder / "ledger.txt"

    def lines(path: Path) -> str:
        return path.read_text("utf-8").strip() if path.exists() else ""

    def append(path: Path, line: object) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())

    def list_files() -> str:
        return "\n".join(sorted(path.name for path in folder.iterdir()))

    def read_file(path: str) -> str:
        file = (folder / path).resolve()
        if not file.is_relative_to(folder):
            raise ValueError(f"{path} is outside of the folder")
        return file.read_text("utf-8")

    def add_note(text: str) -> str:
        append(notes, " ".join(text.split()))
        return f"noted: {text}"

    def list_notes() -> str:
        return lines(notes) or "no notes"

    def now() -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S %z")

    def price(item: str) -> str:
        if item not in PRICES:
            raise ValueError(f"there is no {item}: the shop has {', '.join(PRICES)}")
        return f"{item} costs {PRICES[item]}"

    def pay(amount: float) -> str:
        append(ledger, f"paid {amount:g}")
        time.sleep(BANK_SECONDS)
        return f"paid {amount:g}"

    def payments() -> str:
        return lines(ledger) or "no payments"

    tools: dict[str, dict[str, Tool]] = {
        "files": {
            "list_files": ("List the files of the folder.", {}, True, list_files),
            "read_file": ("Read a file of the folder.", {"path": "string"}, True, read_file),
        },
        "notes": {
            "list_notes": ("List all notes.", {}, True, list_notes),
            "add_note": ("Add a note.", {"text": "string"}, False, add_note),
        },
        "clock": {"now": ("Return the date and time.", {}, True, now)},
        "shop": {"price": ("Return the price of an item.", {"item": "string"}, True, price)},
        "bank": {
            "payments": ("List the payments in the ledger.", {}, True, payments),
            "pay": ("Pay an amount of money.", {"amount": "number"}, False, pay),
        },
    }
    return tools[name]


def reply_to(message: Mapping[str, Any], name: str, tools: Mapping[str, Tool]) -> Any:
    """Return the reply to a message, or `None` if it wants none."""
    if "id" not in message or "method" not in message:
        return None
    params: dict[str, Any] = message.get("params") or {}
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            version = params.get("protocolVersion")
            reply["result"] = {
                "protocolVersion": version if version in _VERSIONS else _VERSIONS[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": f"demo-{name}", "version": "1"},
            }
        case "ping":
            reply["result"] = {}
        case "tools/list":
            reply["result"] = {"tools": [listed(tool, *tools[tool][:3]) for tool in tools]}
        case "tools/call" if params.get("name") in tools:
            reply["result"] = call(tools[params["name"]], params.get("arguments") or {})
        case "tools/call":
            reply["error"] = {"code": -32602, "message": f"there is no tool {params.get('name')}"}
        case method:
            reply["error"] = {"code": -32601, "message": f"there is no method {method}"}
    return reply


def listed(name: str, about: str, arguments: Mapping[str, str], reads: bool) -> dict[str, Any]:
    """Describe a tool as `tools/list` does."""
    return {
        "name": name,
        "description": about,
        "inputSchema": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in arguments.items()},
            "required": list(arguments),
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": reads},
    }


def call(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool; an error in it is a result that says so."""
    failed = False
    try:
        text = tool[3](**arguments)
    except (TypeError, ValueError, OSError) as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def serve_http(name: str, tools: Mapping[str, Tool], port: int) -> None:
    """Serve on a port of this machine, until the input ends, and forget sessions at the end."""
    sessions: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            session = self.headers.get("Mcp-Session-Id")
            if message.get("method") == "initialize":
                session = token_hex(8)
                sessions.add(session)
            elif session is not None and session not in sessions:
                self.send(404, None)
                return
            reply = reply_to(message, name, tools)
            self.send(202 if reply is None else 200, reply, session)

        def do_GET(self) -> None:
            self.send(405, None)  # no stream of the server's own

        def do_DELETE(self) -> None:
            self.send(200, None)

        def send(self, status: int, reply: object, session: str | None = None) -> None:
            body = b"" if reply is None else json.dumps(reply).encode()
            self.send_response(status)
            if session is not None:
                self.send_header("Mcp-Session-Id", session)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            pass

    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # Whoever started it reads the port, and ends it by closing its input.
    print(server.server_port, flush=True)  # noqa: T201
    sys.stdin.read()


def main() -> None:
    """Serve one of the servers until the input ends."""
    name, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.pid").write_text(str(os.getpid()), "utf-8")
    tools = tools_of(name, folder)
    if len(sys.argv) > 3:
        serve_http(name, tools, int(sys.argv[3]))
        return
    for line in sys.stdin.buffer:
        reply = reply_to(json.loads(line), name, tools)
        if reply is not None:
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
