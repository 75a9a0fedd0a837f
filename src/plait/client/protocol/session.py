"""A session with a server, after the handshake: one typed method for each request of MCP."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, TypeAdapter
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
from plait.client.protocol.inbound import METHODS, Callbacks, Inbound, RequestContext
from plait.client.protocol.peer import HANDSHAKES, Peer, RequestError
from plait.client.protocol.repair import check_result, is_unfinished
from plait.client.protocol.results import (
    HANDSHAKE_VERSION,
    in_era,
    read_aside,
    result_in_era,
    result_of,
    typed_result,
)
from plait.client.protocol.subscriptions import Subscription, opened_subscription
from plait.client.protocol.tool_rows import current_rows, parse_list
from plait.telemetry.spans import describe_request, is_traced, trace_context

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

ResultT = TypeVar("ResultT", bound="BaseModel")

MAX_INPUT_ROUNDS = 10
"""How often a server may request input before it gives a prompt or a resource."""


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
        self.inbound = Inbound(self, callbacks)
        peer.handler = self.inbound

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
        for _ in range(MAX_INPUT_ROUNDS):
            ended = await self.request(method, params)
            await import_in_thread(METHODS)
            result = await read_aside(ended, typed_result)
            self.peer.note_repairs(ended)
            if not isinstance(result, types.InputRequiredResult):
                return result
            params = {**(params or {}), **await self._answers_to(result)}
        raise RequestError(
            types.INTERNAL_ERROR, f"the server requested input more than {MAX_INPUT_ROUNDS} times"
        )

    async def raw_result(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the result of a request as the server sent it, repaired where needed."""
        for _ in range(MAX_INPUT_ROUNDS):
            ended = await self.request(method, params)
            result = await read_aside(ended, result_in_era)
            self.peer.note_repairs(ended)
            if not is_unfinished(result, ended.version):
                return result
            asked = types.InputRequiredResult.model_validate(result, by_name=False)
            params = {**(params or {}), **await self._answers_to(asked)}
        raise RequestError(
            types.INTERNAL_ERROR, f"the server requested input more than {MAX_INPUT_ROUNDS} times"
        )

    async def _answers_to(self, asked: types.InputRequiredResult) -> dict[str, Any]:
        """Answer what the server asks before it gives a result; return the fields to send."""
        fields: dict[str, Any] = {}
        if asked.request_state is not None:
            fields["requestState"] = asked.request_state
        answers: dict[str, Any] = {}
        for key, request in (asked.input_requests or {}).items():
            meta = request.params.meta if request.params else None
            context = RequestContext(session=self, request_id=key, meta=meta)
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
        return await self.inbound.called_back(context, request)

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

    def listen(self, **wanted: Any) -> AbstractAsyncContextManager[Subscription]:
        """Open a stream of changes of a modern server; `wanted` has the fields of its filter."""
        # The specification names what is wanted, and nothing else.
        fields = {name: value for name, value in wanted.items() if value}
        return opened_subscription(self, types.SubscriptionFilter(**fields))


def _page(cursor: str | None) -> dict[str, Any]:
    return {} if cursor is None else {"cursor": cursor}
