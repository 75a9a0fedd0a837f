"""Answers the requests of a server by callbacks, and passes its notifications on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from plait._support import mcp_types as types
from plait._support.threads import import_in_thread
from plait.client.protocol.peer import RequestError
from plait.client.protocol.reading import RequestId, coerced_id
from plait.client.protocol.results import HANDSHAKE_VERSION

if TYPE_CHECKING:
    from plait.client.protocol.session import McpSession
    from plait.client.protocol.subscriptions import Subscription

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


class Inbound:
    """Handles what the server of one session sends."""

    def __init__(self, session: McpSession, callbacks: Callbacks) -> None:
        self._session = session
        self._callbacks = callbacks
        self.routes: dict[RequestId, Subscription] = {}
        """The open subscriptions, by the ids of their requests."""

    def notified(self, method: str, params: dict[str, Any] | None) -> None:
        """Pass a notification on, in the order of arrival."""
        callbacks, fields = self._callbacks, params or {}
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
            self._session.peer.start(self._tell(method, params))

    async def _tell(self, method: str, params: dict[str, Any] | None) -> None:
        kind = _NOTIFICATIONS.get(method)
        if kind is None:
            logger.debug("%s: %r is not in the protocol", self._session.peer.server, method)
            return
        body = {"method": method} if params is None else {"method": method, "params": params}
        try:
            notification: types.ServerNotification = getattr(types, kind).model_validate(
                body, by_name=False
            )
        except ValidationError:
            self._session.peer.note_noise(method.encode())
            return
        try:
            on_log, on_message = self._callbacks.on_log, self._callbacks.on_message
            if on_log is not None and isinstance(notification, types.LoggingMessageNotification):
                await on_log(notification.params)
            if on_message is not None:
                await on_message(notification)
        except Exception:  # boundary: callbacks of the user may raise anything
            server = self._session.peer.server
            logger.exception("%s: the callback for %s failed", server, method)

    async def answer(
        self, request_id: RequestId, method: str, params: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Answer a request by its callback, or raise `RequestError`."""
        if method == "ping" and not self._session.is_modern:
            return {}
        await import_in_thread(METHODS)
        from mcp_types import methods  # noqa: PLC0415  # all types of both eras

        version = self._session.protocol_version or HANDSHAKE_VERSION
        try:
            parsed = methods.parse_server_request(method, version, params)
            request = cast("types.InputRequest", parsed)
        except KeyError:
            raise RequestError(types.METHOD_NOT_FOUND, "Method not found", method) from None
        except ValidationError:
            raise RequestError(types.INVALID_PARAMS, "Invalid request parameters", "") from None
        meta = request.params.meta if request.params else None
        context = RequestContext(session=self._session, request_id=request_id, meta=meta)
        answer = await self.called_back(context, request)
        if isinstance(answer, types.ErrorData):
            raise RequestError(answer.code, answer.message, answer.data)
        dumped = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            methods.validate_client_result(method, version, dumped)
        except ValidationError:
            text = "Client callback returned an invalid result"
            logger.exception("%s: %s: %s", self._session.peer.server, method, text)
            raise RequestError(types.INTERNAL_ERROR, text) from None
        return dumped

    async def called_back(
        self, context: RequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        """Answer a request of the server by the callback for its kind."""
        callbacks, answer = self._callbacks, None
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
