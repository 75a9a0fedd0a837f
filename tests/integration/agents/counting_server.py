"""A server without an SDK that counts what it is asked: `counting_server.py FOLDER [flags]`.

Every request is a line in `FOLDER/requests`: the method, the tool or `-`, and who asked. The tools
are those named in `FOLDER/tools`; `change(tools)` writes that file and announces the change, where
`--announce` is given. It speaks one era, on stdio or, with `--port`, on Streamable HTTP.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MODERN_VERSION = "2026-07-28"
LEGACY_VERSION = "2025-11-25"
CHANGED = "notifications/tools/list_changed"


class Server:
    """Answers requests of either transport."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.folder
        self._lock = threading.Lock()
        self.listeners: list[queue.Queue[Json]] = []
        """Where announcements go: the open streams of modern clients, and those of legacy ones."""

    def answer(self, message: Json, who: str = "-") -> Json | None:
        """Answer a request; notifications have no answer."""
        if "id" not in message:
            return None
        params = message.get("params") or {}
        method = message["method"]
        with self._lock, (self._folder / "requests").open("a") as log:
            log.write(f"{method} {params.get('name', '-')} {who}\n")
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        result = self._result(method, params, who)
        if result is None:
            return {**reply, "error": {"code": -32601, "message": f"Method not found: {method}"}}
        return {**reply, "result": result}

    @property
    def modern(self) -> bool:
        return self._options.era == "modern"

    def _result(self, method: str, params: Json, who: str) -> Json | None:
        capabilities: Json = {"tools": {"listChanged": self._options.announce}}
        match method:
            case "initialize" if not self.modern:
                info = {"name": "counting", "version": "1"}
                return {
                    "protocolVersion": LEGACY_VERSION,
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
            case "server/discover" if self.modern:
                return _modern(
                    {"supportedVersions": [MODERN_VERSION], "capabilities": capabilities}
                )
            case "ping":
                return {}
            case "tools/list":
                return self._shaped({"tools": [_tool(name) for name in self._tools(who)]})
            case "tools/call":
                return self._shaped(self._called(params, who))
            case _:
                return None

    def _tools(self, who: str) -> list[str]:
        names = (self._folder / "tools").read_text().split()
        private = who != "-" and self._options.scope == "private"
        return [*names, "change", *([f"of_{who}"] if private else [])]

    def _called(self, params: Json, who: str) -> Json:
        name = params["name"]
        if name == "change":
            (self._folder / "tools").write_text(params["arguments"]["tools"])
            if self._options.announce:
                for listener in self.listeners:
                    listener.put({"jsonrpc": "2.0", "method": CHANGED})
            return _text("changed")
        if name.startswith("read_bad"):
            return {**_text(f"{name} fails"), "isError": True}
        if name not in self._tools(who):
            return {**_text(f"there is no tool {name}"), "isError": True}
        return _text(f"{name} for {who}")

    def _shaped(self, result: Json) -> Json:
        if not self.modern:
            return result
        return _modern({"ttlMs": self._options.ttl_ms, "cacheScope": self._options.scope, **result})


def _tool(name: str) -> Json:
    properties: Json = {"tools": {"type": "string"}} if name == "change" else {}
    schema = {"type": "object", "properties": properties}
    hints = {"readOnlyHint": name.startswith("read")}
    return {"name": name, "description": name, "inputSchema": schema, "annotations": hints}


def _text(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def _modern(result: Json) -> Json:
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "counting", "version": "1"}}
    return {"ttlMs": 0, "cacheScope": "private", "resultType": "complete", "_meta": meta, **result}


def _agreement(message: Json) -> tuple[Json, Json]:
    """Return what opens a stream of announcements, and the mark that each of them carries."""
    mark = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    params = {"notifications": {"toolsListChanged": True}, "_meta": mark}
    opened = {"method": "notifications/subscriptions/acknowledged", "params": params}
    return {"jsonrpc": "2.0", **opened}, mark


def serve_stdio(server: Server) -> None:
    """Answer lines until there are no more."""
    told: queue.Queue[Json] = queue.Queue()
    lock = threading.Lock()
    mark: Json | None = None

    def write(message: Json) -> None:
        with lock:
            print(json.dumps(message), flush=True)

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "subscriptions/listen" and server.modern:
            opened, mark = _agreement(message)
            server.listeners.append(told)
            write(opened)
            continue
        if message.get("method") == "notifications/initialized":
            server.listeners.append(told)
        reply = server.answer(message)
        while not told.empty():
            announced = told.get()
            write({**announced, "params": {"_meta": mark}} if mark else announced)
        if reply is not None:
            write(reply)


class Handler(BaseHTTPRequestHandler):
    """Answers one HTTP request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    mcp: Server

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message.get("method") == "subscriptions/listen" and self.mcp.modern:
            opened, mark = _agreement(message)
            self._stream(opened, {"_meta": mark})
            return
        reply = self.mcp.answer(message, self.headers.get("X-User", "-"))
        if reply is None:
            self._send(202, b"")
            return
        refused = "error" in reply and message["method"] == "server/discover"
        self._send(400 if refused else 200, json.dumps(reply).encode())

    def do_GET(self) -> None:
        if self.mcp.modern:
            self._send(405, b"")
        else:
            self._stream(None, None)

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def _stream(self, first: Json | None, params: Json | None) -> None:
        told: queue.Queue[Json] = queue.Queue()
        self.mcp.listeners.append(told)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if first is not None:
            self._event(first)
        else:
            self.wfile.write(b": open\n\n")
            self.wfile.flush()
        while True:
            announced = told.get()
            self._event({**announced, "params": params} if params else announced)

    def _event(self, message: Json) -> None:
        self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
        self.wfile.flush()

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if not self.mcp.modern:
            self.send_header("Mcp-Session-Id", "the-only-one")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--era", choices=["legacy", "modern"], default="modern")
    parser.add_argument("--announce", action="store_true")
    parser.add_argument("--ttl-ms", type=int, default=0)
    parser.add_argument("--scope", choices=["private", "public"], default="private")
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    Handler.mcp = Server(options)
    if options.port is None:
        serve_stdio(Handler.mcp)
        return
    with ThreadingHTTPServer(("127.0.0.1", options.port), Handler) as server:
        server.daemon_threads = True
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        print(f"listening on {url}", file=sys.stderr, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
