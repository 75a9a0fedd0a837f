"""An MCP server on stdio without an SDK, with fields that nobody knows yet: `legacy|modern`.

Its tools ask their caller, and answer with what they were told.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]

TOOL: Json = {
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "futureHint": "hint"},
    "execution": {"taskSupport": "optional", "future": 1},
    "future": {"a": [1, None]},
}
ICON: Json = {"src": "https://example.com/i.png", "future": 1}
TOOLS: list[Json] = [
    {"name": "plain", **TOOL},
    {"name": "elicit", **TOOL},
    {"name": "sample", **TOOL},
    {"name": "visit", **TOOL},
    {"name": "visit_new", **TOOL},
    {"name": "icons", "icons": [ICON], **TOOL},
    {"name": "veiled", **TOOL, "future": "hid\u200bden"},
    {"name": "hidden", "description": "hid\u200bden", **TOOL, "future": "hid\u200bden"},
]
ELICITATION: Json = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "x-future": None}},
        "futureKeyword": True,
    },
    "future": {"a": 1},
}
SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Hi", "future": 1}}],
    "maxTokens": 7,
    "includeContext": "none",
    "metadata": {"provider": {"x": 1}},
    "future": {"a": "hid\u200bden"},
}
URL: Json = {
    "mode": "url",
    "elicitationId": "e1",
    "url": "https://example.com/sign-in",
    "message": "Sign in",
    "future": 1,
}
ASKED: dict[str, tuple[str, Json]] = {
    "elicit": ("elicitation/create", ELICITATION),
    "sample": ("sampling/createMessage", SAMPLING),
}


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text_result(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


class Server:
    def __init__(self, era: str) -> None:
        self.is_modern = era == "modern"
        self.waiting: list[object] = []
        """The ids of calls that wait for the answer of the client."""
        self.visits = 0

    def take(self, received: Json) -> None:
        number, method = received.get("id"), received.get("method")
        if method is None:
            text = json.dumps(received["result"])
            send({"id": self.waiting.pop(), "result": text_result(text)})
        elif method == ("initialize" if self.is_modern else "server/discover"):
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
        elif str(received.get("params", {}).get("name")).startswith("visit"):
            send({"id": number, **self.visit(received["params"]["name"])})
        elif number is not None:
            result = self.answer(method, number, received.get("params") or {})
            if result is not None and self.is_modern:
                envelope = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
                result = {**envelope, **result}
            if result is not None:
                send({"id": number, "result": result})

    def visit(self, name: str) -> Json:
        """Refuse two calls, or every one, with another URL each time."""
        self.visits += 1
        url = URL["url"] if name == "visit" else f"{URL['url']}/{self.visits}"
        if name == "visit" and self.visits > 2:
            return {"result": text_result("visited")}
        data = {"elicitations": [{**URL, "url": url}]}
        return {"error": {"code": -32042, "message": "Sign in", "data": data}}

    def answer(self, method: str, number: object, params: Json) -> Json | None:
        info, able = {"name": "future", "version": "1"}, {"tools": {}, "prompts": {}}
        match method:
            case "initialize":
                return {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info}
            case "server/discover":
                versions = ["2026-07-28"]
                return {"supportedVersions": versions, "capabilities": able, "serverInfo": info}
            case "tools/list":
                return {"tools": TOOLS}
            case "prompts/list":
                return {"prompts": [{"name": name} for name in ASKED]}
            case "prompts/get" if "inputResponses" in params:
                text = {"type": "text", "text": json.dumps(params["inputResponses"]["q"])}
                return {"messages": [{"role": "user", "content": text}]}
            case "tools/call" | "prompts/get":
                return self.ask(number, params)
            case _:
                return {}

    def ask(self, number: object, params: Json) -> Json | None:
        """Answer a call, or ask first."""
        if "inputResponses" in params:
            return text_result(json.dumps(params["inputResponses"]["q"]))
        if params["name"] not in ASKED:
            return text_result("done")
        method, asked = ASKED[params["name"]]
        if self.is_modern:
            requests = {"q": {"method": method, "params": asked}}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
        self.waiting.append(number)
        send({"id": "q", "method": method, "params": asked})
        return None


if __name__ == "__main__":
    server = Server(sys.argv[1])
    for line in sys.stdin:
        server.take(json.loads(line))
