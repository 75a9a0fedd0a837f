"""Makes exchanges with odd servers, and writes down what caller and server see of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_types import ElicitResult, PromptReference

from plait import PlaitError, Toolbox
from plait.testing import eventually
from tests.integration.wires.exchanges import (
    HANDSHAKES,
    METHODS,
    Exchange,
    exchanges,
    waits_in_vain,
)
from tests.integration.wires.odd_http import on_http
from tests.integration.wires.odd_server import Json
from tests.integration.wires.odd_transports import (
    Received,
    RunningServer,
    on_sse,
    on_stdio,
    on_websocket,
)
from tests.integration.wires.shown import Shown, plain, shortened, without_meta

TRANSPORTS = {"stdio": on_stdio, "http": on_http, "sse": on_sse, "websocket": on_websocket}
ERAS = ("legacy", "modern")

_SHARES = 3
"""Servers that share the exchanges of a kind: most of the time is spent waiting."""
_PATIENCE_SECONDS = 0.5
"""How long a call waits whose server does not answer."""
_KINDS = {
    "tools changed": "tools_list_changed",
    "prompts changed": "prompts_list_changed",
    "resources changed": "resources_list_changed",
}


async def play(transport: str, era: str, folder: Path) -> dict[str, Json]:
    """Make all exchanges of a transport in an era, and return what came of each, by name."""
    every = exchanges(transport, era)
    talks = [one for one in every if one.wants != "session" and not _reads_in_vain(one)]
    shares = [
        [one for one in talks if one.heard == heard][first::_SHARES]
        for heard in (False, True)
        for first in range(_SHARES)
    ]
    shares += [[one] for one in every if _reads_in_vain(one)]
    work = [
        _Share(transport, era, share, folder / f"{number}").play()
        for number, share in enumerate(shares)
    ]
    sessions = [one for one in every if one.wants == "session"]
    work += [
        _open_sessions(transport, era, sessions[first::_SHARES], folder / f"session {first}")
        for first in range(_SHARES)
    ]
    played: dict[str, Json] = {}
    for one in await asyncio.gather(*work):
        played |= one
    return {name: played[name] for name in sorted(played)}


def _reads_in_vain(exchange: Exchange) -> bool:
    """Say whether an exchange needs a server whose reads have a short timeout."""
    return exchange.wants == "read" and exchange.steps == [["hang"]]


async def _open_sessions(
    transport: str, era: str, some: Sequence[Exchange], folder: Path
) -> dict[str, Json]:
    """Open a session for each exchange, with a client that has to find out the era."""
    outcomes: dict[str, Json] = {}
    for number, exchange in enumerate(some):
        async with TRANSPORTS[transport](era, folder / f"{number}") as server:
            server.arrange(HANDSHAKES[era], exchange.steps)
            config = {**server.config, "reconnect": {"max_attempts": 1, "delay": 60}}
            async with Toolbox({"odd": config}) as box:
                outcome = await _outcome(_session(box))
            shown = Shown("none", "", server.received())
            shown.add(server.received())
            outcomes[exchange.name] = {"outcome": outcome, "server": shown.lines}
    return outcomes


async def _session(box: Toolbox) -> Json:
    """Use a server for the first time, and return what is known of it."""
    tools = await box.tools()
    info = await box.server_info("odd")
    return {
        "name": info.name,
        "version": info.protocol_version,
        "instructions": info.instructions,
        "capabilities": sorted(plain(info.capabilities) or {}),
        "tools": [tool.wire_name for tool in tools],
    }


async def _outcome(wanted: Awaitable[Any]) -> Any:
    """Return what a caller gets, or the facts of its error."""
    try:
        return shortened(await wanted)
    except PlaitError as error:
        facts = error.to_dict()
        for name in ("client", "tool_name", "type"):
            facts.pop(name, None)
        if error.attempts > 1:
            facts["attempts"] = error.attempts
        return shortened(facts)


@dataclass
class _Share:
    """Exchanges with one server, one after the other."""

    transport: str
    era: str
    exchanges: Sequence[Exchange]
    folder: Path
    told: list[Any] = field(default_factory=list[Any])

    async def play(self) -> dict[str, Json]:
        outcomes: dict[str, Json] = {}
        async with TRANSPORTS[self.transport](self.era, self.folder) as server:
            config = {
                **server.config,
                "protocol": self.era,
                "default_tool_timeout": 30,
                "read_timeout": 1 if _reads_in_vain(self.exchanges[0]) else 30,
                "reconnect": {"max_attempts": 1, "delay": 0},
            }
            options = _callbacks(self.told) if self.exchanges[0].heard else dict[str, Any]()
            async with Toolbox({"odd": config}, **options) as box:
                await box.tools()
                await self._settle(box, server, self.exchanges[0])
                for exchange in self.exchanges:
                    outcomes[exchange.name] = await self._make(box, server, exchange)
        return outcomes

    async def _make(self, box: Toolbox, server: RunningServer, exchange: Exchange) -> Json:
        first, sessions = len(server.received()), box.status()["odd"].sessions
        self.told.clear()
        server.arrange(METHODS[exchange.wants], exchange.steps)
        outcome = await _outcome(self._wanted(box, server, exchange))
        if self.transport != "http" and ["answer and die"] in exchange.steps:
            await eventually(lambda: _is_lost(box, sessions))
        if exchange.steps[0][-1] in {"hang", "late"}:
            await _in_time(lambda: any(map(_cancels, server.received()[first:])))
        for kind in self._announcements(exchange):
            await _in_time(lambda kind=kind: kind in [one[0] for one in self.told])
        await self._settle(box, server, exchange)
        messages = server.received()[first:]
        shown = Shown(self.era, METHODS[exchange.wants], server.received())
        shown.add(messages)
        if exchange.wants == "calls":  # they may overtake each other
            shown.lines.sort(key=str)
        seen: Json = {"outcome": outcome, "server": shown.lines}
        if self.told:
            # Announcements of a modern server come on a stream of their own.
            ordered = sorted(self.told, key=_is_announcement) if self.era == "modern" else self.told
            seen["told"] = shown.with_names_for_ids(ordered)
        if reopened := box.status()["odd"].sessions - sessions:
            seen["reopened"] = reopened
        return seen

    def _announcements(self, exchange: Exchange) -> list[str]:
        """Return what a client that hears everything is told of changes."""
        steps = [step for step in exchange.steps[0] if exchange.heard]
        return [_KINDS[step] for step in steps if step in _KINDS]

    async def _settle(self, box: Toolbox, server: RunningServer, exchange: Exchange) -> None:
        """Wait until everything that belongs to an exchange has been seen on both sides."""
        server.arrange("tools/call", [["fence", "answer"]] if exchange.heard else [])
        await box.call("odd", "fence", timeout_seconds=30)
        if exchange.heard:
            await eventually(lambda: ["log", "info", None, "fence"] in self.told)
            self.told.remove(["log", "info", None, "fence"])
            if self.era == "modern":
                await eventually(lambda: _is_listened_to(box, server.received()))
        server.arrange("", [])

    async def _wanted(self, box: Toolbox, server: RunningServer, exchange: Exchange) -> Any:
        match exchange.wants:
            case "call":
                return await self._call(box, exchange)
            case "calls":
                return await asyncio.gather(*(self._call(box, exchange, n) for n in range(3)))
            case "cancelled call":
                before = len(server.received())
                calling = asyncio.ensure_future(self._call(box, exchange))
                await eventually(lambda: _is_called(server.received()[before:]))
                calling.cancel()
                with suppress(asyncio.CancelledError):
                    return await calling
                return "cancelled"
            case "tools":
                return [tool.to_dict() for tool in await box.tools(refresh=True)]
            case "read":
                return plain(await box.read_resource("odd", "odd://one"))
            case "prompt":
                return plain(await box.get_prompt("odd", "greet", {"name": "ünï"}))
            case "complete":
                ref = PromptReference(name="greet")
                return plain(await box.complete("odd", ref, {"name": "name", "value": "o"}))
            case "resources":
                return [plain(one.item) for one in await box.list_resources("odd")]
            case "templates":
                return [plain(one.item) for one in await box.list_resource_templates("odd")]
            case "prompts":
                return [plain(one.item) for one in await box.list_prompts("odd")]
            case "log level":
                return await box.set_logging_level("debug", "odd")
            case "subscribe":
                return await self._subscribe(box, server)
            case _:
                return (await box.ping("odd")) >= 0

    async def _call(self, box: Toolbox, exchange: Exchange, number: int | None = None) -> Json:
        arguments = {"value": exchange.value if number is None else number}
        if exchange.tool == "look":
            arguments["region"] = "nörth"
        limit = _PATIENCE_SECONDS if waits_in_vain(exchange, self.transport) else None
        result = await box.call("odd", exchange.tool, arguments, timeout_seconds=limit)
        facts = result.to_dict()
        usual = {"is_error": False, "attempts": 1, "notes": [], "meta": None}
        for name in ("server", "tool", "seconds"):
            del facts[name]
        return {
            name: value
            for name, value in facts.items()
            if value is not None and (name not in usual or value != usual[name])
        }

    async def _subscribe(self, box: Toolbox, server: RunningServer) -> Any:
        updates: list[str] = []
        subscription = await box.subscribe("odd", "odd://one", updates.append)
        server.arrange("tools/call", [["resource updated", "answer"]])
        await box.call("odd", "fence")
        await eventually(lambda: bool(updates))
        before = len(server.received())
        subscription.cancel()
        await eventually(lambda: self._left(server, before))
        return updates

    def _left(self, server: RunningServer, before: int) -> bool:
        """Say whether the server knows that a subscription has ended."""
        if self.era == "modern" and self.transport == "http":
            return True
        ends = {"resources/unsubscribe", "notifications/cancelled"}
        return any(one.message.get("method") in ends for one in server.received()[before:])


def _callbacks(told: list[Any]) -> dict[str, Any]:
    """Return options that write down everything a client is told."""

    def noting(kind: str) -> Any:
        return lambda params, _context: told.append([kind, without_meta(plain(params))])

    async def elicited(_context: object, params: Any) -> ElicitResult:
        told.append(["elicitation", params.message])
        return ElicitResult(action="accept", content={"name": "Ada"})

    def sampled(_server: str, request: Any) -> str:
        told.append(["sampling", request.messages[-1].content.text])
        return "four"

    def roots() -> list[str]:
        told.append(["roots"])
        return ["file:///data"]

    kinds = (
        "cancelled",
        "roots_list_changed",
        "tools_list_changed",
        "prompts_list_changed",
        "resources_list_changed",
        "resources_updated",
    )
    return {
        **{f"on_{kind}": noting(kind) for kind in kinds},
        "on_log": lambda _, one: told.append(["log", one.level, one.logger, one.data]),
        "on_progress": lambda done, total, text, context: told.append(
            ["progress", done, total, text, context.tool_name]
        ),
        "on_elicitation": lambda _: elicited,
        "on_sampling": sampled,
        "roots": roots,
    }


def _is_announcement(told: list[Any]) -> bool:
    return told[0] in _KINDS.values()


def _is_called(received: Sequence[Received]) -> bool:
    return any(one.message.get("method") == "tools/call" for one in received)


def _cancels(one: Received) -> bool:
    return one.verb == "hang-up" or one.message.get("method") == "notifications/cancelled"


async def _in_time(happens: Callable[[], bool]) -> None:
    """Wait for what should happen; if it does not, what was seen will show it."""
    with suppress(TimeoutError):
        await eventually(happens)


def _is_lost(box: Toolbox, sessions: int) -> bool:
    status = box.status()["odd"]
    return status.state != "ready" or status.sessions > sessions


def _is_listened_to(box: Toolbox, received: list[Received]) -> bool:
    """Say whether the client has asked for announcements in every session."""
    asked = [
        one
        for one in received
        if one.message.get("method") == "subscriptions/listen"
        and one.message["params"]["notifications"].get("toolsListChanged")
    ]
    return len(asked) >= box.status()["odd"].sessions
