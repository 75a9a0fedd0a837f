"""The exchanges that every implementation is held to: each step once, and random ones."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from tests.integration.connections.test_http_wire import FAULTS
from tests.integration.wires.odd_http import AS_JSON, HTTP_STEPS, RESUMPTIONS
from tests.integration.wires.odd_server import (
    ANNOUNCEMENTS,
    NOTIFICATIONS,
    QUESTIONS,
    TEXTS,
    Script,
)

METHODS = {
    "call": "tools/call",
    "calls": "tools/call",
    "cancelled call": "tools/call",
    "tools": "tools/list",
    "read": "resources/read",
    "prompt": "prompts/get",
    "complete": "completion/complete",
    "resources": "resources/list",
    "templates": "resources/templates/list",
    "prompts": "prompts/list",
    "log level": "logging/setLevel",
    "subscribe": "resources/subscribe",
    "ping": "ping",
    "session": "",
}
"""The method that a script is about, by what the caller wants."""

HANDSHAKES = {"legacy": "initialize", "modern": "server/discover"}

ANY_ANSWER = (
    "answer", "error -32602", "error -32000", "error 42", "unknown method", "empty result",
    "null result", "text result", "list result", "text id", "two in one line", "banner", "die",
    "batch", "odd result type",
)  # fmt: skip
"""Answers to any request."""

HANDSHAKE_ANSWERS = (
    "answer", "error -32601", "error -32602", "error -32022", "error 42", "empty result",
    "null result", "text id", "banner", "twice", "batch", "two in one line", "die",
    "other version", "failed",
)  # fmt: skip
"""Answers to the first request of a session."""

HANDSHAKE_FAULTS = (
    "401", "403", "404", "429", "500", "503", "html", "202", "no JSON", "a cut connection", "moved",
    "400 with an error of JSON-RPC", "400 of another version", "an event in pieces",
    "another origin",
)  # fmt: skip
"""Faults of HTTP in answer to it."""

HEARD_FAULTS = frozenset({
    "413", "400 with an error of JSON-RPC", "redirects forever", "no JSON",
    "no event that is JSON", "no HTTP", "gzip with much behind it", "comments", "moved",
    "json with 201", "400 of another version", "a stream that cannot be resumed",
})  # fmt: skip
"""Faults of HTTP in calls of a client that has callbacks."""

CALL_ANSWERS = (
    *ANY_ANSWER, "error -32700", "error -32600", "error -32601", "error -32603", "error -32001",
    "error -32002", "error -32021", "error -32042", "failed", "failed without content",
    "structured", "structured list", "wrong structure", "image", "resources", "meta", "nested",
    "long", "big number", "surrogate", "hidden text", "float id", "null id", "no id", "no version",
    "result and error", "text error", "error without a code", "input required",
    "sampling required", "input required without questions", "error without an id", "not a number",
    "key twice", "crlf", "spaces", "twice", "list result, then the answer", "late", "hang",
    "answer and die", "neither",
)  # fmt: skip
"""Answers to a tool call."""

STEPS = (
    *(step for step in NOTIFICATIONS if step != "fence"), *ANNOUNCEMENTS, *QUESTIONS, *TEXTS,
    "progress", "cancels the request", "other id",
)  # fmt: skip
"""What may come before an answer."""

UNANSWERED = frozenset({"hang", "late"})
UNRELATED = frozenset({"neither", "float id", "no id", "null id", "error without an id"})
"""Answers that belong to a request on HTTP only, where its response ends with them."""

_NO_JSON_RPC = frozenset({"list result", "text result", "text error", "neither"})
_RANDOM_ANSWERS = ("answer", "answer", "failed", "error 42", "text id", "twice", "banner", "image")
_VALUES = (17, "ünï", None, [1, {"a": 2}], 2**70, True, 0.1, "a\nb", {})


@dataclass(frozen=True)
class Exchange:
    """One thing that a caller wants, and what the server does about it."""

    wants: str
    steps: Script
    """The steps in answer to each request; later ones are answered well."""
    tool: str = "do"
    value: Any = "v"
    heard: bool = False
    """Whether the client has callbacks for everything; then more than a plain call is needed."""

    @property
    def name(self) -> str:
        """What it is known by in the golden files."""
        what = f"call of {self.tool}" if self.wants == "call" else self.wants
        steps = "; then ".join(", ".join(one) for one in self.steps)
        return f"{what}{' heard' if self.heard else ''}: {steps}"


def waits_in_vain(exchange: Exchange, transport: str) -> bool:
    """Say whether a call ends by its timeout only."""
    lost = UNANSWERED if transport == "http" else UNANSWERED | UNRELATED
    return any(steps[-1] in lost for steps in exchange.steps)


def exchanges(transport: str, era: str) -> list[Exchange]:
    """Return all exchanges of a transport in an era; their names differ."""
    every = list(_systematic(transport, era))
    if transport == "sse":  # what is no JSON-RPC is lost there, and its caller waits in vain
        every = [one for one in every if one.steps[0][-1] not in _NO_JSON_RPC]
    if transport in {"sse", "websocket"}:
        every = _some(every)
    every += _random_ones(f"{transport} {era}", 20)
    return list({one.name: one for one in every}.values())


def _some(every: list[Exchange]) -> list[Exchange]:
    """Leave out what no transport does with other code than the one before."""
    return [one for number, one in enumerate(every) if number % 3 == 0 or one.wants == "calls"]


def _systematic(transport: str, era: str) -> Generator[Exchange]:
    for number, step in enumerate(STEPS):
        yield Exchange("call", [[step, "answer"]], heard=True)
        if step in QUESTIONS or number % 3 == 0:
            yield Exchange("call", [[step, "answer"]])
    form = [AS_JSON] if transport == "http" else []
    for number, answer in enumerate(CALL_ANSWERS):
        yield Exchange("call", [[*form, answer]])
        if form:
            yield Exchange("call", [[answer]], heard=number % 2 == 1)
    yield Exchange("call", [["input required"]], heard=True)
    yield Exchange("call", [["sampling required"]], heard=True)
    for answer in ("structured", "wrong structure", "answer", "failed"):
        yield Exchange("call", [[answer]], tool="count")
    for answer in ("answer", "die", "error -32000", "hang", "neither"):
        yield Exchange("call", [[answer]], tool="look")
    yield Exchange("call", [["die"], ["die"], ["die"]], tool="look")
    yield Exchange("calls", [["hold"], ["hold"], ["release"]])
    yield Exchange("calls", [["hold"], ["hold"], ["release"]], heard=True)
    yield Exchange("cancelled call", [["hang"]])
    yield Exchange("cancelled call", [["hang"]], heard=True)
    yield from _of_other_methods(transport, era)
    yield Exchange("session", [["noise", "log", "answer"]])
    for answer in HANDSHAKE_ANSWERS:
        yield Exchange("session", [[*form, answer]])
    if transport == "http":
        yield from _over_http(era)


def _of_other_methods(transport: str, era: str) -> Generator[Exchange]:
    calls = {"call", "calls", "cancelled call", "session"}
    others = [wants for wants in METHODS if wants not in calls]
    if era == "modern":
        others = [wants for wants in others if wants not in {"log level", "ping"}]
    for number, wants in enumerate(others):
        yield Exchange(wants, [["answer"]])
        yield Exchange(wants, [["log", "progress", "answer"]], heard=True)
        if (wants, era) != ("subscribe", "modern"):
            for answer in ANY_ANSWER[1 + number % 3 :: 3]:
                yield Exchange(wants, [[answer]])
    for wants in ("tools", "resources", "prompts"):
        yield Exchange(wants, [["next page"]])
    yield Exchange("read", [["error -32002"]])
    yield Exchange("read", [["hang"]])
    if transport == "http":
        for wants in ("tools", "read"):
            yield Exchange(wants, [["503"]])
            yield Exchange(wants, [["a cut stream"]])
            yield Exchange(wants, [["moved"]])


def _over_http(era: str) -> Generator[Exchange]:
    for fault in (*FAULTS, *HTTP_STEPS):
        if era == "legacy" or fault not in RESUMPTIONS:
            yield Exchange("call", [[fault]], heard=fault in HEARD_FAULTS)
    for fault in HANDSHAKE_FAULTS:
        yield Exchange("session", [[fault]])
    for fault in ("503", "a cut connection", "a cut stream", "429", "404", "moved"):
        yield Exchange("call", [[fault]], tool="look")
    if era == "legacy":
        yield Exchange("call", [["404"]])
        for fault in RESUMPTIONS:
            yield Exchange("call", [[fault]], heard=True)
    else:
        yield replace(Exchange("call", [["an ended stream, resumed"]]), tool="look")


def _random_ones(seed: str, count: int) -> Generator[Exchange]:
    """Draw exchanges of several steps; they are repeatable, not secret."""
    source = random.Random(seed)
    for _ in range(count):
        before = source.sample(STEPS, source.randrange(1, 4))
        answer = source.choice(_RANDOM_ANSWERS)
        tool, value = source.choice(["do", "look"]), source.choice(_VALUES)
        heard = source.random() < 0.5
        yield Exchange("call", [[*before, answer]], tool=tool, value=value, heard=heard)
