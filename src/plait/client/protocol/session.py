"""A session with a server, after the handshake: one typed method for each request of MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait._support.threads import import_in_thread
from plait.client.protocol.exchange import OnProgress, PendingRequest, RequestTemplate
from plait.client.protocol.headers import (
    VERSION_HEADER,
    Path,
    argument_headers,
    mirrored_arguments,
    routing_headers,
)
from plait.client.protocol.passing import params_in, sent_request
from plait.client.protocol.peer import HANDSHAKES, Peer, RequestError
from plait.client.protocol.read_results import (
    HANDSHAKE_VERSION,
    in_era,
    read_aside,
    result_in_era,
    result_of,
    typed_result,
)
from plait.client.protocol.reading import RequestId, coerced_id
from plait.client.protocol.repair import check_result, is_unfinished
from plait.client.protocol.tool_rows import current_rows, parse_list
from plait.telemetry.spans import describe_request, is_traced, trace_context

ResultT = TypeVar("ResultT", bound="BaseModel")

MAX_INPUT_ROUNDS = 10
"""How often a server may request input before it gives a prompt or a resource."""


_numbers = count(1)
MAX_PENDING_EVENTS = 1024
"""Events that wait to be read; a stream with more is lost."""
_LISTS = {
    "notifications/tools/list_changed": "tools_list_changed",
    "notifications/prompts/list_changed": "prompts_list_changed",
    "notifications/resources/list_changed": "resources_list_changed",
}


class SubscriptionLostError(Exception):
    """The stream ended, and the server did not end it in good order."""


class Subscription:
    """A stream of changes: an iterator over URIs, and methods of changed lists."""

    def __init__(self) -> None:
        self.honored = types.SubscriptionFilter()
        """What the server has agreed to announce; nothing before that."""
        self._has_begun = False
        self.end: Literal["graceful", "lost"] | None = None
        self._error: RequestError | None = None
        self._pending: dict[str, None] = {}
        self._changed = asyncio.Event()

    def acknowledge(self, honored: object) -> bool:
        """Note which changes the server announces; return whether that can be read."""
        try:
            agreed = types.SubscriptionFilter.model_validate(honored)
        except ValidationError:
            return False
        if not self._has_begun:
            self.honored, self._has_begun = agreed, True
            self._changed.set()
        return True

    def deliver(self, method: str, params: dict[str, Any]) -> None:
        """Add a change that the server has announced, once while it waits to be read."""
        if self.end is not None:
            return
        event = method
        if (kind := _LISTS.get(method)) is not None:
            if getattr(self.honored, kind) is not True:
                return
        elif method == "notifications/resources/updated" and self.honored.resource_subscriptions:
            uri = params.get("uri")
            if not isinstance(uri, str):
                return
            event = uri
        else:
            return
        if len(self._pending) >= MAX_PENDING_EVENTS:
            text = f"more than {MAX_PENDING_EVENTS} changes wait to be read"
            self.settle("lost", RequestError(types.INTERNAL_ERROR, text))
            return
        self._pending[event] = None
        self._changed.set()

    def settle(self, end: Literal["graceful", "lost"], error: RequestError | None = None) -> None:
        """Note that the server has ended the stream in good order, or that it has broken."""
        if self.end is None:
            self.end, self._error = end, error
            self._has_begun = self._has_begun or end == "graceful"
            self._changed.set()

    async def agreed(self) -> None:
        """Wait until the server has subscribed, or raise why it does not."""
        while not self._has_begun:
            if self.end is not None:
                raise self._error or SubscriptionLostError("it ended before it was acknowledged")
            self._changed.clear()
            await self._changed.wait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._pending:
            if self.end == "lost":
                raise SubscriptionLostError("the stream of changes was lost") from self._error
            if self.end is not None:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event = next(iter(self._pending))
        del self._pending[event]
        return event


logger = logging.getLogger("plait.client.protocol")

METHODS = "mcp_types.methods"
"""The module with all types of both eras, whose import would hold up the event loop."""
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
"""The key of `_meta` that names the subscription of a notification."""
_NOTIFICATIONS = {
    "notifications/elicitation/complete": "ElicitCompleteNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
}
"""The types of what callbacks get. They get it at once, while the call that caused it is open."""
_RAW = frozenset({"notifications/roots/list_changed", "notifications/tools/list_changed"})
"""Notifications that are passed on as they are, before they are validated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """What a callback learns about the request of the server that it answers."""

    session: McpSession
    request_id: RequestId
    meta: Any = None


if TYPE_CHECKING:
    # The context is a `RequestContext`, or what a session of the MCP SDK has in its place.

    OnElicitation = Callable[
        [Any, types.ElicitRequestParams], Coroutine[Any, Any, types.ElicitResult | types.ErrorData]
    ]
    """A callback for requests for input from the user; returns the answer of the user."""

    OnSampling = Callable[
        [Any, types.CreateMessageRequestParams],
        Coroutine[
            Any,
            Any,
            types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData,
        ],
    ]
    """A callback for requests to a model; returns the answer of the model."""

    OnRoots = Callable[[Any], Coroutine[Any, Any, types.ListRootsResult | types.ErrorData]]
    """A callback for requests for the roots."""

    OnLog = Callable[[types.LoggingMessageNotificationParams], Coroutine[Any, Any, None]]
    """A callback for log messages."""

    IncomingMessage = types.ServerNotification | Exception
    """A notification, or what a session of the MCP SDK could not read."""

    OnMessage = Callable[[IncomingMessage], Coroutine[Any, Any, None]]
    """A callback for all notifications."""


@dataclass(slots=True, kw_only=True)
class Callbacks:
    """What a session declares itself to be, and who handles what its server sends."""

    client_info: dict[str, Any]
    on_elicitation: OnElicitation | None = None
    elicitation_modes: frozenset[str] = frozenset({"form", "url"})
    on_sampling: OnSampling | None = None
    sampling: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the client can do in sampling, beside text."""
    on_roots: OnRoots | None = None
    on_log: OnLog | None = None
    on_message: OnMessage | None = None
    """Gets every notification."""
    on_raw: Callable[[str, object], None] | None = None
    """Gets method and params of some notifications at once, in the order of arrival."""
    log_level: str | None = None
    timeout_seconds: float | None = None
    """How long a request waits that has no limit of its own."""
    extensions: Mapping[str, Any] | None = None

    def capabilities(self) -> dict[str, Any]:
        """Return what the client declares itself capable of."""
        declared: dict[str, Any] = {}
        if self.on_sampling is not None:
            declared["sampling"] = self.sampling
        if self.on_elicitation is not None:
            declared["elicitation"] = {mode: {} for mode in sorted(self.elicitation_modes)}
        if self.on_roots is not None:
            declared["roots"] = {"listChanged": True}
        if self.extensions:
            declared["extensions"] = dict(self.extensions)
        return declared


@cache
def _responses() -> TypeAdapter[Any]:
    return TypeAdapter(types.ClientResult | types.ErrorData)


class McpSession:
    """What the server declared, and the requests that it understands."""

    def __init__(self, peer: Peer, callbacks: Callbacks) -> None:
        self.peer = peer
        self.callbacks = callbacks
        self.protocol_version = ""
        self.identity: Mapping[str, Any] | None = None
        """Name and version as the server sent them; optional for modern servers."""
        self.capabilities: Mapping[str, Any] = {}
        """What the server declared itself capable of, as it sent it."""
        self.instructions: str | None = None
        self.has_listed = False
        """Whether its tools were listed, so that it is known which arguments become headers."""
        self._mirrored: dict[str, dict[Path, str]] = {}
        """The arguments of listed tools that are sent as HTTP headers too."""
        self.routes: dict[RequestId, Subscription] = {}
        """The open subscriptions, by the ids of their requests."""
        peer.handler = self

    @property
    def session(self) -> McpSession:
        """The session itself, by the name that the SDK's client has for its own."""
        return self

    @property
    def is_modern(self) -> bool:
        """Whether the session is of the modern era: no handshake and no state."""
        return self.protocol_version in types.version.MODERN_PROTOCOL_VERSIONS

    @property
    def server_info(self) -> types.Implementation | None:
        """Name and version of the server; optional for modern servers."""
        if self.identity is None:
            return None
        return types.Implementation.model_validate(self.identity, by_name=False)

    @property
    def server_capabilities(self) -> types.ServerCapabilities:
        """What the server declared itself capable of."""
        return types.ServerCapabilities.model_validate(self.capabilities, by_name=False)

    def begin(self, result: Mapping[str, Any], version: str) -> None:
        """Adopt what the server has declared in the handshake, which is valid."""
        self.protocol_version = version
        self.capabilities = result["capabilities"]
        self.instructions = result.get("instructions")
        if self.is_modern:
            template = RequestTemplate(version, self.meta_for(version), version)
        else:
            template = RequestTemplate(HANDSHAKE_VERSION, {}, version)
        self.peer.template = template

    def meta_for(self, version: str) -> dict[str, Any]:
        """Return what every request of the modern era says about this client."""
        meta: dict[str, Any] = {
            types.PROTOCOL_VERSION_META_KEY: version,
            types.CLIENT_INFO_META_KEY: self.callbacks.client_info,
            types.CLIENT_CAPABILITIES_META_KEY: self.callbacks.capabilities(),
        }
        if self.callbacks.log_level is not None:
            meta[types.LOG_LEVEL_META_KEY] = self.callbacks.log_level
        return meta

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
        version: str | None = None,
    ) -> PendingRequest:
        """Send a request and wait for its response, or raise `RequestError`."""
        template = self.peer.template
        request = PendingRequest(
            method,
            request_id or self.peer.next_request_id(),
            version or (HANDSHAKE_VERSION if template is None else template.version),
        )
        if method == "tools/list" and (rows := current_rows()) is not None:
            request.wants_body, request.parse = True, partial(parse_list, most=rows.most)
        fields = dict(params or {})
        meta: dict[str, Any] = dict(template.meta) if template is not None else {}
        meta |= fields.get("_meta") or {}
        # What HTTP transports send along; the handshake era agrees on a version first.
        headers: dict[str, str] = {}
        sent_as = version if template is None else template.protocol_header
        if sent_as is not None and method != "initialize":
            headers[VERSION_HEADER] = sent_as
            if sent_as in types.version.MODERN_PROTOCOL_VERSIONS:
                headers |= routing_headers(method, fields)
                if method == "tools/call" and (mirrored := self._mirrored.get(fields["name"])):
                    headers |= argument_headers(mirrored, fields.get("arguments") or {})
        if on_progress is not None:
            request.on_progress = on_progress
            meta["progressToken"] = request.request_id
        if is_traced():
            describe_request({"jsonrpc.request.id": str(request.request_id)})
            context = trace_context()
            meta, headers = {**meta, **context}, {**context, **headers}
        if meta:
            fields["_meta"] = meta
        request.headers = headers
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request.request_id, "method": method}
        if fields:
            message["params"] = fields
        await self.peer.exchange(
            request,
            to_json(message, inf_nan_mode="null"),
            timeout_seconds=(
                self.callbacks.timeout_seconds if timeout_seconds is None else timeout_seconds
            ),
            cancel=method not in HANDSHAKES,
        )
        return request

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        await self.peer.deliver(message)

    async def send_request(
        self,
        request: types.Request[Any, Any],
        result_type: type[ResultT] | TypeAdapter[ResultT],
        *,
        progress_callback: OnProgress | None = None,
        request_read_timeout_seconds: float | None = None,
    ) -> ResultT:
        """Send a typed request, and return its result as a type of one's own."""
        data: dict[str, Any] = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        ended = await self.request(
            data["method"],
            data.get("params"),
            on_progress=progress_callback,
            timeout_seconds=request_read_timeout_seconds,
        )

        def read(ended: PendingRequest) -> ResultT:
            raw = result_of(ended)
            if is_unfinished(raw, ended.version):
                check_result(ended.method, ended.version, raw)
            raw = in_era(ended, raw)
            if isinstance(result_type, TypeAdapter):
                return result_type.validate_python(raw, by_name=False)
            return result_type.model_validate(raw, by_name=False)

        result = await read_aside(ended, read)
        self.peer.note_repairs(ended)
        return result

    async def _result(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the typed result of a request, read in a thread if it is large."""
        await import_in_thread(METHODS)
        return await self.raw_result(method, params, typed_result)

    async def raw_result(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        read: Callable[[PendingRequest], Any] = result_in_era,
    ) -> Any:
        """Return the result of a request as the server sent it, repaired where needed.

        What the server asks before is answered. `read` may read the result in another way.
        """
        for _ in range(MAX_INPUT_ROUNDS):
            ended = await self.request(method, params)
            result: Any = await read_aside(ended, read)
            self.peer.note_repairs(ended)
            asked: Any = result
            if read is result_in_era and is_unfinished(result, ended.version):
                asked = types.InputRequiredResult.model_validate(result, by_name=False)
            if not isinstance(asked, types.InputRequiredResult):
                return result
            sent: object = result.get("inputRequests") if read is result_in_era else None
            params = {**(params or {}), **await self._answers_to(asked, sent)}
        text = f"the server requested input more than {MAX_INPUT_ROUNDS} times"
        raise RequestError(types.INTERNAL_ERROR, text)

    async def _answers_to(self, asked: types.InputRequiredResult, sent: object) -> dict[str, Any]:
        """Answer what the server asks before it gives a result; return the fields to send.

        `sent` are the requests as the server sent them, where they are known.
        """
        fields: dict[str, Any] = {}
        if asked.request_state is not None:
            fields["requestState"] = asked.request_state
        answers: dict[str, Any] = {}
        for key, request in (asked.input_requests or {}).items():
            meta = request.params.meta if request.params else None
            context = RequestContext(session=self, request_id=key, meta=meta)
            sent_request.set(params_in(sent, key))
            answer = await self.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise RequestError(answer.code, answer.message, answer.data)
            answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        if answers:
            fields["inputResponses"] = answers
        return fields

    async def dispatch_input_request(
        self, context: RequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        """Answer a request of the server by the callback for its kind."""
        return await self.called_back(context, request)

    # What the server sends

    def notified(self, method: str, params: dict[str, Any] | None) -> None:
        """Pass a notification on, in the order of arrival."""
        callbacks, fields = self.callbacks, params or {}
        if method == "notifications/cancelled":
            cancelled = coerced_id(fields.get("requestId"))
            route = None if cancelled is None else self.routes.get(cancelled)
            if route is not None:
                route.settle("lost")  # a server ends a stream of changes that way
            elif callbacks.on_raw is not None:
                callbacks.on_raw(method, params)
            return
        meta: object = fields.get("_meta")
        if self.routes and isinstance(meta, dict):
            named = coerced_id(cast("dict[str, Any]", meta).get(SUBSCRIPTION_ID))
            if (route := self.routes.get(named or "")) is not None:
                if method != _ACKNOWLEDGED:
                    route.deliver(method, fields)
                elif route.acknowledge(fields.get("notifications")):
                    return
        if callbacks.on_raw is not None and method in _RAW:
            callbacks.on_raw(method, params)
        wants_log = callbacks.on_log is not None and method == "notifications/message"
        if method != "notifications/progress" and (wants_log or callbacks.on_message is not None):
            self.peer.start(self._tell(method, params))

    async def _tell(self, method: str, params: dict[str, Any] | None) -> None:
        kind = _NOTIFICATIONS.get(method)
        if kind is None:
            logger.debug("%s: %r is not in the protocol", self.peer.server, method)
            return
        body = {"method": method} if params is None else {"method": method, "params": params}
        try:
            notification: types.ServerNotification = getattr(types, kind).model_validate(
                body, by_name=False
            )
        except ValidationError:
            self.peer.note_noise(method.encode())
            return
        try:
            on_log, on_message = self.callbacks.on_log, self.callbacks.on_message
            if on_log is not None and isinstance(notification, types.LoggingMessageNotification):
                await on_log(notification.params)
            if on_message is not None:
                await on_message(notification)
        except Exception:  # boundary: callbacks of the user may raise anything
            server = self.peer.server
            logger.exception("%s: the callback for %s failed", server, method)

    async def answer(
        self, request_id: RequestId, method: str, params: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Answer a request by its callback, or raise `RequestError`."""
        if method == "ping" and not self.is_modern:
            return {}
        await import_in_thread(METHODS)
        from mcp_types import methods  # noqa: PLC0415  # all types of both eras

        version = self.protocol_version or HANDSHAKE_VERSION
        try:
            parsed = methods.parse_server_request(method, version, params)
            request = cast("types.InputRequest", parsed)
        except KeyError:
            raise RequestError(types.METHOD_NOT_FOUND, "Method not found", method) from None
        except ValidationError:
            raise RequestError(types.INVALID_PARAMS, "Invalid request parameters", "") from None
        meta = request.params.meta if request.params else None
        context = RequestContext(session=self, request_id=request_id, meta=meta)
        sent_request.set(params)
        answer = await self.called_back(context, request)
        if isinstance(answer, types.ErrorData):
            raise RequestError(answer.code, answer.message, answer.data)
        dumped = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            methods.validate_client_result(method, version, dumped)
        except ValidationError:
            text = "Client callback returned an invalid result"
            logger.exception("%s: %s: %s", self.peer.server, method, text)
            raise RequestError(types.INTERNAL_ERROR, text) from None
        return dumped

    async def called_back(
        self, context: RequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        """Answer a request of the server by the callback for its kind."""
        callbacks, answer = self.callbacks, None
        if isinstance(request, types.CreateMessageRequest):
            if callbacks.on_sampling is not None:
                answer = await callbacks.on_sampling(context, request.params)
            kind = "Sampling"
        elif isinstance(request, types.ElicitRequest):
            if callbacks.on_elicitation is not None:
                answer = await callbacks.on_elicitation(context, request.params)
            kind = "Elicitation"
        else:
            if callbacks.on_roots is not None:
                answer = await callbacks.on_roots(context)
            kind = "List roots"
        if answer is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message=f"{kind} not supported")
        # Callbacks may return types of SDK 1.x.
        plain: Any = answer
        if isinstance(plain, BaseModel) and not type(plain).__module__.startswith("mcp_types"):
            plain = plain.model_dump(by_alias=True, mode="json", exclude_none=True)
        return _responses().validate_python(plain)

    # The requests of MCP

    async def list_tools(self, *, cursor: str | None = None) -> types.ListToolsResult:
        """List one page of the tools."""
        page = await self.tool_page(cursor)
        return types.ListToolsResult.model_validate(page, by_name=False)

    async def tool_page(self, cursor: str | None = None) -> dict[str, Any]:
        """Return one page of the tools as valid JSON, without those that are collected as rows."""
        ended = await self.request("tools/list", _page(cursor))
        page = await read_aside(ended, result_in_era)
        self.peer.note_repairs(ended)
        if ended.wants_body and (rows := current_rows()) is not None:
            body, ended.body, ended.message = ended.body, None, None  # they are large
            page = rows.take(page, body, mirror=ended.may_mirror)
        self.has_listed = True
        if self.is_modern and ended.may_mirror:
            for tool in page["tools"]:
                self._mirrored[tool["name"]] = mirrored_arguments(tool["inputSchema"])
        return page

    async def list_prompts(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        """List one page of the prompts."""
        return await self._result("prompts/list", _page(cursor))

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """List one page of the resources."""
        return await self._result("resources/list", _page(cursor))

    async def list_resource_templates(
        self, *, cursor: str | None = None
    ) -> types.ListResourceTemplatesResult:
        """List one page of the resource templates."""
        return await self._result("resources/templates/list", _page(cursor))

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._result("resources/read", {"uri": uri})

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        return await self._result("prompts/get", params)

    async def complete(
        self,
        ref: types.ResourceTemplateReference | types.PromptReference,
        argument: Mapping[str, str],
        context_arguments: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Return completions of an argument."""
        dumped = ref.model_dump(by_alias=True, mode="json", exclude_none=True)
        params: dict[str, Any] = {"ref": dumped, "argument": dict(argument)}
        if context_arguments is not None:
            params["context"] = {"arguments": dict(context_arguments)}
        return await self._result("completion/complete", params)

    async def send_ping(self) -> types.EmptyResult:
        """Ask a server of the handshake era whether it is there."""
        return await self._result("ping")

    async def send_discover(self, version: str) -> dict[str, Any]:
        """Ask a modern server what it is, which is the cheapest request that it has."""
        params = {"_meta": self.meta_for(version)}
        return result_of(await self.request("server/discover", params, version=version))

    async def set_logging_level(self, level: types.LoggingLevel) -> None:
        """Set the log level of a server of the handshake era."""
        await self._result("logging/setLevel", {"level": level})

    async def subscribe_resource(self, uri: str) -> None:
        """Subscribe to a resource of a server of the handshake era."""
        await self._result("resources/subscribe", {"uri": uri})

    async def unsubscribe_resource(self, uri: str) -> None:
        """End a subscription to a resource."""
        await self._result("resources/unsubscribe", {"uri": uri})

    async def send_roots_list_changed(self) -> None:
        """Announce that the roots have changed."""
        await self.notify("notifications/roots/list_changed")

    @asynccontextmanager
    async def listen(self, **wanted: Any) -> AsyncGenerator[Subscription]:
        """Open a stream of changes of a modern server; the block begins when it has agreed.

        `wanted` has the fields of its filter. The specification names what is wanted, and nothing
        else.
        """
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
        known = types.SubscriptionFilter(**{name: one for name, one in wanted.items() if one})
        fields = known.model_dump(by_alias=True, mode="json", exclude_none=True)
        request_id = f"listen-{next(_numbers)}"
        stream = self.routes[request_id] = Subscription()

        async def stay() -> None:
            try:
                await self.request(
                    "subscriptions/listen", {"notifications": fields}, request_id=request_id
                )
            except RequestError as error:
                stream.settle("lost", error)
            else:
                stream.settle("graceful")  # the response comes when the server ends the stream

        self.peer.streams += 1
        staying = self.peer.start(stay())
        try:
            await stream.agreed()
            yield stream
        finally:
            staying.cancel()
            self.peer.streams -= 1
            del self.routes[request_id]


def _page(cursor: str | None) -> dict[str, Any]:
    return {} if cursor is None else {"cursor": cursor}
