"""Requests of our own: how they are written, sent and read, without the MCP SDK.

The SDK is slow to import; a session that needs nothing of it does without.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeGuard, TypeVar

import anyio
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait._support.causes import is_longer, without_secrets
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.protocol.exchange import (
    PendingRequest,
    RequestTemplate,
    collect,
    parse_json,
    wake,
)
from plait.client.protocol.peer import Peer, RequestError, closed
from plait.client.protocol.reading import RequestId
from plait.client.protocol.repair import (
    any_result,
    check_result,
    complete_result,
    is_unfinished,
    repair_result,
)
from plait.client.protocol.tool_rows import current_rows, is_list, may_mirror, parse_list

logger = logging.getLogger("plait.client.transports")

HANDSHAKE_VERSION = "2025-11-25"
"""The version the SDK validates handshake-era results against, whichever was negotiated."""
PROTOCOL_VERSION_HEADER = "mcp-protocol-version"
_LARGE_BYTES = {
    "tools/list": 256 * 1024,
    "prompts/list": 64 * 1024,
    "prompts/get": 64 * 1024,
    "resources/list": 64 * 1024,
    "resources/templates/list": 64 * 1024,
    "resources/read": 64 * 1024,
}
"""Larger results of these methods are checked and repaired in a thread; tools are the quickest."""
_LONGEST_ERROR = 64 * 1024
"""How many characters are kept of the message of an error, and of its data."""
_LARGE_RESULT_BYTES = 1024 * 1024
_MANY_BLOCKS = 500
"""Larger results of other methods, and those with more content blocks, are too."""
_SLICE = 200
"""So many items are validated at a time: pydantic holds all threads up meanwhile."""

T = TypeVar("T")


def is_lean() -> bool:
    """Return whether requests take the lean wire, where a transport has one."""
    return os.environ.get("PLAIT_WIRE", "lean") != "sdk"


def is_request_error(error: BaseException) -> TypeGuard[RequestError]:
    """Return whether an exception is a `RequestError`, or the SDK's error with the same fields."""
    # Unless the SDK is imported, there are no exceptions of it.
    kind = getattr(sys.modules.get("mcp"), "MCPError", RequestError)
    return isinstance(error, RequestError | kind)


def template_from(params: Mapping[str, Any], headers: Mapping[str, str] | None) -> RequestTemplate:
    """Return what a request after the handshake has in common with all later ones."""
    meta: dict[str, Any] = params.get("_meta") or {}
    version = meta.get(types.PROTOCOL_VERSION_META_KEY) or HANDSHAKE_VERSION
    return RequestTemplate(version, meta, (headers or {}).get(PROTOCOL_VERSION_HEADER))


def list_request(method: str, request_id: RequestId, version: str) -> PendingRequest:
    """Create a request, which reads a list of tools row by row where these are collected."""
    request = PendingRequest(method, request_id, version)
    if method == "tools/list" and (rows := current_rows()) is not None:
        request.wants_body, request.parse = True, partial(parse_list, most=rows.most)
    return request


async def exchanged(
    peer: Peer,
    request: PendingRequest,
    body: bytes,
    *,
    timeout_seconds: float | None = None,
    cancel: bool = True,
) -> None:
    """Send a request and wait until it has a result, or raise `RequestError`.

    With `cancel`, the server is notified when the caller stops waiting.
    """
    woken = asyncio.get_running_loop().create_future()
    request.wake = partial(wake, woken)
    await anyio.lowlevel.checkpoint_if_cancelled()
    collect(request)
    if peer.sender is None:
        raise closed()
    limit = asyncio.timeout(timeout_seconds)
    peer.requests[request.request_id] = request
    peer.parse = request.parse
    try:
        peer.sender.send(body, request)
        async with limit:
            await woken
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        raise closed() from None
    except (asyncio.CancelledError, TimeoutError) as ended:
        timed_out = isinstance(ended, TimeoutError) and limit.expired()
        if cancel:
            reason = (f"timed out after {timeout_seconds}s",) if timed_out else ()
            peer.cancel(request, *reason)
        if timed_out:
            raise timed_out_error(request) from None
        raise
    finally:
        peer.requests.pop(request.request_id, None)
        peer.parse = parse_json
    if (error := error_of(request)) is not None:
        raise error


async def exchange(
    wire: Peer,
    request: PendingRequest,
    params: Mapping[str, Any],
    *,
    timeout_seconds: float | None = None,
    cancel: bool = True,
) -> dict[str, Any]:
    """Send a request and return its result, or raise `RequestError`."""
    body = encoded(request, params)
    await exchanged(wire, request, body, timeout_seconds=timeout_seconds, cancel=cancel)
    large = _large_result.get()
    if large is not None and large.takes(request):
        large.value = await in_thread(large.read, request)
        wire.note_repairs(request)
        # Which is quick to validate.
        return {large.field: [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    result = await read_aside(request, list_of)
    wire.note_repairs(request)
    return rows_taken(request, result)


def rows_taken(request: PendingRequest, result: dict[str, Any]) -> dict[str, Any]:
    """Return a page of tools without those that are collected as rows."""
    if not request.wants_body or (rows := current_rows()) is None:
        return result
    body, request.body, request.message = request.body, None, None  # they are large
    return rows.take(result, body, mirror=request.may_mirror)


@dataclass
class LargeResult(Generic[T]):
    """A result that is too large to be validated in the event loop, as the SDK does."""

    method: str
    field: str
    """The list that the result must have."""
    read: Callable[[PendingRequest], T]
    """Validates the result of an ended request, in a thread."""
    value: T | None = None
    """The result, if it was large; then the SDK gets an empty one."""

    def takes(self, request: PendingRequest) -> bool:
        """Return whether to read the result of an ended request in a thread."""
        if request.method != self.method or not _is_large(request):
            return False
        # The SDK answers what a server asks for in place of a prompt or a resource.
        result: dict[str, Any] = (request.message or {}).get("result") or {}
        return self.method == "tools/call" or not is_unfinished(result, request.version)


_large_result: ContextVar[LargeResult[Any] | None] = ContextVar("plait_large", default=None)


@contextmanager
def large_result(
    method: str, field: str, read: Callable[[PendingRequest], T]
) -> Generator[LargeResult[T]]:
    """Read the result of a request that is made in the block in a thread, if it is large."""
    large = LargeResult(method, field, read)
    token = _large_result.set(large)
    try:
        yield large
    finally:
        _large_result.reset(token)


async def read_aside(request: PendingRequest, read: Callable[[PendingRequest], T]) -> T:
    """Read the result of an ended request, in a thread if that takes long."""
    return await in_thread(read, request) if _is_large(request) else read(request)


def _is_large(request: PendingRequest) -> bool:
    result: Mapping[str, object] = (request.message or {}).get("result") or {}
    content = result.get("content")
    is_long = is_list(content) and len(content) > _MANY_BLOCKS
    return is_long or request.body_bytes > _LARGE_BYTES.get(request.method, _LARGE_RESULT_BYTES)


def timed_out_error(request: PendingRequest) -> RequestError:
    """Return the error of a request whose time is over."""
    return RequestError(types.REQUEST_TIMEOUT, f"Request {request.method!r} timed out")


def encoded(request: PendingRequest, params: Mapping[str, Any]) -> bytes:
    """Write a request as JSON."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request.request_id, "method": request.method}
    if params:
        message["params"] = params
    return to_json(message, inf_nan_mode="null")


def error_of(request: PendingRequest) -> Exception | None:
    """Return why an ended request has no result; `None` if it has one."""
    if request.fault is not None:
        return request.fault
    if request.message is None or (error := request.message.get("error")) is None:
        return None
    message, data = error["message"], error.get("data")
    if is_longer([message, data], _LONGEST_ERROR):
        # Tracebacks keep it alive until garbage is collected, so it is cut where it is.
        message = message[:_LONGEST_ERROR]
        data = None if is_longer(data, _LONGEST_ERROR) else data
        cut = {"code": error["code"], "message": message, "data": data}
        request.message = {**request.message, "error": cut}
    return RequestError(error["code"], message, data)


def list_of(request: PendingRequest) -> dict[str, Any]:
    """Return the result of an ended request, which may be a list of tools."""
    if request.body is not None:
        request.may_mirror = may_mirror(request.body)
    return result_of(request)


def results_of(request: PendingRequest, field: str) -> Generator[dict[str, Any]]:
    """Yield the result of an ended request in parts, each with some items of a list, or raise."""
    message = request.message or {}
    result: dict[str, Any] = message.get("result") or {}
    items: object = result.get(field)
    if not is_list(items):
        yield result_of(request)
        return
    for start in range(0, len(items) or 1, _SLICE):
        part = items[start : start + _SLICE]
        items[start : start + _SLICE] = [None] * len(part)  # freed, for what is made of them
        request.message = {**message, "result": {**result, field: part}}
        yield result_of(request)


def read_parts(field: str | None, left_out: frozenset[str]) -> Callable[[PendingRequest], Any]:
    """Return what reads a result as its type, some items of the list in a field at a time."""

    def read(request: PendingRequest) -> Any:
        whole: Any = None
        if is_unfinished((request.message or {}).get("result") or {}, request.version):
            unfinished = result_of(request)
            check_result(request.method, request.version, unfinished)
            return any_result(request.method).validate_python(unfinished, by_name=False)
        for part in [result_of(request)] if field is None else results_of(request, field):
            known = {key: value for key, value in part.items() if key not in left_out}
            one = complete_result(request.method).validate_python(known, by_name=False)
            if whole is None or field is None:
                whole = one
            else:
                _items_of(whole, field).extend(_items_of(one, field))
        return whole

    return read


def _items_of(result: object, field: str) -> list[Any]:
    return getattr(result, "resource_templates" if field == "resourceTemplates" else field)


def result_of(request: PendingRequest) -> dict[str, Any]:
    """Return the result of an ended request, repaired where needed, or raise its error."""
    if (error := error_of(request)) is not None:
        raise error
    message = request.message or {}
    try:
        repaired = repair_result(
            request.method, message["result"], request.version, may_mirror=request.may_mirror
        )
    except Exception as error:  # boundary: no result, however odd, may end the session
        request.wants_body = False
        safe = without_secrets(error, Redactor(()))
        logger.error("a result could not be repaired", exc_info=safe)
        return message["result"]
    request.notes += repaired.notes
    return repaired.result
