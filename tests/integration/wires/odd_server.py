"""A server that does what its script says: the answers of good servers, odd ones and broken ones.

`OddServer` knows no transport: it yields actions, and whoever runs it carries them out. As a
program it is the server on stdio: `python odd_server.py ERA SCRIPT LOG`, where SCRIPT is a file
with the script of the next exchange, and LOG gets what was received, a message a line. It needs
the standard library only, as it is started often.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Action = tuple[str, Any]
"""What to do: `send` a message, write a `text`, `announce`, `ask`, `stay`, `hang` or `die`."""
Script = list[list[str]]
"""The steps in answer to each request, in order; what comes after them is answered well."""
Playing = Generator[Action, Any, None]

MODERN = "2026-07-28"
LATEST_LEGACY = "2025-11-25"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
BEFORE_THE_HANDSHAKE = frozenset({"initialize", "server/discover"})

_ARGUMENTS: Json = {
    "type": "object",
    "properties": {"value": {}, "region": {"type": "string", "x-mcp-header": "Region"}},
}
_COUNTED: Json = {"type": "object", "required": ["n"]}
_LOOKS: Json = {"readOnlyHint": True, "idempotentHint": True}
_TOOLS: list[Any] = [
    {"name": "do", "inputSchema": _ARGUMENTS},
    {"name": "look", "inputSchema": _ARGUMENTS, "annotations": _LOOKS},
    {"name": "count", "inputSchema": _ARGUMENTS, "outputSchema": _COUNTED},
    {"name": "fence", "inputSchema": {"type": "object"}, "annotations": _LOOKS},
    {"name": "broken"},
    7,
]  # fmt: skip
_FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}

NOTIFICATIONS: dict[str, tuple[str, Json]] = {
    "log": ("message", {"level": "info", "logger": "odd", "data": {"said": "ünï"}}),
    "log at a level of its own": ("message", {"level": "shouted", "data": "x"}),
    "fence": ("message", {"level": "info", "data": "fence"}),
    "cancels what it never asked": ("cancelled", {"requestId": "nothing", "reason": "no need"}),
    "cancels a list": ("cancelled", {"requestId": [1]}),
    "progress of nobody": ("progress", {"progressToken": "nobody", "progress": 1}),
    "roots changed": ("roots/list_changed", {}),
    "unknown notification": ("odd/thing", {"a": 1}),
}
ANNOUNCEMENTS: dict[str, tuple[str, Json]] = {
    "tools changed": ("tools/list_changed", {}),
    "prompts changed": ("prompts/list_changed", {}),
    "resources changed": ("resources/list_changed", {}),
    "resource updated": ("resources/updated", {"uri": "odd://one"}),
}
_WISHES = {
    "tools changed": "toolsListChanged",
    "prompts changed": "promptsListChanged",
    "resources changed": "resourcesListChanged",
    "resource updated": "resourceSubscriptions",
}
QUESTIONS: dict[str, tuple[str, Json]] = {
    "ping": ("ping", {}),
    "elicitation": ("elicitation/create", {"message": "Who?", "requestedSchema": _FORM}),
    "url elicitation": (
        "elicitation/create",
        {"mode": "url", "message": "Open", "url": "https://a.example/", "elicitationId": "e1"},
    ),
    "elicitation without a form": ("elicitation/create", {"message": 7}),
    "sampling": (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}],
            "maxTokens": 9,
        },
    ),
    "roots": ("roots/list", {}),
    "unknown request": ("odd/question", {"a": 1}),
}
TEXTS: dict[str, str] = {
    "noise": "warming up {not json} [1, 2",
    "blank": "",
    "half an answer": '{"jsonrpc": "2.0", "id": 1, "result": {"content": [{}',
    "a number": "17",
    "another protocol": '{"jsonrpc": "1.0", "method": "notifications/message"}',
}


def notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def _tagged(listener: Any, method: str, params: Json) -> Json:
    meta = {} if listener is None else {"_meta": {SUBSCRIPTION: listener}}
    return notification(method, {**params, **meta})


def text(value: object) -> Json:
    shown = value if isinstance(value, str) else json.dumps(value)
    return {"content": [{"type": "text", "text": shown}]}


class OddServer:
    """One server of an era; `take` returns the steps for a request of a method, if it has some."""

    def __init__(self, era: str, take: Callable[[str], list[str] | None]) -> None:
        self.modern = era == "modern"
        self._take = take
        self._late: list[Json] = []
        self._held: list[Json] = []
        self._asked = 0
        self.listening = dict[Any, Json]()
        """What each open `subscriptions/listen` wants to hear, by its id."""

    def answer(self, request: Json) -> Playing:
        """Yield the actions that answer a request; one that asks is sent the response."""
        for late in self._late:
            yield "send", late
        self._late.clear()
        steps = self._take(request["method"])
        *before, last = steps or ["answer"]
        for step in before:
            yield from self._before(step, request)
        yield from self._last(last, request)

    def _before(self, step: str, request: Json) -> Playing:
        params = request.get("params") or {}
        if step in NOTIFICATIONS:
            yield "send", notification(*NOTIFICATIONS[step])
        elif step in ANNOUNCEMENTS:
            for listener in self._listeners(step):
                yield "announce", _tagged(listener, *ANNOUNCEMENTS[step])
        elif step in TEXTS:
            yield "text", TEXTS[step]
        elif step in QUESTIONS:
            method, asked = QUESTIONS[step]
            self._asked += 1
            number = f"{step} {self._asked}"
            yield "ask", {"jsonrpc": "2.0", "id": number, "method": method, "params": asked}
        elif step == "progress":
            token = (params.get("_meta") or {}).get("progressToken")
            for done in range(1, 4):
                facts = {"progressToken": token, "progress": done, "total": 3, "message": f"{done}"}
                yield "send", notification("progress", facts)
        elif step == "cancels the request":
            yield "send", notification("cancelled", {"requestId": request["id"]})
        elif step == "other id":
            yield "send", self._reply(request, text("not yours"), id=999_999_999)
        else:
            raise ValueError(step)

    def _last(self, step: str, request: Json) -> Playing:  # one case a step
        result = self._result(request)
        if step == "answer" and result is None:
            step = "unknown method"
        good = self._reply(request, result or {})
        line = json.dumps(good)
        answers: dict[str, Json] = {
            "answer": good,
            "failed": self._reply(request, {**text("no luck"), "isError": True}),
            "failed without content": self._reply(request, {"content": [], "isError": True}),
            "structured": self._reply(request, {**text("s"), "structuredContent": {"n": 1}}),
            "structured list": self._reply(request, {**text("s"), "structuredContent": [1]}),
            "wrong structure": self._reply(request, {**text("s"), "structuredContent": {"m": 1}}),
            "image": self._reply(request, {"content": [_IMAGE, {"type": "odd", "x": 1}, 7]}),
            "resources": self._reply(request, {"content": [_LINK, _EMBEDDED]}),
            "meta": self._reply(request, {**text("m"), "_meta": {"odd/key": [1]}, "odd": 1}),
            "nested": self._reply(request, {**text("n"), "structuredContent": _nested(300)}),
            "long": self._reply(request, text("x" * 100_000)),
            "big number": self._reply(request, {**text("b"), "structuredContent": {"n": 2**80}}),
            "surrogate": self._reply(request, text("\ud800 half")),
            "hidden text": self._reply(request, text("a\u200bb\u202ec\x00d")),
            "empty result": {**good, "result": {}},
            "null result": {**good, "result": None},
            "text result": {**good, "result": "x"},
            "list result": {**good, "result": [1]},
            "odd result type": {**good, "result": {**text("t"), "resultType": "odd"}},
            "text id": {**good, "id": str(request["id"])},
            "float id": {**good, "id": _as_float(request["id"])},
            "null id": {**good, "id": None},
            "no id": {name: value for name, value in good.items() if name != "id"},
            "no version": {name: value for name, value in good.items() if name != "jsonrpc"},
            "result and error": {**good, "error": {"code": 1, "message": "both"}},
            "neither": {"jsonrpc": "2.0", "id": request["id"]},
            "text error": {"jsonrpc": "2.0", "id": request["id"], "error": "no"},
            "error without a code": {"jsonrpc": "2.0", "id": request["id"], "error": {}},
            "unknown method": self._error(request, -32601),
            "input required": self._reply(request, self._needs_input(request)),
            "sampling required": self._reply(request, self._needs_input(request, "sampling")),
            "input required without questions": self._reply(
                request, {"resultType": "input_required", "requestState": "s1"}
            ),
            "error without an id": {**self._error(request, -32603), "id": None},
            "other version": self._reply(request, {**(result or {}), **_OLD}),
            "next page": self._reply(request, {**(result or {}), "nextCursor": "more"}),
        }
        texts = {
            "banner": f"banner: {line}",
            "two in one line": line * 2,
            "batch": f"[{line}]",
            "not a number": line.replace('"jsonrpc"', '"odd": NaN, "jsonrpc"'),
            "key twice": line.replace('"jsonrpc"', '"id": 1, "jsonrpc"', 1),
            "crlf": f"{line}\r",
            "spaces": f"  \t{line}  ",
        }
        if step in answers:
            yield "send", answers[step]
        elif step in texts:
            yield "text", texts[step]
        elif step.startswith("error "):
            yield "send", self._error(request, int(step.removeprefix("error ")))
        elif step == "twice":
            yield "send", self._reply(request, text("first"))
            yield "send", self._reply(request, text("second"))
        elif step == "list result, then the answer":
            yield "send", answers["list result"]
            yield "send", good
        elif step == "late":
            self._late.append(good)
            yield "hang", None
        elif step == "hold":
            self._held.append(good)
            yield "hold", request["id"]
        elif step == "release":
            yield "send", good
            for held in reversed(self._held):
                yield "release", held
            self._held.clear()
        elif step == "answer and die":
            yield "send", good
            yield "die", None
        elif step in {"hang", "die"}:
            yield step, None
        else:
            raise ValueError(step)

    def _result(self, request: Json) -> Json | None:  # one case a method
        """Return what a good server answers, or nothing if it does not know the method."""
        params = request.get("params") or {}
        match request["method"]:
            case "initialize" if not self.modern:
                version, info = params["protocolVersion"], {"name": "odd", "version": "1"}
                known = {"protocolVersion": version, "capabilities": _CAPABILITIES}
                return {**known, "serverInfo": info, "instructions": "Be odd."}
            case "server/discover" if self.modern:
                return self._cached(supportedVersions=[MODERN], capabilities=_CAPABILITIES)
            case "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel":
                return None if self.modern else {}
            case "tools/list":
                return self._cached(tools=_TOOLS)
            case "tools/call" if "inputResponses" in params:
                return text({"given": params["inputResponses"], "state": params["requestState"]})
            case "tools/call":
                return text((params.get("arguments") or {}).get("value"))
            case "resources/list":
                return self._cached(resources=[{"uri": "odd://one", "name": "one"}, {"odd": 1}])
            case "resources/templates/list":
                return self._cached(resourceTemplates=[{"uriTemplate": "odd://{a}", "name": "t"}])
            case "prompts/list":
                return self._cached(prompts=[{"name": "greet"}, {"name": 7}])
            case "resources/read":
                contents = [{"uri": params["uri"], "text": "contents"}, {"odd": 1}]
                return self._cached(contents=contents)
            case "prompts/get":
                good = {"role": "user", "content": {"type": "text", "text": params["name"]}}
                odd = {"role": "user", "content": {"type": "odd"}}
                return {"messages": [good, odd]}
            case "completion/complete":
                return {"completion": {"values": ["one", "other"], "total": 2}}
            case _:
                return None

    def listen(self, request: Json) -> Playing:
        """Yield what answers `subscriptions/listen`: an acknowledgement, and then nothing."""
        listener, wanted = request["id"], request["params"]["notifications"]
        self.listening[listener] = wanted
        yield "send", _tagged(listener, "subscriptions/acknowledged", {"notifications": wanted})
        yield "stay", None

    def take_back(self, message: Json) -> None:
        """Forget a listener that has cancelled its request."""
        if message.get("method") == "notifications/cancelled":
            self.listening.pop(message["params"]["requestId"], None)

    def _listeners(self, step: str) -> list[Any]:
        """Return who is told of a change; a legacy server tells it without being asked."""
        if not self.modern:
            return [None]
        wish = _WISHES[step]
        return [one for one, wanted in self.listening.items() if wanted.get(wish)]

    def _needs_input(self, request: Json, kind: str = "elicitation") -> Json:
        method, params = QUESTIONS[kind]
        del request
        asked = {"first": {"method": method, "params": params}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"}

    def _cached(self, **fields: Any) -> Json:
        return {**fields, "ttlMs": 0, "cacheScope": "private"} if self.modern else fields

    def _reply(self, request: Json, result: Json, **fields: Any) -> Json:
        era = {"resultType": "complete"} if self.modern else {}
        return {"jsonrpc": "2.0", "id": request["id"], "result": {**era, **result}, **fields}

    def _error(self, request: Json, code: int) -> Json:
        error = {"code": code, "message": "refused", "data": {"a": 1}}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}


_OLD = {"protocolVersion": "1999-01-01", "supportedVersions": ["1999-01-01"]}
_IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
_LINK = {"type": "resource_link", "uri": "odd://one", "name": "one", "size": 10**400}
_EMBEDDED = {"type": "resource", "resource": {"uri": "odd://one", "text": "inside"}}


def _as_float(number: Any) -> Any:
    return float(number) if isinstance(number, int) else number


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def replace_text(file: Path, text: str) -> None:
    """Write a file that another process may be reading."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(file)


class _OnStdio:
    """Runs a server on standard input and output, one request at a time."""

    def __init__(self, era: str, script: Path, log: Path) -> None:
        self._script, self._log = script, log
        self._server = OddServer(era, self._take)
        self._waiting: list[Json] = []

    def _take(self, method: str) -> list[str] | None:
        script: Json = json.loads(self._script.read_text())
        if script["method"] != method or not script["steps"]:
            return None
        steps = script["steps"].pop(0)
        replace_text(self._script, json.dumps(script))
        return steps

    def run(self) -> None:
        while (message := self._waiting.pop(0) if self._waiting else self._read()) is not None:
            if "id" in message and "method" in message:
                self._answer(message)

    def _answer(self, request: Json) -> None:
        listens = request["method"] == "subscriptions/listen" and self._server.modern
        playing = self._server.listen(request) if listens else self._server.answer(request)
        reply: Any = None
        try:
            while True:
                what, value = playing.send(reply)
                reply = None
                if what == "die":
                    os._exit(3)
                if what == "ask":
                    self._write(json.dumps(value))
                    reply = self._reply_to(value["id"], request["id"])
                elif what == "text":
                    self._write(value)
                elif what in {"send", "announce", "release"}:
                    self._write(json.dumps(value))
        except StopIteration:
            pass

    def _reply_to(self, asked: str, request: object) -> Json | None:
        """Wait for the response to a request of this server, or until the call is cancelled."""
        while (message := self._read()) is not None:
            if "method" not in message and message["id"] == asked:
                return message
            if message.get("method") == "notifications/cancelled":
                if message["params"]["requestId"] == request:
                    return None
            elif "method" in message:
                self._waiting.append(message)
        return None

    def _read(self) -> Json | None:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        with self._log.open("ab") as log:
            log.write(line)
        message: Json = json.loads(line)
        self._server.take_back(message)
        return message

    def _write(self, line: str) -> None:
        sys.stdout.buffer.write(line.encode("utf-8", "surrogatepass") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _OnStdio(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])).run()
