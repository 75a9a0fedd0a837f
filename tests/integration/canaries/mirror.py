"""An HTTP server that keeps what it hears, and tells it back to whoever asked, in every way."""

from __future__ import annotations

import base64
import html
import json
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, cast
from urllib.parse import parse_qs, quote

Mode = Literal[
    "well",
    "status",
    "garbage",
    "protocol error",
    "tool error",
    "cut",
    "hang",
    "redirect",
]
"""How it answers; all but the first tell what was heard."""

Moment = Literal["initialize", "tools/call"]

SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["count"],
}


@dataclass(frozen=True, slots=True)
class Heard:
    """One request, as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: str

    @property
    def rpc(self) -> dict[str, Any]:
        """The message in it."""
        return cast("dict[str, Any]", json.loads(self.body)) if self.body[:1] == "{" else {}

    def __contains__(self, text: str) -> bool:
        return text in f"{self.path}\n{self.headers}\n{self.body}"


@dataclass(slots=True)
class Behaviour:
    """What the server does; a test changes it as it goes."""

    mode: Mode = "well"
    moment: Moment = "tools/call"
    status: int = 500
    location: str = ""
    as_sse: bool = False
    """Speak the older transport: `GET` opens the stream."""
    endless: bool = False
    """Keep that stream open."""
    endpoint: str = "/messages"
    authority: str = ""
    """The authorization server to name; without one, nobody is asked to sign in."""
    refused_token: str = ""
    """A token that is not accepted."""
    token_status: int = 400
    """What a request for a token is answered with."""
    heard: list[Heard] = field(default_factory=list[Heard])
    sessions: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)


def told_back(heard: Heard) -> str:
    """Quote a request in all the ways in which programs write texts."""
    values = [heard.path, heard.body, *heard.headers.values()]
    words = [word for value in values for word in (value, *value.split())]
    return "\n".join(
        spelling
        for word in dict.fromkeys(words)
        for spelling in (
            word,
            json.dumps(word),
            repr(word),
            quote(word, safe=""),
            html.escape(word),
            base64.b64encode(word.encode()).decode(),
            base64.b64encode(b"user:" + word.encode()).decode(),
        )
    )


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    behaviour: Behaviour

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        heard = self._hear(self.rfile.read(length).decode())
        now = self.behaviour
        if self.path == "/token":
            self._refuse_token(heard)
            return
        token = heard.headers.get("authorization")
        if (now.authority and token is None) or (now.refused_token and now.refused_token == token):
            self._send(401, "text/plain", b"", {"WWW-Authenticate": "Bearer"})
            return
        method = heard.rpc.get("method")
        due = method == now.moment or (now.moment == "initialize" and method != "tools/call")
        if now.mode != "well" and due and now.mode != "redirect":
            self._fail(heard)
        elif now.mode == "redirect" and self.path != "/moved":
            self._send(now.status, "text/plain", b"", {"Location": now.location})
        elif "id" not in heard.rpc:
            self._send(202, "text/plain", b"")
        else:
            self._answer(heard)

    def do_GET(self) -> None:
        self._hear("")
        now = self.behaviour
        if now.authority and "/.well-known/" in self.path:
            self._describe_authority()
        elif now.mode == "redirect" and self.path != "/moved":
            self._send(now.status, "text/plain", b"", {"Location": now.location})
        elif now.as_sse:
            event = f"event: endpoint\ndata: {now.endpoint}\n\n".encode()
            if now.endless:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(event)
                self.close_connection = now.released.wait(30)
            else:
                self._send(200, "text/event-stream", event)
        else:
            self._send(405, "text/plain", b"")

    def do_DELETE(self) -> None:
        self._hear("")
        self._send(200, "text/plain", b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def _hear(self, body: str) -> Heard:
        headers = {name.lower(): value for name, value in self.headers.items()}
        heard = Heard(self.command, self.path, headers, body)
        with self.behaviour.lock:
            self.behaviour.heard.append(heard)
        return heard

    def _answer(self, heard: Heard) -> None:
        rpc = heard.rpc
        headers: dict[str, str] = {}
        match rpc["method"]:
            case "initialize":
                with self.behaviour.lock:
                    self.behaviour.sessions += 1
                    number = self.behaviour.sessions
                headers = {
                    "Mcp-Session-Id": f"session-{number}",
                    "Set-Cookie": f"visit=cookie-{number}; Path=/",
                }
                result: dict[str, Any] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "mirror", "version": "1"},
                }
            case "tools/list":
                hints = {"readOnlyHint": True}
                tools = [
                    {"name": "look", "inputSchema": {"type": "object"}, "annotations": hints},
                    {"name": "fetch", "inputSchema": SCHEMA, "annotations": hints},
                    {"name": "count", "inputSchema": SCHEMA},
                ]
                result = {"tools": tools}
            case "tools/call":
                text = json.dumps({"headers": heard.headers, "arguments": rpc["params"]})
                result = {"content": [{"type": "text", "text": text}]}
            case _:
                self._rpc_error(rpc, -32601, "Method not found")
                return
        answer = {"jsonrpc": "2.0", "id": rpc["id"], "result": result}
        self._send(200, "application/json", json.dumps(answer).encode(), headers)

    def _describe_authority(self) -> None:
        authority = self.behaviour.authority
        if "oauth-protected-resource" in self.path:
            about: dict[str, Any] = {
                "resource": f"{authority}/mcp",
                "authorization_servers": [authority],
            }
        else:
            about = {
                "issuer": authority,
                "authorization_endpoint": f"{authority}/authorize",
                "token_endpoint": f"{authority}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials", "refresh_token"],
            }
        self._send(200, "application/json", json.dumps(about).encode())

    def _refuse_token(self, heard: Heard) -> None:
        now = self.behaviour
        form = parse_qs(heard.body)
        secret = (form.get("refresh_token") or form.get("client_secret") or [""])[0]
        said = {"error": f"bad {secret}", "error_description": told_back(heard)}
        headers = {"Location": now.location} if now.location else {}
        self._send(now.token_status, "application/json", json.dumps(said).encode(), headers)

    def _rpc_error(self, rpc: dict[str, Any], code: int, text: str) -> None:
        error = {"code": code, "message": text, "data": {"quoted": text}}
        answer = {"jsonrpc": "2.0", "id": rpc.get("id"), "error": error}
        self._send(200, "application/json", json.dumps(answer).encode())

    def _fail(self, heard: Heard) -> None:
        now, text = self.behaviour, told_back(heard)
        match now.mode:
            case "status":
                challenge = " ".join(text.split())
                headers = {"WWW-Authenticate": f'Bearer realm="x", error_description="{challenge}"'}
                self._send(now.status, "text/html", text.encode(), headers)
            case "garbage":
                self._send(200, "application/json", text.encode())
            case "protocol error":
                self._rpc_error(heard.rpc, -32050, text)
            case "tool error":
                result = {"content": [{"type": "text", "text": "it failed"}], "isError": True}
                answer = {"jsonrpc": "2.0", "id": heard.rpc["id"], "result": result}
                self._send(200, "application/json", json.dumps(answer).encode())
            case "hang":
                now.released.wait(30)
                self.close_connection = True
            case _:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                self.wfile.write(b"Content-Length: 100000\r\n\r\n" + text.encode()[:500])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

    def _send(
        self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none of our business."""


class Mirror(Behaviour):
    """The server; it runs while its context is open."""

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"behaviour": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.origin}/mcp"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
