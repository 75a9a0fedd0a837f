"""A client of `plait serve`: its requests, in both eras of the protocol.

The peer of `client/protocol` plays the server's part: what arrives are requests, and what it sends
are notifications, and in the handshake era questions of the servers behind. A client of the modern
era gets such a question as the result of its call, and makes the call again with the answer.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait._support.redact import Redactor
from plait._version import __version__
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import Peer, RequestError
from plait.client.protocol.reading import RequestId
from plait.client.protocol.session import SUBSCRIPTION_ID
from plait.errors import PlaitError
from plait.serve.upstream import (
    ANSWER_SECONDS,
    AskClient,
    CallOptions,
    ListKind,
    Row,
    Upstream,
    elicitation_modes,
)

if TYPE_CHECKING:
    from plait.client.protocol.exchange import OnProgress

logger = logging.getLogger("plait.serve")

MAX_REQUESTS: Final = 4096
"""How many requests of a client may be under way at once."""
MAX_HELD_CALLS: Final = 256
"""How many calls of a client may wait for answers that come with another request."""
TOGETHER_SECONDS: Final = 0.1
"""How long changes of a list are collected: at the start, every server has one."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_CHANGED: Final[dict[ListKind, tuple[str, str]]] = {
    "tools": ("notifications/tools/list_changed", "toolsListChanged"),
    "prompts": ("notifications/prompts/list_changed", "promptsListChanged"),
    "resources": ("notifications/resources/list_changed", "resourcesListChanged"),
    "resourceTemplates": ("notifications/resources/list_changed", "resourcesListChanged"),
}
"""The notification that a list has changed, and the field that asks for it."""
_CAPABILITIES: Final[Row] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
_LISTS: Final[dict[str, ListKind]] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_ASKS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The requests in whose course the modern era lets a server ask something."""
_CACHEABLE: Final = frozenset({*_LISTS, "resources/read", "server/discover"})

OpenUpstream = Callable[["ClientSession"], Upstream]


class Stream(Protocol):
    """What carries the messages that belong to one request: the response to it, over HTTP."""

    async def deliver(self, body: bytes) -> None:
        """Write a message, or raise `anyio.BrokenResourceError`."""
        ...


current_stream: ContextVar[Stream | None] = ContextVar("plait_serve_stream", default=None)
"""That of the request in this context; on stdio there is one for everything."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request of the client that is under way."""

    id: RequestId
    method: str
    params: Row
    modern: bool
    stream: Stream | None
    log_level: str | None = None
    ended: bool = False
    held: _HeldCall | None = None
    """The call that it makes or continues, in the modern era."""

    @property
    def newest(self) -> _Request:
        """The request by which a client of the modern era waits for the result now."""
        return self if self.held is None else self.held.request

    @property
    def progress_token(self) -> RequestId | None:
        meta: Row = self.params.get("_meta") or {}
        return meta.get("progressToken")


@dataclass(slots=True, eq=False)
class _Question:
    """What a server behind asks the client of the modern era, until it is answered."""

    request: Row
    answer: asyncio.Future[Row]


@dataclass(slots=True, eq=False)
class _HeldCall:
    """A request of the modern era that goes on while the client answers a question."""

    identity: bytes
    """What is asked, which a continued call must repeat."""
    request: _Request
    """The newest request for it, to which progress belongs."""
    task: asyncio.Future[Row]
    given: Row = field(default_factory=dict[str, Any])
    """Answers that came with the request, before anything was asked."""
    questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    expiry: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class _Listener:
    """A stream of changes of the modern era."""

    wanted: Row
    subscription: RequestId
    stream: Stream | None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


_current: ContextVar[_Request | None] = ContextVar("plait_serve_request", default=None)


class ClientSession:
    """What one client has asked for, and the servers behind it."""

    def __init__(self, name: str, open_upstream: OpenUpstream, *, instructions: str = "") -> None:
        self.name = name
        self.peer = Peer(name, Redactor(()), lambda: None)
        self.peer.max_requests = MAX_REQUESTS
        self.peer.handler = self
        self.capabilities: Mapping[str, Any] = {}
        self.client_info: Mapping[str, Any] = {}
        self.version: str | None = None
        """The version of the handshake; `None` before it, and in the modern era."""
        self.opening: tuple[str, Row] | None = None
        """The method and params of the first request, if it says what the client can do."""
        self._instructions = instructions
        self._open_upstream = open_upstream
        self._upstream: Upstream | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._level: str | None = None
        self._held: dict[str, _HeldCall] = {}
        self._going_on: set[_HeldCall] = set()
        """The requests of the modern era that may ask something."""
        self._calls: set[_Request] = set()
        """The calls under way."""
        self._listeners: list[_Listener] = []
        self._announced: set[tuple[str, str]] = set()
        """What will be announced in a moment."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._methods: dict[str, Callable[[_Request], Awaitable[Row]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(_LISTS, self._list),
        }

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ClientSession]:
        """Keep the session, and what belongs to it, during the block."""
        try:
            async with self._stack:
                try:
                    yield self
                finally:
                    for held in self._held.values():
                        _drop(held)
                    self.end_listeners()
                    await self.peer.aclose()
        finally:
            for task in tuple(self._tasks):
                task.cancel()

    def end_listeners(self) -> None:
        """End the streams of changes of the modern era, each with its result."""
        for listener in self._listeners:
            listener.ended.set()

    async def upstream(self) -> Upstream:
        """Return the servers behind; they are connected when they are first needed."""
        async with self._opening:
            if self._upstream is None:
                made = self._open_upstream(self)
                self._upstream = await self._stack.enter_async_context(made.open())
        return self._upstream

    def program(self) -> str:
        """Return the name and version that the client has given."""
        words = (self.client_info.get("name"), self.client_info.get("version"))
        return " ".join(str(word)[:100] for word in words if word)

    # What arrives

    def notified(self, method: str, params: Row | None) -> None:
        """Take a notification of the client; cancelling is the peer's."""
        logger.debug("%s: %s %s", self.name, method, params)
        if method == "notifications/roots/list_changed" and self._upstream is not None:
            self._upstream.roots_changed()

    async def answer(self, request_id: RequestId, method: str, params: Row | None) -> Row:
        """Answer a request of the client, or raise `RequestError`."""
        fields = params or {}
        if not isinstance(fields.get("_meta"), dict | None):
            raise RequestError(types.INVALID_PARAMS, "Invalid params: _meta is an object")
        meta: Row = fields.get("_meta") or {}
        version = meta.get(types.PROTOCOL_VERSION_META_KEY)
        modern = self.version is None and (version is not None or method == "server/discover")
        if modern:
            self._check_modern(version, meta)
        handle = self._methods.get(method)
        if (
            handle is None
            or (modern and method in _HANDSHAKE_ONLY)
            or (not modern and method in _MODERN_ONLY)
        ):
            raise RequestError(types.METHOD_NOT_FOUND, "Method not found", method)
        level = meta.get(types.LOG_LEVEL_META_KEY)
        request = _Request(request_id, method, fields, modern, current_stream.get(), level)
        _current.set(request)
        keeps_on = modern and method in _ASKS
        says_abilities = self._upstream is None and (modern or method == "initialize")
        try:
            if keeps_on:
                return self._stamped(request, await self._answer_with_questions(request, handle))
            result = await handle(request)
        except PlaitError as error:
            raise RequestError(types.INTERNAL_ERROR, str(error)) from error
        except RequestError:
            raise
        except Exception as error:  # boundary: a client gets an answer, whatever is wrong here
            logger.exception("%s: %s failed", self.name, method)
            raise RequestError(types.INTERNAL_ERROR, "Internal error") from error
        finally:
            request.ended = not keeps_on
        if says_abilities and self.opening is None:
            self.opening = method, fields
        return self._stamped(request, result) if modern else _without_modern_fields(result)

    def _check_modern(self, version: object, meta: Row) -> None:
        known = types.version.MODERN_PROTOCOL_VERSIONS
        if version not in known:
            data = {"supported": list(known), "requested": version}
            raise RequestError(
                types.UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data
            )
        declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY)
        if not isinstance(declared, dict):
            text = f"_meta has no {types.CLIENT_CAPABILITIES_META_KEY}"
            raise RequestError(types.INVALID_PARAMS, text)
        if self._upstream is None:
            self.capabilities = declared  # pyright: ignore[reportUnknownMemberType]
            self.client_info = meta.get(types.CLIENT_INFO_META_KEY) or {}

    def _stamped(self, request: _Request, result: Row) -> Row:
        result = {"resultType": "complete", **result}
        if request.method in _CACHEABLE and result["resultType"] == "complete":
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        meta: Row = result.get("_meta") or {}
        return {**result, "_meta": {types.SERVER_INFO_META_KEY: server_info(), **meta}}

    # The requests of MCP

    async def _initialize(self, request: _Request) -> Row:
        asked = request.params.get("protocolVersion")
        known = types.version.HANDSHAKE_PROTOCOL_VERSIONS
        declared: object = request.params.get("capabilities") or {}
        if not isinstance(declared, dict):
            raise RequestError(types.INVALID_PARAMS, "Invalid params: capabilities are an object")
        self.version = (
            str(asked) if asked in tuple(known) else types.version.LATEST_HANDSHAKE_VERSION
        )
        self.capabilities = cast("Row", declared)
        self.client_info = request.params.get("clientInfo") or {}
        return {
            "protocolVersion": self.version,
            "capabilities": _CAPABILITIES,
            "serverInfo": server_info(),
            **await self._advice(),
        }

    async def _discover(self, request: _Request) -> Row:
        del request
        return {
            "supportedVersions": list(types.version.MODERN_PROTOCOL_VERSIONS),
            "capabilities": _CAPABILITIES,
            **await self._advice(),
        }

    async def _advice(self) -> Row:
        """Return what the servers say about their use, as far as it is known now."""
        upstream = await self.upstream()
        text = "\n\n".join(filter(None, (self._instructions, await upstream.instructions())))
        return {"instructions": text} if text else {}

    async def _ping(self, request: _Request) -> Row:
        del request
        return {}

    async def _list(self, request: _Request) -> Row:
        kind = _LISTS[request.method]
        return {kind: await (await self.upstream()).rows(kind)}

    async def _call_tool(self, request: _Request) -> Row:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise RequestError(types.INVALID_PARAMS, "Invalid params: a call needs a name")
        if not isinstance(arguments, dict | None):
            raise RequestError(types.INVALID_PARAMS, "Invalid params: arguments are an object")
        upstream = await self.upstream()
        # A call without callbacks takes the shortest way, and its result passes as it is.
        can_answer = bool(self.capabilities.keys() & {"elicitation", "sampling", "roots"})
        options = CallOptions(
            on_progress=self._progress_of(request),
            on_log=partial(self._log_of, request) if request.log_level is not None else None,
            ask=self._asker(request) if "elicitation" in self.capabilities else None,
            can_approve="form" in elicitation_modes(self.capabilities),
            ask_together=(
                partial(self._ask_together, request) if request.modern and can_answer else None
            ),
            meta=_own_meta(request),
        )
        given = cast("Row | None", arguments) or {}
        self._calls.add(request)
        try:
            return await upstream.call_tool(name, given, options)
        finally:
            self._calls.discard(request)

    async def _get_prompt(self, request: _Request) -> Row:
        return await (await self.upstream()).get_prompt(_passed_params(request))

    async def _read_resource(self, request: _Request) -> Row:
        _uri_in(request)
        return await (await self.upstream()).read_resource(_passed_params(request))

    async def _subscribe(self, request: _Request) -> Row:
        await (await self.upstream()).subscribe(_uri_in(request))
        return {}

    async def _unsubscribe(self, request: _Request) -> Row:
        (await self.upstream()).unsubscribe(_uri_in(request))
        return {}

    async def _complete(self, request: _Request) -> Row:
        return await (await self.upstream()).complete(_passed_params(request))

    async def _set_level(self, request: _Request) -> Row:
        level = request.params.get("level")
        if level not in LEVELS:
            raise RequestError(types.INVALID_PARAMS, f"Invalid params: no log level {level!r}")
        self._level = level
        await (await self.upstream()).set_log_level(level)
        return {}

    async def _listen(self, request: _Request) -> Row:
        """Announce changes until the client stops listening."""
        wanted: Row = request.params.get("notifications") or {}
        upstream = await self.upstream()
        listener = _Listener(wanted, request.id, request.stream)
        uris = [uri for uri in wanted.get("resourceSubscriptions") or () if isinstance(uri, str)]
        for uri in uris:
            await upstream.subscribe(uri)
        known = {field for _, field in _CHANGED.values()} | {"resourceSubscriptions"}
        honoured = {key: value for key, value in wanted.items() if key in known and value}
        await self._tell_listener(
            listener,
            "notifications/subscriptions/acknowledged",
            {"notifications": honoured},
        )
        self._listeners.append(listener)
        try:
            await listener.ended.wait()
        finally:
            self._listeners.remove(listener)
            others = {uri for one in self._listeners for uri in _uris_of(one)}
            for uri in uris:
                if uri not in others:
                    upstream.unsubscribe(uri)
        return {"_meta": {SUBSCRIPTION_ID: request.id}}

    # What is told

    def list_changed(self, kind: ListKind) -> None:
        """Announce that a list has changed, once for what changes together."""
        announcement = _CHANGED[kind]
        if announcement not in self._announced:
            self._announced.add(announcement)
            loop = asyncio.get_running_loop()
            loop.call_later(TOGETHER_SECONDS, self._announce, *announcement)

    def _announce(self, method: str, wanted: str) -> None:
        self._announced.discard((method, wanted))
        if self.version is not None:
            self._start(self._tell(method, None))
        for listener in self._listeners:
            if listener.wanted.get(wanted):
                self._start(self._tell_listener(listener, method, {}))

    def resource_updated(self, uri: str) -> None:
        """Announce that a resource has changed."""
        method = "notifications/resources/updated"
        if self.version is not None:
            self._start(self._tell(method, {"uri": uri}))
        for listener in self._listeners:
            if uri in _uris_of(listener):
                self._start(self._tell_listener(listener, method, {"uri": uri}))

    def log(self, params: Row) -> None:
        """Pass a log message on to a client of the handshake era."""
        if self.version is not None and self._is_wanted(params, self._level):
            # If one call is under way, it is that call's; over HTTP it has a stream of its own.
            stream = next(iter(self._calls)).stream if len(self._calls) == 1 else None
            self._start(self._tell("notifications/message", params, stream))

    def elicitation_complete(self, params: Row) -> None:
        """Announce that the person has done what a URL was for."""
        if self.version is not None:
            self._start(self._tell("notifications/elicitation/complete", params))

    def _is_wanted(self, params: Row, level: str | None) -> bool:
        lowest = LEVELS.index(level) if level in LEVELS else 0
        return params.get("level") in LEVELS[lowest:]

    def _log_of(self, request: _Request, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message of a call on to a client of the modern era, which asked for it."""
        newest = request.newest
        row: Row = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        if self._is_wanted(row, newest.log_level):
            self._start(self._tell("notifications/message", row, newest.stream))

    def _progress_of(self, request: _Request) -> OnProgress | None:
        if request.progress_token is None:
            return None

        async def report(done: float, total: float | None, text: str | None) -> None:
            newest = request.newest
            params: Row = {"progressToken": newest.progress_token, "progress": done}
            params |= {} if total is None else {"total": total}
            params |= {} if text is None else {"message": text}
            await self._tell("notifications/progress", params, newest.stream)

        return report

    async def _tell(self, method: str, params: Row | None, stream: Stream | None = None) -> None:
        message: Row = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        try:
            if stream is None:
                await self.peer.deliver(message)
            else:
                await stream.deliver(to_json(message, inf_nan_mode="null"))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("%s: %s was not sent: the client is gone", self.name, method)

    async def _tell_listener(self, listener: _Listener, method: str, params: Row) -> None:
        marked = {**params, "_meta": {SUBSCRIPTION_ID: listener.subscription}}
        await self._tell(method, marked, listener.stream)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What is asked

    @property
    def is_modern(self) -> bool:
        """Whether the client is of the modern era."""
        return self.version is None

    @property
    def ask(self) -> AskClient | None:
        """Sends a request to the client, in the course of the request in this context."""
        request = _current.get()
        if request is not None and not request.ended:
            return self._asker(request)
        if self.version is not None:
            return partial(self._ask_client, None)
        # Only one call can have caused it, or it is not known whose question it is.
        going_on = [held for held in self._going_on if not held.task.done()]
        return partial(_ask_by_result, going_on[0]) if len(going_on) == 1 else None

    def _asker(self, request: _Request) -> AskClient:
        if request.held is None:
            return partial(self._ask_client, request.stream)
        return partial(_ask_by_result, request.held)

    async def _ask_together(self, request: _Request, requests: dict[str, Row]) -> dict[str, Row]:
        """Ask several things at once, by the keys of the server that asks."""
        held = request.held
        if held is None:
            return {}
        asked = {key: _question(held, key, one) for key, one in requests.items()}
        return {key: await answer for key, answer in asked.items()}

    async def _ask_client(self, stream: Stream | None, method: str, params: Row) -> Row:
        """Send a request to a client of the handshake era, and return its result."""
        current_stream.set(stream)
        request_id = self.peer.next_request_id()
        request = PendingRequest(method, request_id, self.version or "")
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        await self.peer.exchange(request, to_json(message), timeout_seconds=ANSWER_SECONDS)
        result: Row = (request.message or {}).get("result") or {}
        return result

    async def _answer_with_questions(
        self, request: _Request, handle: Callable[[_Request], Awaitable[Row]]
    ) -> Row:
        """Return the result of a request, or what a server asks before there is one."""
        state = request.params.get("requestState")
        identity = _identity(request)
        if state is None:
            task = asyncio.ensure_future(handle(request))
            given = request.params.get("inputResponses")
            held = request.held = _HeldCall(identity, request, task, _answers_in(given))
            self._going_on.add(held)
            task.add_done_callback(lambda _: self._going_on.discard(held))
            task.add_done_callback(lambda _: setattr(request, "ended", True))
        else:
            found = self._held.pop(str(state), None)
            if found is None or not hmac.compare_digest(found.identity, identity):
                if found is not None:
                    self._held[str(state)] = found
                text = "the requestState is unknown, has expired, or is of another request"
                raise RequestError(types.INVALID_PARAMS, text)
            held, held.request = found, request
            if held.expiry is not None:
                held.expiry.cancel()
            answers = _answers_in(request.params.get("inputResponses"))
            for key in held.questions.keys() & answers.keys():
                question = held.questions.pop(key)
                if not question.answer.done():
                    question.answer.set_result(answers[key])
            if not held.questions:
                held.asked.clear()
        asked = asyncio.ensure_future(held.asked.wait())
        try:
            await asyncio.wait({held.task, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _drop(held)
            raise
        finally:
            asked.cancel()
        if held.task.done():
            return held.task.result()
        return self._hold(held)

    def _hold(self, held: _HeldCall) -> Row:
        """Keep a call until the client makes it again with its answers."""
        if len(self._held) >= MAX_HELD_CALLS:
            oldest = next(iter(self._held))
            _drop(self._held.pop(oldest))
        state = secrets.token_urlsafe(24)
        self._held[state] = held

        def expire() -> None:
            if self._held.pop(state, None) is not None:
                _drop(held)

        held.expiry = asyncio.get_running_loop().call_later(ANSWER_SECONDS, expire)
        requests = {key: question.request for key, question in held.questions.items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


_HANDSHAKE_ONLY: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
_MODERN_ONLY: Final = frozenset({"server/discover", "subscriptions/listen"})
_MODERN_FIELDS: Final = ("resultType", "ttlMs", "cacheScope")


def server_info() -> Row:
    """Return the name and version of this server."""
    return {"name": "plait", "version": __version__}


def _without_modern_fields(result: Row) -> Row:
    return {key: value for key, value in result.items() if key not in _MODERN_FIELDS}


def _without_retry(params: Row) -> Row:
    return {key: params[key] for key in params.keys() - {"requestState", "inputResponses"}}


def _passed_params(request: _Request) -> Row:
    """Return the params as the server behind gets them."""
    params = _without_retry(request.params)
    params.pop("_meta", None)
    own = _own_meta(request)
    return params if own is None else {**params, "_meta": own}


def _uri_in(request: _Request) -> str:
    uri = request.params.get("uri")
    if not isinstance(uri, str):
        raise RequestError(types.INVALID_PARAMS, "Invalid params: uri")
    return uri


def _uris_of(listener: _Listener) -> list[str]:
    return list(listener.wanted.get("resourceSubscriptions") or ())


def _identity(request: _Request) -> bytes:
    params = _without_retry(request.params)
    params.pop("_meta", None)
    return json.dumps([request.method, params], sort_keys=True).encode()


def _drop(held: _HeldCall) -> None:
    if held.expiry is not None:
        held.expiry.cancel()
    held.task.cancel()


async def _ask_by_result(held: _HeldCall, method: str, params: Row) -> Row:
    """Ask a client of the modern era, by the result of its request."""
    request: Row = {"method": method}
    if params:
        request["params"] = params
    return await _question(held, f"q{secrets.token_hex(4)}", request)


def _question(held: _HeldCall, key: str, request: Row) -> asyncio.Future[Row]:
    answer: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
    if key in held.given:
        answer.set_result(held.given.pop(key))
    else:
        held.questions[key] = _Question(request, answer)
        held.asked.set()
    return answer


def _answers_in(given: object) -> dict[str, Row]:
    """Return the answers of a client that are objects; others are asked for again."""
    found = cast("Row", given) if isinstance(given, dict) else {}
    return {key: answer for key, answer in found.items() if isinstance(answer, dict)}


def _own_meta(request: _Request) -> Row | None:
    """Return the fields of `_meta` that are not about the exchange with this server."""
    meta: Row = request.params.get("_meta") or {}
    own = {key: value for key, value in meta.items() if key not in _HOP_META}
    return own or None


_HOP_META: Final = frozenset(
    {
        "progressToken",
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        types.LOG_LEVEL_META_KEY,
    }
)
"""The fields of `_meta` that each of the two exchanges has for itself."""
