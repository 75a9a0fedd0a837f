"""An MCP server on stdio without an SDK, with the same URIs as any other: `NAME [GATE]`.

While the file GATE exists, it does not answer. It writes what it is told to standard error.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

NAME = sys.argv[1]
SCHEMA = {"type": "object"}
TOOLS: list[Json] = [
    {"name": name, "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    for name in ("who", "links", "odd", "told", "visited")
]
RESOURCES = [{"uri": "note://shared", "name": "s"}, {"uri": f"note://{NAME}", "name": NAME}]
TEMPLATES = [
    {"uriTemplate": "item://{id}", "name": "i"},
    {"uriTemplate": NAME + "://{a}/{+b}", "name": "j"},
]
CAPABILITIES: Json = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}}
told: list[str] = []


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text_result(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def call(name: str) -> Json:
    match name:
        case "links":
            uris = ("note://shared", "note://unlisted", "https://example.com/x")
            return {"content": [{"type": "resource_link", "uri": uri, "name": "x"} for uri in uris]}
        case "odd":
            hologram = {"type": "hologram", "data": {"x": 1}}
            return {"content": [hologram], "structuredContent": {"a": None}, "future": [1]}
        case "told":
            return text_result(json.dumps(told))
        case "visited":
            method = "notifications/elicitation/complete"
            send({"method": method, "params": {"elicitationId": "e1"}})
            return text_result("visited")
        case _:
            return text_result(NAME)


def answer(method: str, params: Json) -> Json:
    match method:
        case "initialize":
            told.append(json.dumps(params["capabilities"], sort_keys=True))
            info = {"name": NAME, "version": "1"}
            version = "2025-11-25"
            return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params["name"])
        case "resources/list":
            return {"resources": RESOURCES}
        case "resources/templates/list":
            return {"resourceTemplates": TEMPLATES}
        case "resources/read":
            told.append(json.dumps(params.get("_meta")))
            return {"contents": [{"uri": params["uri"], "text": NAME}]}
        case _:
            return {}


def handle(message: Json) -> None:
    while len(sys.argv) > 2 and Path(sys.argv[2]).exists():
        time.sleep(0.02)
    result = answer(message["method"], message.get("params") or {})
    send({"id": message["id"], "result": result})


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received:
        threading.Thread(target=handle, args=(received,), daemon=True).start()
    else:
        told.append(received["method"])
