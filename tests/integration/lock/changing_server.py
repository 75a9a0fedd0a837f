"""A server without an SDK whose tools stand in a file: `changing_server.py FILE [--port N]`.

The file is a JSON object: `tools` is the list, `version` that of the server, `instructions` what
it says about its use, and `results` are answers of tools by name. It is read again for every
request. The tool `poke` announces that the tools changed, and `wait` does so when `FILE.go` is
there. With `then` in it, the file becomes that after the next list, and the change is announced in
the same write. Calls are written to `FILE.calls`.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FILE = Path(sys.argv[1])
CHANGED = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


def result_of(message: Json) -> Json | None:
    state: Json = json.loads(FILE.read_text())
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": state.get("name", "shop"), "version": state["version"]},
                "instructions": state.get("instructions", ""),
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": state["tools"]}
        case "tools/call":
            name = message["params"]["name"]
            with Path(f"{FILE}.calls").open("a") as calls:
                calls.write(f"{name}\n")
            text = state.get("results", {}).get(name, f"{name} ran")
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return None


def reply_to(message: Json) -> Json:
    reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
    result = result_of(message)
    if result is None:
        return {**reply, "error": {"code": -32601, "message": "Method not found"}}
    return {**reply, "result": result}


def serve_stdio() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        name = message.get("params", {}).get("name")
        while name == "wait" and not Path(f"{FILE}.go").exists():
            time.sleep(0.01)
        if name in {"poke", "wait"}:
            print(CHANGED, flush=True)
        lines = [json.dumps(reply_to(message))]
        then = json.loads(FILE.read_text()).get("then")
        if message["method"] == "tools/list" and then is not None:
            FILE.write_text(json.dumps(then))
            lines.append(CHANGED)
        sys.stdout.write("".join(f"{line}\n" for line in lines))  # `print` writes its end later
        sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    """Answers one HTTP request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self._send(202, b"")
            return
        reply = reply_to(message)
        unknown = "error" in reply and message["method"] == "server/discover"
        self._send(400 if unknown else 200, json.dumps(reply).encode())

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Mcp-Session-Id", "one")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    if "--port" not in sys.argv:
        serve_stdio()
    else:
        with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler) as server:
            server.daemon_threads = True
            url = f"http://127.0.0.1:{server.server_port}/mcp"
            print(f"listening on {url}", file=sys.stderr, flush=True)
            server.serve_forever()
