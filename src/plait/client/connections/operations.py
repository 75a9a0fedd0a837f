"""What a client asks of an open session, with all that belongs to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from pydantic import TypeAdapter, ValidationError, WrapValidator

from plait._support import mcp_types as types
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.connections.error_mapping import lacks_back_channel
from plait.client.protocol.exchange import OnProgress, PendingRequest, collect, received_bytes
from plait.client.protocol.passing import params_in, sent_request
from plait.client.protocol.peer import RequestError, is_request_error
from plait.client.protocol.read_results import read_aside, result_in_era
from plait.client.protocol.session import McpSession, RequestContext
from plait.client.protocol.tool_rows import RawRow, Row, collected_rows
from plait.errors import InputNeededError, InputRefusedError, ProtocolError

logger = logging.getLogger("plait.client.connections")


class Page(Protocol):
    """One page of a list."""

    @property
    def next_cursor(self) -> str | None:
        """Leads to the next page."""


PageT = TypeVar("PageT", bound=Page)
T = TypeVar("T")


class _Asked(NamedTuple):
    """What a server asks before it gives a result."""

    result: types.InputRequiredResult
    sent: object
    """Its requests by their keys, as the server sent them."""


_CallResult: TypeAlias = "types.CallToolResult | _Asked"


_MAX_PAGES = 1000
_MAX_ITEMS = 100_000
"""A list has an end; a server that never says so must not fill the memory."""
_MAX_CURSOR_CHARACTERS = 16_384
"""All cursors of a list are kept while it is fetched."""
_MAX_LIST_BYTES = 32_000_000
"""As much as one message."""
_MAX_ROUNDS = 10
"""How often a server may request input during one call: a person answers each time."""
_MAX_URL_ROUNDS = 3
"""How often a server may refuse one call until other URLs are visited."""
_FIRST_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 0.25
"""Pauses between rounds in which a server asks nothing: it only wants the call again."""


@cache
def _call_result() -> TypeAdapter[Any]:
    def read_asked(value: Any, read: Callable[[Any], Any]) -> _CallResult:
        result = read(value)
        is_asked = isinstance(result, types.InputRequiredResult)
        return _Asked(result, value.get("inputRequests")) if is_asked else result

    either: Any = types.CallToolResult | types.InputRequiredResult
    kind: Any = Annotated[either, WrapValidator(read_asked)]
    return TypeAdapter(kind)


def is_modern(client: Any) -> bool:
    """Return whether the session is of the modern era: no handshake and no state."""
    # A stock session of SDK 1.x does not say its version.
    return getattr(client, "protocol_version", None) in types.version.MODERN_PROTOCOL_VERSIONS


@dataclass(frozen=True, slots=True)
class InputAnswers:
    """Answers to the input requests of an earlier round of a call."""

    responses: types.InputResponses
    request_state: str | None = None


async def call_tool(
    client: McpSession,
    name: str,
    arguments: Mapping[str, Any],
    *,
    mirrored: bool = False,
    on_progress: OnProgress | None = None,
    meta: types.RequestParamsMeta | None = None,
    answers: InputAnswers | None = None,
    hand_back: bool = False,
    answer_all: Callable[[types.InputRequests], Awaitable[types.InputResponses]] | None = None,
    visits_urls: bool = True,
    first: PendingRequest | None = None,
) -> types.CallToolResult:
    """Call a tool, answering the server's input requests on the way.

    Not the SDK's own `call_tool`: that one raises after the fact when a result does not match its
    output schema, and lists all tools after the first call of an unknown one.

    `mirrored` means that some arguments must also be sent as HTTP headers (`x-mcp-header`);
    `answers` are those to the input requests of an earlier call; `first` is already made. With
    `hand_back`, a request for input from the user raises `InputNeededError`; `answer_all` answers
    in place of the callbacks for each request. Without `visits_urls`, a server that first wants
    URLs to be visited ends the call with its error.
    """
    if mirrored and is_modern(client) and not client.has_listed:
        await list_tools(client)
    params = types.CallToolRequestParams(
        name=name,
        arguments=dict(arguments),
        input_responses=answers and answers.responses,
        request_state=answers and answers.request_state,
        _meta=meta,
    )
    result: _CallResult
    relisted, rounds, pause = False, 0, _FIRST_PAUSE_SECONDS
    visited: list[frozenset[str]] = []
    while True:
        try:
            if first is not None:
                made, first = first, None
                collect(made)
                result = await read_aside(made, _call_result_of)
            else:
                request = types.CallToolRequest(params=params)
                result = await client.session.send_request(
                    request, _call_result(), progress_callback=on_progress
                )
        except Exception as error:
            if not is_request_error(error):
                raise
            may_visit = visits_urls and len(visited) < _MAX_URL_ROUNDS
            if may_visit and (urls := await _visited_urls(client, error, visited)):
                visited.append(urls)
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
        if (rounds := rounds + 1) > _MAX_ROUNDS:
            raise ProtocolError(f"the tool {name!r} requested input more than {_MAX_ROUNDS} times")
        needed, sent = result
        requests = needed.input_requests or {}
        if hand_back and any(isinstance(one, types.ElicitRequest) for one in requests.values()):
            raise InputNeededError(requests=requests, request_state=needed.request_state)
        responses: types.InputResponses = {}
        if answer_all is not None and requests:
            sent_request.set(cast("Mapping[str, Any]", sent))
            responses = await answer_all(requests)
        else:
            for key, one in requests.items():
                sent_request.set(params_in(sent, key))
                responses[key] = await answer_request(client, key, one)
        if not requests:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        params = params.model_copy(
            update={"request_state": needed.request_state, "input_responses": responses or None}
        )


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


def _call_result_of(request: PendingRequest) -> _CallResult:
    return _call_result().validate_python(result_in_era(request), by_name=False)


async def _visited_urls(
    client: McpSession, refused: RequestError, before: Iterable[frozenset[str]]
) -> frozenset[str]:
    """Handle a URL elicitation error: return its URLs if the user visited all of them.

    Those that the user visited `before` are not asked for again: the server knows no better yet.
    """
    # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
    if refused.code != types.URL_ELICITATION_REQUIRED:
        return frozenset()
    try:
        required = types.ElicitationRequiredErrorData.model_validate(refused.data)
    except ValidationError:
        return frozenset()
    urls = frozenset(params.url for params in required.elicitations)
    if any(urls <= known for known in before):
        return frozenset()
    for number, params in enumerate(required.elicitations):
        key = params.elicitation_id or str(number)
        sent_request.set(refused.data["elicitations"][number])
        answer = await answer_request(client, key, types.ElicitRequest(params=params))
        if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
            return frozenset()
    return urls


async def answer_request(
    client: McpSession, key: str, request: types.InputRequest
) -> types.InputResponse:
    """Answer an input request with the callback for its kind, or raise `InputRefusedError`."""
    meta = request.params.meta if request.params else None
    context = RequestContext(session=client.session, request_id=key, meta=meta)
    answer = await client.session.dispatch_input_request(context, request)
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
        if len(pages) >= _MAX_PAGES:
            why = ": the server has more"
        elif len(cursor) > _MAX_CURSOR_CHARACTERS:
            why = f": its next cursor has more than {_MAX_CURSOR_CHARACTERS} characters"
        elif received_bytes() > _MAX_LIST_BYTES:
            why = f", which have more than {_MAX_LIST_BYTES} bytes"
        else:
            pages.append(await fetch(cursor=cursor))
            continue
        logger.warning("a list ends after %d pages%s", len(pages), why)
        break
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


class _ToolPage:
    """What a page of tools says beside the tools."""

    def __init__(self, page: Mapping[str, Any]) -> None:
        self.next_cursor: str | None = page.get("nextCursor")
        self.ttl_ms: float = page.get("ttlMs", 0)
        self.cache_scope: str = page.get("cacheScope", "private")


async def list_tools(client: McpSession, most: int = DEFAULT_LIMITS.tools) -> ToolList:
    """List the tools of every page, up to a number."""
    with collected_rows(most) as collected:

        async def fetch(cursor: str | None) -> _ToolPage:
            page = await client.tool_page(cursor)
            collected.add(page["tools"])
            return _ToolPage(page)

        pages = await all_pages(fetch, lambda: collected.is_full)
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


async def list_resources(client: McpSession) -> list[types.Resource]:
    """List the resources of every page."""
    return await _all_items(client.list_resources, "resources")


async def list_resource_templates(client: McpSession) -> list[types.ResourceTemplate]:
    """List the resource templates of every page."""
    return await _all_items(client.list_resource_templates, "resource_templates")


async def list_prompts(client: McpSession) -> list[types.Prompt]:
    """List the prompts of every page."""
    return await _all_items(client.list_prompts, "prompts")


async def _all_items(fetch: Callable[..., Awaitable[PageT]], field: str) -> list[Any]:
    """List the items of every page, up to 100,000 items."""
    items: list[Any] = []

    async def collect_page(cursor: str | None) -> PageT:
        page = await fetch(cursor=cursor)
        items.extend(getattr(page, field))
        return page

    await all_pages(collect_page, lambda: len(items) >= _MAX_ITEMS)
    if len(items) > _MAX_ITEMS:
        logger.warning("a list is cut after %d entries: the server has more", _MAX_ITEMS)
    return items[:_MAX_ITEMS]


async def ping(client: McpSession) -> float:
    """Measure one cheap round trip, in seconds."""
    began = time.perf_counter()
    if is_modern(client):
        # The modern protocol has no ping; a discovery request costs as little.
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_ping()
    return time.perf_counter() - began


async def set_log_level(client: McpSession, level: types.LoggingLevel) -> None:
    """Set the log level of a handshake-era server that declares logging."""
    if client.server_capabilities.logging is not None:
        await client.set_logging_level(level)
