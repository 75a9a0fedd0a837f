"""Measures how long servers that send too much keep the event loop from its other tasks.

`python -m tests.soak.stalls` prints, for each of them, the longest time between two turns of the
loop: the CPU time of its thread, and the time by the clock, which includes waiting for other
threads. Then by how much the memory of the process grew at most, and what became of the call.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import gzip
import json
import logging
import queue
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serve_websocket
from websockets.typing import Subprotocol

from plait import PlaitError
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.langchain import MultiServerMCPClient
from plait.testing import ServerProcess
from tests.integration.bounds.loop_stalls import LoopStalls
from tests.integration.bounds.memory import MemoryGrowth

SIZE = 24_900_000
"""Three quarters of the limit of a message."""
MOST_SECONDS = 0.1
MOST_GROWTH = DEFAULT_LIMITS.message_bytes + 64_000_000
TIMEOUT_SECONDS = 60.0
TRANSPORTS = ("stdio", "http", "events", "sse", "websocket", "httpx2")
_STREAMS = ("stdio", "events", "sse", "websocket")
"""Those on which a server can send more than one message."""
_LEVELS = 18
_VALUES = 240_000
"""Objects of two values each: just under the limit of values."""
_HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "logging": {}},
    "serverInfo": {"name": "stalls", "version": "1"},
}
_NOTIFICATION = (
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'
)
_PIECES = {
    "text": b"x",
    "text that is not ASCII": "ä".encode(),
    "text of escapes": b"\\n",
    "text of escaped letters": b"\\u00e4",
    "text of escaped backslashes": b"\\\\",
    "commas in a text": b"1,2,",
}
"""What fills the text of a result."""
_LISTS = {"empty objects": b"{},", "numbers": b"1,", "nested lists": b"[" * 50 + b"]" * 50 + b","}
"""What fills the structured content of a result."""
_BLOCK = b'{"type":"text","text":"x"},'
_LISTINGS = (
    "50,000 tools",
    "a tool with a long description",
    "10,000 tools of 3 KB",
)


async def _bind_tools(client: MultiServerMCPClient) -> None:
    for tool in await client.get_tools():
        convert_to_openai_tool(tool)


async def _drop_client(client: MultiServerMCPClient) -> None:
    """Forget a client that was used and not closed, whose process or connection has to end."""
    other = MultiServerMCPClient(dict(client.connections))
    await other.toolbox.ping("server")
    del other
    gc.collect()
    await asyncio.sleep(0)


async def _read_file(client: MultiServerMCPClient) -> None:
    """Make a client of a file of many servers, in the running loop."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "mcp.json"
        entries = {f"server-{number}": {"command": "true"} for number in range(500)}
        await asyncio.to_thread(file.write_text, json.dumps({"mcpServers": entries}))
        MultiServerMCPClient(str(file))


_REQUESTS: dict[str, Callable[[MultiServerMCPClient], Awaitable[object]]] = {
    "nothing to a client that is dropped": _drop_client,
    "nothing, and 500 servers are read from a file": _read_file,
    "50 tools with recursive definitions": _bind_tools,
    "20,000 prompts": lambda client: client.list_prompts("server"),
    "30,000 resources": lambda client: client.list_resources("server"),
    "30,000 resource templates": lambda client: client.list_resource_templates("server"),
    "a prompt of 60,000 messages": lambda client: client.toolbox.get_prompt("server", "p"),
    "a resource of 60,000 parts": lambda client: client.read_resource("server", "test:r"),
}
_FLOODS = {
    "100,000 notifications": _STREAMS,
    "short lines in gzip": ("events", "httpx2"),
    "bytes behind gzip": ("http", "httpx2"),
}
"""Calls whose response has more than the result, and the transports for which that is so."""
_CALLS = (
    "a pattern",
    "references that double",
    *_PIECES,
    "a wide character in a text",
    "a long name",
    *_LISTS,
    "allowed objects",
    "blocks",
    *_FLOODS,
)


def _tools(name: str) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = [{"name": n, "inputSchema": {"type": "object"}} for n in _CALLS]
    text = {"type": "object", "properties": {"a": {"type": "string"}}}
    match name:
        case "50,000 tools":
            tools += [{"name": f"tool_{n}", "inputSchema": text} for n in range(50_000)]
        case "a tool with a long description":
            long = "\n" * (SIZE // 2 - 10_000)
            tools.append({"name": "long", "inputSchema": text, "description": long})
        case "10,000 tools of 3 KB":
            rows = range(9_900)
            long = "ä\n" * 750
            tools += [{"name": f"t{n}", "inputSchema": text, "description": long} for n in rows]
        case "50 tools with recursive definitions":
            tools += [{"name": f"t{n}", "inputSchema": _recursive()} for n in range(50)]
        case "a pattern":
            evil = {"a": {"type": "string", "pattern": "^(a+)+$"}}
            tools[0]["inputSchema"] = {"type": "object", "properties": evil}
        case "references that double":
            links = {
                f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(_LEVELS)
            }
            tools[1]["inputSchema"] = {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/d0"}},
                "$defs": {**links, f"d{_LEVELS}": {"type": "integer"}},
            }
        case _:
            pass
    return tools


def _recursive() -> dict[str, Any]:
    """Return a schema whose definitions refer to each other, and to themselves."""
    names = [f"node_{number}" for number in range(4)]
    links = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    nodes = {name: {"type": "object", "properties": links} for name in names}
    return {"type": "object", "properties": links, "$defs": nodes}


def _items(name: str) -> dict[str, Any]:
    """Return the result of a request for prompts or resources."""
    text = {"type": "text", "text": "x"}
    match name:
        case "20,000 prompts":
            argument = {"name": "a", "description": "b", "required": True}
            prompts = [{"name": f"p{n}", "arguments": [argument] * 2} for n in range(20_000)]
            return {"prompts": prompts}
        case "30,000 resources":
            return {"resources": [{"uri": f"test:{n}", "name": f"r{n}"} for n in range(30_000)]}
        case "30,000 resource templates":
            rows = [{"uriTemplate": f"test:{n}/{{a}}", "name": f"r{n}"} for n in range(30_000)]
            return {"resourceTemplates": rows}
        case "a prompt of 60,000 messages":
            return {"messages": [{"role": "user", "content": text}] * 60_000}
        case _:
            return {"contents": [{"uri": "test:r", "text": "x"}] * 60_000}


def _result(name: str) -> bytes:
    head, size = b'{"content":[{"type":"text","text":"', SIZE - 1000
    if name in _PIECES:
        return head + _PIECES[name] * (size // len(_PIECES[name])) + b'"}]}'
    if name in _LISTS:
        items = _LISTS[name] * (size // len(_LISTS[name]))
        return b'{"content":[],"structuredContent":{"a":[' + items + b"1]}}"
    match name:
        case "a wide character in a text":
            return head + b"x" * size + "\N{GRINNING FACE}".encode() + b'"}]}'
        case "a long name":
            return b'{"content":[],"structuredContent":{"' + b"\\n" * (size // 2) + b'":1}}'
        case "allowed objects":
            objects = b'{"a":1},' * _VALUES
            return b'{"content":[],"structuredContent":{"a":[' + objects + b"1]}}"
        case "blocks":
            return b'{"content":[' + _BLOCK * (size // len(_BLOCK)) + _BLOCK[:-1] + b"]}"
        case _:
            return b'{"content":[]}'


def _answer(name: str, line: bytes | str) -> bytes | None:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            result = json.dumps(_HANDSHAKE).encode()
        case "tools/list":
            result = json.dumps({"tools": _tools(name)}, ensure_ascii=False).encode()
        case "tools/call":
            result = _result(name)
        case str(method) if method.startswith(("prompts/", "resources/")):
            result = json.dumps(_items(name)).encode()
        case "ping":
            result = b"{}"
        case _:
            return None
    answer = b'{"jsonrpc":"2.0","id":%d,"result":' % message["id"] + result + b"}"
    if name == "100,000 notifications" and message["method"] == "tools/call":
        return _NOTIFICATION * 100_000 + answer
    return answer


def _events(answer: bytes) -> bytes:
    return b"".join(b"data: " + message + b"\n\n" for message in answer.split(b"\n"))


class _Handler(BaseHTTPRequestHandler):
    """Answers in JSON or events; a GET opens the stream of the older SSE transport."""

    protocol_version = "HTTP/1.1"
    name, transport = "", ""
    stream: queue.Queue[bytes]

    def do_GET(self) -> None:
        if self.transport != "sse":
            self._reply(405, "text/plain", b"")
            return
        type(self).stream = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /post\n\n")
        while True:
            self.wfile.write(_events(self.stream.get()))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = _answer(self.name, body)
        if answer is None or self.transport == "sse":
            self._reply(202, "text/plain", b"")
            if answer is not None:
                self.stream.put(answer)
        elif self.name == "short lines in gzip" and b"tools/call" in body:
            lines = b":\n" * (SIZE // 2) + _events(answer)
            self._reply(200, "text/event-stream", gzip.compress(lines), "gzip")
        elif self.name == "bytes behind gzip" and b"tools/call" in body:
            self._reply(200, "application/json", gzip.compress(answer) + b"x" * SIZE, "gzip")
        elif self.transport == "events":
            self._reply(200, "text/event-stream", _events(answer))
        else:
            self._reply(200, "application/json", answer)

    def _reply(self, status: int, kind: str, body: bytes, encoding: str = "identity") -> None:
        self.send_response(status)
        self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


def serve(transport: str, name: str) -> None:
    """Serve one attack."""
    if transport == "stdio":
        for line in sys.stdin:
            if (answer := _answer(name, line)) is not None:
                sys.stdout.buffer.write(answer + b"\n")
                sys.stdout.buffer.flush()
    elif transport == "websocket":

        def talk(socket: ServerConnection) -> None:
            for frame in socket:
                if (answer := _answer(name, frame)) is not None:
                    for message in answer.split(b"\n"):
                        socket.send(message, text=True)

        with serve_websocket(talk, "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")]) as server:
            _announce(server.socket.getsockname()[1])
            server.serve_forever()
    else:
        _Handler.name, _Handler.transport = name, transport
        with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
            _announce(server.server_port)
            server.serve_forever()


def _announce(port: int) -> None:
    print(f"listening on http://127.0.0.1:{port}/mcp", flush=True)


@contextmanager
def _served(transport: str, name: str) -> Generator[dict[str, Any]]:
    folder = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "tests.soak.stalls", "--serve", transport, "--name", name]
    common = {"protocol": "legacy", "timeout": TIMEOUT_SECONDS}
    if transport == "stdio":
        yield {"command": command[0], "args": command[1:], "cwd": folder, **common}
        return
    with ServerProcess(command, cwd=folder) as server:
        match transport:
            case "websocket":
                yield {"url": server.url.replace("http", "ws", 1), **common}
            case "sse":
                yield {"url": server.url, "transport": "sse", **common}
            case "httpx2":
                # A function for headers needs httpx2.
                yield {"url": server.url, "headers": lambda: {"X-Own": "1"}, **common}
            case _:
                yield {"url": server.url, **common}


async def measure(transport: str, name: str) -> bool:
    """Meet one attack, print what it did, and return whether that is within the limits."""
    is_listing, outcome, kept = name in _LISTINGS, "answered", None
    with _served(transport, name) as entry:
        async with MultiServerMCPClient({"server": entry}) as client:
            box = client.toolbox
            await box.ping("server")
            if name not in _REQUESTS and not is_listing:
                await box.tools()
            with MemoryGrowth() as growth:
                async with LoopStalls() as stalls:
                    try:
                        if (request := _REQUESTS.get(name)) is not None:
                            kept = await request(client)  # what is freed would count too
                        elif is_listing:
                            outcome = f"{len(await box.tools()):,} listed"
                        else:
                            await box.call("server", name, {"a": "a" * 28 + "!"})
                    except PlaitError as error:
                        outcome = type(error).__name__
    del kept
    cpu, wait = stalls.worst_seconds * 1000, stalls.worst_wait_seconds * 1000
    figures = f"{cpu:.0f} ms | {wait:.0f} ms | {growth.worst_bytes / 1e6:.0f} MB"
    print(f"| {name} | {transport} | {figures} | {outcome} |", flush=True)
    return stalls.worst_seconds < MOST_SECONDS and growth.worst_bytes < MOST_GROWTH


def main(transports: list[str], names: list[str]) -> bool:
    """Measure all of them, each in a process of its own, which has no memory to reuse.

    Return whether all are within the limits.
    """
    print("| the server sends | over | stall, CPU | stall, clock | memory | the call |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    command = [sys.executable, "-m", "tests.soak.stalls", "--alone"]
    is_good = True
    for name in names:
        for transport in transports:
            if transport in _FLOODS.get(name, TRANSPORTS):
                chosen = ["--over", transport, "--name", name]
                run = subprocess.run([*command, *chosen], check=False)
                is_good = is_good and run.returncode == 0
    return is_good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--over", nargs="*", choices=TRANSPORTS, default=list(TRANSPORTS))
    parser.add_argument("--name", nargs="*", default=[*_LISTINGS, *_REQUESTS, *_CALLS])
    chosen = parser.parse_args()
    logging.getLogger("plait").setLevel(logging.CRITICAL)
    if chosen.serve:
        serve(chosen.serve, chosen.name[0])
    elif chosen.alone:
        sys.exit(not asyncio.run(measure(chosen.over[0], chosen.name[0])))
    else:
        sys.exit(not main(chosen.over, chosen.name))
