"""A server on stdio that tells on standard error, and in its failures, all that it was given."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from typing import Any
from urllib.parse import quote


def told() -> list[str]:
    """Quote the arguments and the environment in all the ways in which programs write texts."""
    words = [*sys.argv[2:], *os.environ.values()]
    return [
        spelling
        for word in words
        for line in (word, *word.splitlines())
        for spelling in (
            f"got {line}",
            json.dumps({"value": line}),
            repr(line),
            quote(line, safe=""),
            base64.b64encode(line.encode()).decode(),
            "x" * 3980 + line,
        )
    ]


def result_of(method: str, mode: str, arguments: Any) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "telling", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"note": {"type": "string"}}}
            return {"tools": [{"name": "tell", "inputSchema": schema}]}
        case _:
            text = json.dumps(dict(os.environ)) if mode == "env" else str(arguments)
            return {"content": [{"type": "text", "text": text}]}


def fail(mode: str, number: Any) -> None:
    match mode:
        case "exit":
            sys.exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(60)
        case "garbage":
            print(*told(), sep="\n")
            answer = {"jsonrpc": "2.0", "id": number, "result": told()}
            print(json.dumps(answer), flush=True)
        case _:
            error = {"code": -32050, "message": "\n".join(told()), "data": told()}
            print(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}), flush=True)


def main() -> None:
    mode = sys.argv[1]
    print(*told(), sep="\n", file=sys.stderr, flush=True)
    if mode == "never":
        sys.exit(1)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "tools/call" and mode not in {"well", "env"}:
            fail(mode, message["id"])
            continue
        if message["method"] in {"initialize", "tools/list", "tools/call"}:
            result = result_of(message["method"], mode, message.get("params"))
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        else:
            error = {"code": -32601, "message": "Method not found"}
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
