"""A stdio server that does on request what servers do by accident; it logs what it receives.

Run: `python odd_server.py LOG ERA`, where ERA is `legacy` or `modern`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

LOG, ERA = Path(sys.argv[1]), sys.argv[2]
MODERN = "2026-07-28"
SCHEMA = {
    "type": "object",
    "properties": {"how": {"type": "string"}, "value": {}},
    "required": ["how"],
}


def write(message: object) -> None:
    text = message if isinstance(message, str) else json.dumps(message)
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass") + b"\n")
    sys.stdout.buffer.flush()


def complete(**fields: Any) -> dict[str, Any]:
    extra: dict[str, Any] = {"resultType": "complete"} if ERA == "modern" else {}
    return {**fields, **extra}


def cacheable(**fields: Any) -> dict[str, Any]:
    extra: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"} if ERA == "modern" else {}
    return complete(**fields, **extra)


def text(value: object) -> dict[str, Any]:
    return complete(content=[{"type": "text", "text": str(value)}])


def answer(request: dict[str, Any]) -> None:
    method, params = request["method"], request.get("params") or {}
    number = request["id"]
    reply = {"jsonrpc": "2.0", "id": number}
    match method:
        case "initialize" if ERA == "legacy":
            info = {"name": "odd", "version": "1"}
            version = params["protocolVersion"]
            capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        case "server/discover" if ERA == "modern":
            capabilities = {"tools": {}, "resources": {}, "prompts": {}}
            result = cacheable(supportedVersions=[MODERN], capabilities=capabilities)
        case "ping":
            result = {}
        case "tools/list":
            tools = [{"name": "do", "inputSchema": SCHEMA}]
            result = cacheable(tools=[*tools, {"name": "broken"}, 7])
        case "resources/read":
            uri = params["uri"]
            if uri.endswith("missing"):
                write({**reply, "error": {"code": -32002, "message": "no such resource"}})
                return
            result = cacheable(contents=[{"uri": uri, "text": "contents"}, {"odd": 1}])
        case "prompts/get":
            message = {"role": "user", "content": {"type": "text", "text": params["name"]}}
            result = complete(messages=[message, {"role": "user", "content": {"type": "odd"}}])
        case "tools/call":
            call(reply, params)
            return
        case _:
            write({**reply, "error": {"code": -32601, "message": f"unknown method {method}"}})
            return
    write({**reply, "result": result})


def call(reply: dict[str, Any], params: dict[str, Any]) -> None:
    arguments = params.get("arguments") or {}
    how, value = arguments["how"], arguments.get("value")
    token = (params.get("_meta") or {}).get("progressToken")
    match how:
        case "echo":
            write({**reply, "result": text(value)})
        case "error":
            write({**reply, "error": {"code": value, "message": "refused", "data": {"a": 1}}})
        case "failed":
            write({**reply, "result": {**text(value), "isError": True}})
        case "structured":
            write({**reply, "result": {**text("s"), "structuredContent": {"value": value}}})
        case "image":
            image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
            write({**reply, "result": complete(content=[image, {"type": "odd", "x": value}])})
        case "no content":
            write({**reply, "result": complete()})
        case "null result":
            write({**reply, "result": None})
        case "list result":
            write({**reply, "result": [1]})
            write({**reply, "result": text("after a list")})
        case "text id":
            write({**reply, "id": str(reply["id"]), "result": text(value)})
        case "other id":
            write({**reply, "id": 999_999_999, "result": text("not yours")})
            write({**reply, "result": text(value)})
        case "twice":
            write({**reply, "result": text("first")})
            write({**reply, "result": text("second")})
        case "noise":
            write("warming up {not json} [1, 2")
            write("banner: " + json.dumps({**reply, "result": text(value)}))
        case "two in one line":
            write(json.dumps({**reply, "result": text(value)}) * 2)
        case "progress":
            for step in range(3):
                params = {"progressToken": token, "progress": step}
                write({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            write({**reply, "result": text(value)})
        case "surrogate":
            write(json.dumps({**reply, "result": text("\ud800 half")}))
        case "big number":
            write(json.dumps({**reply, "result": text(2**80)}))
        case "long":
            write({**reply, "result": text("x" * 100_000)})
        case "slow":
            time.sleep(0.01)
            write({**reply, "result": text(value)})
        case "never":
            pass
        case "die":
            os._exit(3)
        case "answer and die":
            write({**reply, "result": text(value)})
            os._exit(0)
        case _:
            write({**reply, "error": {"code": -32602, "message": f"how? {how}"}})


def main() -> None:
    """Answer requests, one at a time, until the input ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        params = dict(message.get("params") or {})
        params.pop("_meta", None)
        for name in ("requestId", "reason", "clientInfo"):
            params.pop(name, None)
        with LOG.open("a") as log:
            log.write(json.dumps([message["method"], params], sort_keys=True) + "\n")
        if "id" in message:
            answer(message)


main()
