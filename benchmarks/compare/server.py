"""A trivially fast MCP server on stdio, Streamable HTTP and WebSocket, the same for all contenders.

It needs only the standard library and answers from prepared bytes, so that a measured call is the
client's work. It speaks the handshake of 2025-11-25 or the modern protocol of 2026-07-28.

Run: `python -ES server.py stdio|net [--core 1] [--era handshake|modern] [--tools 1] [--suffix ""]`
"""

from __future__ import annotations

import argparse
import functools
import json
import os
from typing import Any

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
VERSIONS = {"handshake": HANDSHAKE, "modern": MODERN}

SENTENCE = {
    "ascii": 'The "quick" brown fox jumps over the lazy dog, and then it rests.\n',
    "unicode": 'Der "schnelle" Fuchs läuft über die Straße – 素早い狐 🦊 – und ruht.\n',
}
"""What a payload repeats, per kind of text."""

METHOD_NOT_FOUND = -32601


def dump(value: object) -> bytes:
    """Serialize compactly."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def string_property(text: str) -> dict[str, Any]:
    """Describe a string argument."""
    return {"type": "string", "description": text}


def generated_tool(number: int) -> dict[str, Any]:
    """Describe a tool as large as those of real servers (about 1.6 KB)."""
    properties: dict[str, Any] = {
        "repository": string_property("Owner and name of the repository, such as octo/hello."),
        "query": string_property("Words to search for; quote a phrase to search for it exactly."),
        "state": {
            "type": "string",
            "enum": ["open", "closed", "all"],
            "default": "open",
            "description": "Only issues in this state.",
        },
        "labels": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "Only issues that have all of these labels.",
        },
        "page": {
            "type": "object",
            "description": "Which part of the results to return.",
            "properties": {
                "number": {"type": "integer", "minimum": 1, "description": "Page, from 1."},
                "size": {"type": "integer", "minimum": 1, "maximum": 100, "default": 30},
            },
            "required": ["number"],
        },
        "since": {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
            "default": None,
            "description": "Only issues changed after this moment, in ISO 8601.",
        },
    }
    return {
        "name": f"search_issues_{number}",
        "title": f"Search issues {number}",
        "description": (
            f"Search the issues of tracker {number} and return the best matches with title, state,"
            " labels, author and the time of the last change. Use it when the user asks about"
            " known problems, planned work or earlier discussions. Results are sorted by relevance;"
            " ask for further pages only when the first one does not answer the question."
        ),
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": ["repository", "query"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    }


def own_tools(suffix: str) -> list[dict[str, Any]]:
    """Describe the tools that can be called."""
    schemas: dict[str, dict[str, Any]] = {
        "echo": {"text": {"type": "string"}},
        "payload": {"size": {"type": "integer"}, "kind": {"type": "string"}},
        "pid": {},
    }
    return [
        {
            "name": name + suffix,
            "description": f"Benchmark tool {name}.",
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
            },
        }
        for name, properties in schemas.items()
    ]


def text_result(text: str) -> dict[str, Any]:
    """Make the result of a call."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


class Answers:
    """Answers the JSON-RPC messages of one protocol era."""

    def __init__(self, era: str, tools: int, suffix: str = "") -> None:
        self.era = era
        self._suffix = suffix
        listed = [*own_tools(suffix), *(generated_tool(number) for number in range(tools))]
        self._tools = self._dump({"tools": listed})

    def answer(self, body: bytes) -> tuple[bytes | None, int]:
        """Return the response and its HTTP status; a notification has no response."""
        message: dict[str, Any] = json.loads(body)
        if "id" not in message or "method" not in message:
            return None, 202
        request_id = json.dumps(message["id"]).encode()
        result = self._result(message["method"], message.get("params") or {})
        if result is None:
            error = dump({"code": METHOD_NOT_FOUND, "message": "Method not found"})
            status = 404 if self.era == "modern" else 400
            return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error), status
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, result), 200

    def _result(self, method: str, params: dict[str, Any]) -> bytes | None:
        if method == "tools/call":
            name = str(params["name"]).removesuffix(self._suffix)
            return self._call(name, params.get("arguments") or {})
        if method == "tools/list":
            return self._tools
        if method == "ping":
            return b"{}"
        info = {"name": "bench", "version": "1"}
        capabilities: dict[str, Any] = {"tools": {}}
        if method == "initialize" and self.era == "handshake":
            return dump(
                {"protocolVersion": HANDSHAKE, "capabilities": capabilities, "serverInfo": info}
            )
        if method == "server/discover" and self.era == "modern":
            return self._dump(
                {"supportedVersions": [MODERN], "capabilities": capabilities, "serverInfo": info}
            )
        return None

    def _call(self, name: str, arguments: dict[str, Any]) -> bytes:
        if name == "payload":
            return self._payload(arguments["size"], arguments["kind"])
        text = str(os.getpid()) if name == "pid" else arguments["text"]
        return self._dump(text_result(text))

    @functools.cache
    def _payload(self, size: int, kind: str) -> bytes:
        sentence = SENTENCE[kind]
        return self._dump(text_result((sentence * (size // len(sentence) + 1))[:size]))

    def _dump(self, result: dict[str, Any]) -> bytes:
        if self.era == "handshake":
            return dump(result)
        return dump({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result})


def serve_stdio(answers: Answers) -> None:
    """Answer lines until the input ends."""
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        responses = [answers.answer(line)[0] for line in lines if line.strip()]
        data = memoryview(b"".join(response + b"\n" for response in responses if response))
        while data:
            data = data[os.write(1, data) :]


def serve_net() -> None:
    """Answer HTTP and WebSocket at `/<era>/<tools>`; print the port."""
    import asyncio
    import base64
    import hashlib

    @functools.cache
    def answers(path: str) -> Answers:
        _, era, tools = path.split("/")
        return Answers(era, int(tools))

    reasons = {200: b"OK", 202: b"Accepted", 400: b"Bad Request", 404: b"Not Found"}

    def accept(key: str) -> bytes:
        magic = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        return base64.b64encode(hashlib.sha1(magic.encode(), usedforsecurity=False).digest())

    class Connection(asyncio.Protocol):
        transport: asyncio.Transport
        answers: Answers

        def __init__(self) -> None:
            self.buffer = b""
            self.is_websocket = False

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.buffer += data
            while self.read_frame() if self.is_websocket else self.read_request():
                pass

        def read_request(self) -> bool:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in map(partition, lines)}
            verb, path, _ = first.split(" ")
            length = int(headers.get("content-length", 0))
            if len(self.buffer) < end + 4 + length:
                return False
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            if headers.get("upgrade", "").lower() == "websocket":
                self.answers = answers(path)
                self.is_websocket = True
                self.transport.write(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    b"Connection: Upgrade\r\nSec-WebSocket-Protocol: mcp\r\n"
                    b"Sec-WebSocket-Accept: " + accept(headers["sec-websocket-key"]) + b"\r\n\r\n"
                )
            elif verb == "POST":
                response, status = answers(path).answer(body)
                response = response or b""
                self.transport.write(
                    b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d"
                    b"\r\n\r\n%b" % (status, reasons[status], len(response), response)
                )
            else:
                status = b"200 OK" if verb == "DELETE" else b"405 Method Not Allowed"
                self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
            return True

        def read_frame(self) -> bool:
            data = self.buffer
            if len(data) < 6:
                return False
            length, start = data[1] & 127, 2
            if length >= 126:
                start = 4 if length == 126 else 10
                length = int.from_bytes(data[2:start], "big")
            if len(data) < start + 4 + length:
                return False
            mask = data[start : start + 4]
            masked = data[start + 4 : start + 4 + length]
            self.buffer = data[start + 4 + length :]
            key = (mask * (length // 4 + 1))[:length]
            body = (int.from_bytes(masked, "big") ^ int.from_bytes(key, "big")).to_bytes(
                length, "big"
            )
            opcode = data[0] & 15
            if opcode == 8:
                self.transport.write(frame(8, body))
                self.transport.close()
            elif opcode == 9:
                self.transport.write(frame(10, body))
            elif opcode == 1 and (response := self.answers.answer(body)[0]):
                self.transport.write(frame(1, response))
            return True

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(serve())


def partition(line: str) -> tuple[str, str, str]:
    """Split a header line."""
    return line.partition(":")


def frame(opcode: int, body: bytes) -> bytes:
    """Make an unmasked WebSocket frame."""
    length = len(body)
    if length < 126:
        size = bytes([length])
    elif length < 65536:
        size = b"\x7e" + length.to_bytes(2, "big")
    else:
        size = b"\x7f" + length.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + size + body


def main() -> None:
    """Serve until the input ends or the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transport", choices=["stdio", "net"])
    parser.add_argument("--core", type=int)
    parser.add_argument("--era", choices=list(VERSIONS), default="handshake")
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--suffix", default="")
    options = parser.parse_args()
    if options.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    if options.transport == "stdio":
        serve_stdio(Answers(options.era, options.tools, options.suffix))
    else:
        serve_net()


if __name__ == "__main__":
    main()
