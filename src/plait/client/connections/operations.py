"""The requests of a client, each as a function of an open SDK client."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakSet

from pydantic import TypeAdapter, ValidationError

from plait._support import mcp_types as types
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.connections.error_mapping import lacks_back_channel
from plait.client.protocol.exchange import PendingRequest, collect, received_bytes
from plait.client.protocol.inbound import RequestContext
from plait.client.protocol.peer import RequestError
from plait.client.protocol.requests import (
    is_request_error,
    large_result,
    read_aside,
    read_parts,
    result_of,
)
from plait.client.protocol.session import MODERN_FIELDS, McpSession
from plait.client.protocol.subscriptions import SubscriptionLostError
from plait.client.protocol.tool_rows import RawRow, Row, collected_rows
from plait.errors import InputNeededError, InputRefusedError, ProtocolError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import ClientSession
    from mcp.shared.dispatcher import ProgressFnT

logger = logging.getLogger("plait.client.connections")

PageT = TypeVar("PageT", bound="types.PaginatedResult")
T = TypeVar("T")

AnyClient: TypeAlias = "McpSession | Client"
"""An open session: of our own, or of the SDK where a transport needs that."""

AnySession: TypeAlias = "McpSession | ClientSession"

_CallResult: TypeAlias = "types.CallToolResult | types.InputRequiredResult"


@cache
def _call_result() -> TypeAdapter[_CallResult]:
    return TypeAdapter(_CallResult)


_MOST_PAGES = 1000
_MOST_ITEMS = 100_000
_LONGEST_CURSOR = 16_384
"""Characters of a cursor: all of a list are kept while it is fetched."""
_MOST_LIST_BYTES = 32_000_000
"""As much as one message."""
_MOST_ROUNDS = 10
"""How often a server may request input during one call."""
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.25


def is_modern(client: AnyClient) -> bool:
    """Return whether the session is of the modern era: no handshake and no state."""
    return client.protocol_version in types.version.MODERN_PROTOCOL_VERSIONS


_listed: WeakSet[AnySession] = WeakSet()
"""Sessions that have listed tools, so that the SDK knows which arguments to mirror in headers."""


@dataclass(frozen=True, slots=True)
class InputAnswers:
    """Answers to the input requests of an earlier round of a call."""

    responses: types.InputResponses
    request_state: str | None = None


async def call_tool(
    client: AnyClient,
    name: str,
    arguments: Mapping[str, Any],
    *,
    mirrored: bool = False,
    on_progress: ProgressFnT | None = None,
    meta: types.RequestParamsMeta | None = None,
    answers: InputAnswers | None = None,
    hand_back: bool = False,
    first: PendingRequest | None = None,
) -> types.CallToolResult:
    """Call a tool, answering the server's input requests on the way.

    Not the SDK's own `call_tool`: that one raises after the fact when a result does not match its
    output schema, and lists all tools after the first call of an unknown one.

    `mirrored` means that some arguments must also be sent as HTTP headers (`x-mcp-header`);
    `answers` are those to the input requests of an earlier call; `first` is already made. With
    `hand_back`, a request for input from the user raises `InputNeededError`.
    """
    if mirrored and is_modern(client) and client.session not in _listed:
        await list_tools(client)
    params = types.CallToolRequestParams(
        name=name,
        arguments=dict(arguments),
        input_responses=answers and answers.responses,
        request_state=answers and answers.request_state,
        _meta=meta,
    )
    relisted, rounds, pause = False, 0, _FIRST_PAUSE_SECONDS
    while True:
        try:
            made, first = first, None
            result = await _result_of(made) if made else await _send(client, params, on_progress)
        except Exception as error:
            if not is_request_error(error):
                raise
            if rounds < _MOST_ROUNDS and await _visited_urls(client, error):
                rounds += 1
            elif error.code == types.HEADER_MISMATCH and not relisted:
                # https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
                # A header that mirrors an argument was missing: the list names the headers.
                relisted = True
                await list_tools(client)
            else:
                raise
            continue
        if isinstance(result, types.CallToolResult):
            if result.is_error and lacks_back_channel(text := error_text(result)):
                raise RequestError(types.INVALID_REQUEST, text)
            return result
        if (rounds := rounds + 1) > _MOST_ROUNDS:
            raise ProtocolError(f"the tool {name!r} requested input more than {_MOST_ROUNDS} times")
        changes: dict[str, Any] = {"request_state": result.request_state, "input_responses": None}
        if result.input_requests:
            changes["input_responses"] = await _answers(client, result, hand_back=hand_back)
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        params = params.model_copy(update=changes)


def error_text(result: types.CallToolResult) -> str:
    """Return the text of a result that reports an error, if it has nothing else."""
    block = result.content[0] if len(result.content) == 1 else None
    return block.text if isinstance(block, types.TextContent) else ""


def is_refused(request: PendingRequest) -> bool:
    """Return whether a call that was made has failed, and no further request can change that."""
    if request.message is None:
        return True
    error = request.message.get("error")
    return error is not None and error["code"] not in {
        types.URL_ELICITATION_REQUIRED,
        types.HEADER_MISMATCH,
    }


async def _send(
    client: AnyClient, params: types.CallToolRequestParams, on_progress: ProgressFnT | None
) -> _CallResult:
    request = types.CallToolRequest(params=params)
    with large_result("tools/call", "content", _read) as large:
        result = await client.session.send_request(
            request, _call_result(), progress_callback=on_progress
        )
    return result if large.value is None else large.value


async def _result_of(request: PendingRequest) -> _CallResult:
    collect(request)
    try:
        return await read_aside(request, _read)
    except RequestError as error:
        from plait.client.transports.lean import mcp_error  # noqa: PLC0415  # imports the SDK

        raise mcp_error(error) from None


def _read(request: PendingRequest) -> _CallResult:
    result = result_of(request)
    if request.version not in types.version.MODERN_PROTOCOL_VERSIONS:
        result = {key: value for key, value in result.items() if key not in MODERN_FIELDS}
    return _call_result().validate_python(result, by_name=False)


async def _visited_urls(client: AnyClient, refused: RequestError) -> bool:
    """Handle a URL elicitation error: return whether the user visited all its URLs."""
    # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
    if refused.code != types.URL_ELICITATION_REQUIRED:
        return False
    try:
        required = types.ElicitationRequiredErrorData.model_validate(refused.data)
    except ValidationError:
        return False
    for number, params in enumerate(required.elicitations):
        key = params.elicitation_id or str(number)
        answer = await answer_request(client, key, types.ElicitRequest(params=params))
        if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
            return False
    return bool(required.elicitations)


async def _answers(
    client: AnyClient, result: types.InputRequiredResult, *, hand_back: bool
) -> types.InputResponses:
    """Answer a modern server's input requests with the callbacks for legacy servers."""
    requests = result.input_requests or {}
    if hand_back and any(isinstance(one, types.ElicitRequest) for one in requests.values()):
        raise InputNeededError(requests=requests, request_state=result.request_state)
    answers: types.InputResponses = {}
    for key, request in requests.items():
        answers[key] = await answer_request(client, key, request)
    return answers


async def answer_request(
    client: AnyClient, key: str, request: types.InputRequest
) -> types.InputResponse:
    """Answer an input request with the callback for its kind, or raise `InputRefusedError`."""
    meta = request.params.meta if request.params else None
    if isinstance(client, McpSession):
        context = RequestContext(session=client, request_id=key, meta=meta)
        answer = await client.dispatch_input_request(context, request)
    else:
        from mcp.client import ClientRequestContext  # noqa: PLC0415  # slow to import

        own = ClientRequestContext(session=client.session, request_id=key, meta=meta)
        answer = await client.session.dispatch_input_request(own, request)
    if isinstance(answer, types.ErrorData):
        # An error cannot be sent as an answer, so the call ends here.
        raise InputRefusedError(answer.message, code=answer.code)
    return answer


async def all_pages(
    fetch: Callable[..., Awaitable[PageT]], is_full: Callable[[], bool] = lambda: False
) -> list[PageT]:
    """Fetch every page of a list, up to 1,000 pages, or until there is enough.

    A cursor of more than 16,384 characters ends the list, and so do pages of more than 32 MB.
    """
    pages = [await fetch(cursor=None)]
    seen: set[str] = set()
    while (cursor := pages[-1].next_cursor) and cursor not in seen and not is_full():
        seen.add(cursor)  # a repeated cursor would never end
        if len(pages) >= _MOST_PAGES:
            logger.warning("a list ends after %d pages: the server has more", len(pages))
            break
        if len(cursor) > _LONGEST_CURSOR:
            text = "a list ends after %d pages: its next cursor has more than %d characters"
            logger.warning(text, len(pages), _LONGEST_CURSOR)
            break
        if received_bytes() > _MOST_LIST_BYTES:
            text = "a list ends after %d pages, which have more than %d bytes"
            logger.warning(text, len(pages), _MOST_LIST_BYTES)
            break
        pages.append(await fetch(cursor=cursor))
    return pages


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of every page, and the server's caching hints."""

    tools: tuple[Row | RawRow, ...]
    """As JSON objects that were checked."""
    ttl_seconds: float | None = None
    """How long the list may be cached; `None` without a hint."""
    public: bool = False
    """Whether the list is the same for all credentials."""
    clean: bool = field(default=False, compare=False)
    """Whether their texts surely need no sanitizing."""
    may_mirror: bool = field(default=True, compare=False)
    """Whether some may mirror arguments in HTTP headers."""
    cut: bool = False
    """Whether the server has more tools."""


async def list_tools(client: AnyClient, most: int = DEFAULT_LIMITS.tools) -> ToolList:
    """List the tools of every page, up to a number."""
    with collected_rows(most) as collected:

        async def fetch(cursor: str | None) -> types.ListToolsResult:
            page = await client.list_tools(cursor=cursor)
            collected.add(page.tools)
            return page

        pages = await all_pages(fetch, lambda: collected.is_full)
    _listed.add(client.session)
    listed = ToolList(
        tuple(collected.rows[:most]),
        clean=collected.clean,
        may_mirror=collected.may_mirror,
        cut=collected.is_full,
    )
    if not is_modern(client):
        return listed
    # https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    # Servers without a configured hint send 0, so 0 means no hint.
    times = [page.ttl_ms / 1000 for page in pages if page.ttl_ms > 0]
    return replace(
        listed,
        ttl_seconds=min(times, default=None),
        public=all(page.cache_scope == "public" for page in pages),
    )


async def list_resources(client: AnyClient) -> list[types.Resource]:
    """List the resources of every page."""
    return await _all_items(client.list_resources, "resources/list", "resources")


async def list_resource_templates(client: AnyClient) -> list[types.ResourceTemplate]:
    """List the resource templates of every page."""
    fetch = client.list_resource_templates
    return await _all_items(fetch, "resources/templates/list", "resourceTemplates")


async def list_prompts(client: AnyClient) -> list[types.Prompt]:
    """List the prompts of every page."""
    return await _all_items(client.list_prompts, "prompts/list", "prompts")


async def read_resource(client: AnyClient, uri: str) -> types.ReadResourceResult:
    """Read a resource."""
    return await _read_aside(lambda: client.read_resource(uri), "resources/read", "contents")


async def get_prompt(
    client: AnyClient, name: str, arguments: dict[str, str] | None
) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in."""
    return await _read_aside(lambda: client.get_prompt(name, arguments), "prompts/get", "messages")


async def _all_items(fetch: Callable[..., Awaitable[PageT]], method: str, field: str) -> list[Any]:
    """List the items of every page, up to 100,000 items."""
    items: list[Any] = []

    async def collect_page(cursor: str | None) -> PageT:
        page = await _read_aside(lambda: fetch(cursor=cursor), method, field)
        items.extend(_items_of(page, field))
        return page

    await all_pages(collect_page, lambda: len(items) >= _MOST_ITEMS)
    if len(items) > _MOST_ITEMS:
        logger.warning("a list is cut after %d entries: the server has more", _MOST_ITEMS)
    return items[:_MOST_ITEMS]


async def _read_aside(send: Callable[[], Awaitable[T]], method: str, field: str) -> T:
    """Send a request with the SDK, and validate its result in a thread if it is large.

    `field` is the list in the result. The SDK would validate it in the event loop, twice.
    """
    with large_result(method, field, partial(_read_large, field)) as large:
        result = await send()
    return result if large.value is None else large.value


def _read_large(field: str, request: PendingRequest) -> Any:
    is_modern_era = request.version in types.version.MODERN_PROTOCOL_VERSIONS
    return read_parts(field, frozenset() if is_modern_era else MODERN_FIELDS)(request)


def _items_of(result: object, field: str) -> list[Any]:
    return getattr(result, "resource_templates" if field == "resourceTemplates" else field)


async def ping(client: AnyClient) -> float:
    """Measure one cheap round trip, in seconds."""
    began = time.perf_counter()
    if is_modern(client):
        # The modern protocol has no ping; a discovery request costs as little.
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_ping()
    return time.perf_counter() - began


async def set_log_level(client: AnyClient, level: types.LoggingLevel) -> None:
    """Set the log level of a handshake-era server that declares logging."""
    if client.server_capabilities.logging is None:
        return
    if isinstance(client, McpSession):
        await client.set_logging_level(level)
    else:
        from mcp.shared.exceptions import MCPDeprecationWarning  # noqa: PLC0415  # slow to import

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await client.session.set_logging_level(level)  # pyright: ignore[reportDeprecated]


def is_lost_stream(error: BaseException) -> bool:
    """Return whether a stream of changes ended without the server having ended it."""
    sdk = sys.modules.get("mcp.client.subscriptions")
    return isinstance(error, (SubscriptionLostError, *([sdk.SubscriptionLost] if sdk else [])))
