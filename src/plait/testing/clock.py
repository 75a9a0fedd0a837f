"""The tools of `plait.testing.server`, and a server for them on stdio that needs no package.

It starts as fast as Python does, beside any version of the MCP SDK or none.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

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
        kind = (
            {"string": str, "integer": int}[properties[key]["type"]] if key in properties else None
        )
        if kind is None or type(value) is not kind:
            wrong.append(key)
    if wrong:
        text = f"Error executing tool {name}: wrong or missing: {', '.join(wrong)}"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    value = FUNCTIONS[name](**arguments)
    content = [{"type": "text", "text": str(value)}]
    return {"content": content, "isError": False, "structuredContent": {"result": value}}
