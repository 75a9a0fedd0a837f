"""Reads the results of ended requests: repaired, typed, and in a thread where that takes long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from plait._support import mcp_types as types
from plait._support.causes import without_secrets
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import error_of
from plait.client.protocol.repair import (
    any_result,
    check_result,
    complete_result,
    is_unfinished,
    repair_result,
)
from plait.client.protocol.tool_rows import is_list, may_mirror

logger = logging.getLogger("plait.client.transports")

HANDSHAKE_VERSION = "2025-11-25"
"""The version that handshake-era results are validated against, whichever was negotiated."""
MODERN_FIELDS = frozenset({"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"})
"""Fields of results that the handshake era does not know."""
_LISTS = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "resources/read": "contents",
    "prompts/get": "messages",
}
"""The list in a result that may be long."""
_LARGE_BYTES = {"tools/list": 256 * 1024} | dict.fromkeys(_LISTS, 64 * 1024)
"""Larger results of these methods are checked and repaired in a thread; tools are the quickest."""
_LARGE_RESULT_BYTES = 1024 * 1024
_MANY_BLOCKS = 500
"""Larger results of other methods, and those with more content blocks, are too."""
_SLICE = 200
"""So many items are validated at a time: pydantic holds all threads up meanwhile."""

T = TypeVar("T")


async def read_aside(request: PendingRequest, read: Callable[[PendingRequest], T]) -> T:
    """Read the result of an ended request, in a thread if that takes long."""
    result: Mapping[str, object] = (request.message or {}).get("result") or {}
    content = result.get("content")
    has_many_blocks = is_list(content) and len(content) > _MANY_BLOCKS
    large_bytes = _LARGE_BYTES.get(request.method, _LARGE_RESULT_BYTES)
    if has_many_blocks or request.body_bytes > large_bytes:
        return await in_thread(read, request)
    return read(request)


def result_of(request: PendingRequest) -> dict[str, Any]:
    """Return the result of an ended request, repaired where needed, or raise its error."""
    if (error := error_of(request)) is not None:
        raise error
    message = request.message or {}
    if request.body is not None:
        request.may_mirror = may_mirror(request.body)
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


def result_in_era(request: PendingRequest) -> dict[str, Any]:
    """Return the result of an ended request without fields that its era does not know."""
    return in_era(request, result_of(request))


def in_era(request: PendingRequest, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without fields that the era of its request does not know."""
    is_modern = request.version in types.version.MODERN_PROTOCOL_VERSIONS
    if is_modern or MODERN_FIELDS.isdisjoint(result):
        return result
    return {key: value for key, value in result.items() if key not in MODERN_FIELDS}


def typed_result(request: PendingRequest) -> Any:
    """Return the result of an ended request as its type, or what the server asks in its place."""
    method, message = request.method, request.message or {}
    result: dict[str, Any] = message.get("result") or {}
    if is_unfinished(result, request.version):
        unfinished = result_of(request)
        check_result(method, request.version, unfinished)
        return any_result(method).validate_python(unfinished, by_name=False)
    field = _LISTS.get(method, "")
    items: object = result.get(field)
    if not is_list(items):
        return complete_result(method).validate_python(result_in_era(request), by_name=False)
    whole: Any = None
    attribute = "resource_templates" if field == "resourceTemplates" else field
    for start in range(0, len(items) or 1, _SLICE):
        part = items[start : start + _SLICE]
        items[start : start + _SLICE] = [None] * len(part)  # freed, for what is made of them
        request.message = {**message, "result": {**result, field: part}}
        one = complete_result(method).validate_python(result_in_era(request), by_name=False)
        if whole is None:
            whole = one
        else:
            getattr(whole, attribute).extend(getattr(one, attribute))
    return whole
