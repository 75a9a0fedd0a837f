"""A small, well-behaved MCP server to try a client against: `python -m plait.testing.server`.

It offers `get_current_time`, `get_timestamp` and `add_numbers`, on every transport and in both
protocol eras.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp.server import MCPServer

NAME: Final = "Test MCP Server"
VERSION: Final = "1.0.0"

_MODERN: Final = "2026-07-28"
_HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_META: Final = "io.modelcontextprotocol/"
_METHOD_NOT_FOUND: Final = -32601
_UNSUPPORTED_VERSION: Final = -32022
_DECLARED: Final = {"capabilities": {"tools": {"listChanged": False}}}
_NOT_CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}


def get_current_time(timezone: str = "UTC") -> str:
    """Return the current time as ISO 8601 in UTC, with the requested timezone beside it."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return now if timezone == "UTC" else f"{now} (requested: {timezone})"


def get_timestamp() -> int:
    """Return the current Unix time in whole seconds."""
    return int(datetime.now(UTC).timestamp())


def add_numbers(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


Function = Callable[..., str | int]
FUNCTIONS: Final[dict[str, Function]] = {
    function.__name__: function for function in (get_current_time, get_timestamp, add_numbers)
}
_ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "get_current_time": {
        "properties": {"timezone": {"default": "UTC", "title": "Timezone", "type": "string"}}
    },
    "get_timestamp": {"properties": {}},
    "add_numbers": {
        "properties": {
            "a": {"title": "A", "type": "integer"},
            "b": {"title": "B", "type": "integer"},
        },
        "required": ["a", "b"],
    },
}
_TYPES: Final = {"string": str, "integer": int}
_RESULTS: Final = {"get_current_time": "string", "get_timestamp": "integer"}


def serve_stdio() -> None:
    """Answer every request that is a line of standard input, until the input ends."""
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
                request_id, method = message.get("id"), message.get("method")
                params: dict[str, Any] = message.get("params") or {}
            except (ValueError, AttributeError):
                sys.stderr.write(f"not a message: {line[:80]!r}\n")
                continue
            if request_id is not None and method is not None:
                answer = {"jsonrpc": "2.0", "id": request_id, **_answer(method, params)}
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request, or its error, in the era that its fields show."""
    meta: dict[str, Any] = params.get("_meta") or {}
    version = meta.get(_META + "protocolVersion")
    if version not in {None, _MODERN}:
        versions = {"supported": [_MODERN], "requested": version}
        return _error(_UNSUPPORTED_VERSION, "Unsupported protocol version", versions)
    is_modern = version is not None
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            agreed = asked if asked in _HANDSHAKE_VERSIONS else _HANDSHAKE_VERSIONS[0]
            about = {"name": NAME, "version": VERSION}
            result: dict[str, Any] = {"protocolVersion": agreed, "serverInfo": about, **_DECLARED}
        case "ping" if not is_modern:
            result = {}
        case "server/discover" if is_modern:
            result = {"supportedVersions": [_MODERN], **_DECLARED, **_NOT_CACHED}
        case "tools/list":
            result = {"tools": list(map(_listed, FUNCTIONS)), **(_NOT_CACHED if is_modern else {})}
        case "tools/call":
            result = _call(str(params.get("name")), params.get("arguments") or {})
        case _:
            return _error(_METHOD_NOT_FOUND, "Method not found", method)
    if is_modern:
        about = {_META + "serverInfo": {"name": NAME, "version": VERSION}}
        result |= {"resultType": "complete", "_meta": about}
    return {"result": result}


def _error(code: int, message: str, data: object) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "data": data}}


def _listed(name: str) -> dict[str, Any]:
    kind = _RESULTS.get(name, "integer")
    output = {"properties": {"result": {"title": "Result", "type": kind}}, "required": ["result"]}
    return {
        "name": name,
        "description": FUNCTIONS[name].__doc__,
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
        "inputSchema": {"type": "object", "title": f"{name}Arguments", **_ARGUMENTS[name]},
        "outputSchema": {"type": "object", "title": f"{name}Output", **output},
    }


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a tool; wrong arguments are an error that the model can read."""
    if name not in FUNCTIONS:
        return {"content": [{"type": "text", "text": f"Unknown tool: {name}"}], "isError": True}
    properties = _ARGUMENTS[name]["properties"]
    wrong = [key for key in _ARGUMENTS[name].get("required", ()) if key not in arguments]
    for key, value in arguments.items():
        if key not in properties or type(value) is not _TYPES[properties[key]["type"]]:
            wrong.append(key)
    if wrong:
        text = f"Error executing tool {name}: wrong or missing: {', '.join(wrong)}"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    value = FUNCTIONS[name](**arguments)
    content = [{"type": "text", "text": str(value)}]
    return {"content": content, "isError": False, "structuredContent": {"result": value}}


def build_server() -> MCPServer:
    """Make the server, ready to be run or handed to an in-process client."""
    from mcp.server import MCPServer  # noqa: PLC0415  # slow to import, and an extra
    from mcp.types import ToolAnnotations  # noqa: PLC0415

    server = MCPServer(NAME, version=VERSION, log_level="WARNING")
    read_only = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    for function in FUNCTIONS.values():
        server.tool(annotations=read_only)(function)
    return server


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m plait.testing.server", description=__doc__)
    parser.add_argument("-p", "--port", type=int, default=5000, help="0 picks a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--transport", choices=["http", "sse", "websocket", "stdio"], default="http"
    )
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end when standard input ends"
    )
    arguments = parser.parse_args(argv)
    if arguments.until_stdin_closes and arguments.transport != "stdio":
        from plait.testing.serve_transports import exit_when_stdin_closes  # noqa: PLC0415  # as above

        exit_when_stdin_closes()
    try:
        serve(arguments.transport, arguments.host, arguments.port)
    except OSError as error:
        parser.exit(1, f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror}\n")


def serve(transport: str, host: str = "127.0.0.1", port: int = 5000) -> None:
    """Serve on one transport until the process is stopped."""
    if transport == "stdio":
        serve_stdio()
        return
    import anyio  # noqa: PLC0415  # as above

    from plait.testing.ports import bind  # noqa: PLC0415
    from plait.testing.serve_transports import (  # noqa: PLC0415
        http_app,
        http_server,
        serve_websocket,
        serve_with,
    )

    server = build_server()
    with bind(host, port) as listener:
        if transport == "websocket":
            anyio.run(serve_websocket, serve_with(server), listener)
            return
        app, path = http_app(server, serve_with(server), transport, host)
        anyio.run(http_server(app, listener, path).serve, [listener])


if __name__ == "__main__":
    main()
