"""Repairs the results of servers before the SDK validates them.

The SDK rejects a result as a whole for one unknown content block or one tool without a schema.
`repair_result` keeps the valid parts, converts the others to readable text, and notes each change.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, TypeGuard, cast, get_args
from urllib.parse import urlsplit

from msgspec import Struct, field
from pydantic import BaseModel, TypeAdapter, ValidationError

from plait._support import mcp_types as types
from plait._support.causes import is_longer
from plait._support.exception_groups import one_line
from plait._support.threads import import_once
from plait.client.protocol.tool_rows import (
    checked_row,
    is_list,
    is_plain_list,
    is_plain_row,
    is_valid,
    whole_row,
)

ORIGINAL = "plait/original"
"""The `_meta` key that holds the original of a repaired part."""

Json = dict[str, Any]

_TEXT_KEYS = frozenset({"type", "text"})
_PLAIN_KEYS = frozenset(
    {"content", "isError", "structuredContent", "_meta", "resultType", "ttlMs", "cacheScope"}
)
"""Keys of a result that need no repair; the caching hints mean nothing for a call."""
_MOST_BLOCKS = 10_000
"""How many content blocks of one result are kept; each takes far more memory than its JSON."""
_MOST_BYTES = 2**63 - 1
"""The largest size of a resource."""
_LONGEST_QUOTE = 2000
"""How much of an unreadable block is quoted to the model."""
_MOST_QUOTED = 1_000_000
"""Encoding larger blocks would take long."""


@dataclass(frozen=True, slots=True)
class RepairedResult:
    """A result that the SDK accepts, and notes on its repairs."""

    result: Json
    notes: tuple[str, ...] = ()


def repair_result(
    method: str, result: Json, version: str, *, may_mirror: bool = True
) -> RepairedResult:
    """Make a result valid for the protocol version, keeping all valid parts.

    Without `may_mirror`, no listed tool mirrors arguments in HTTP headers.
    """
    if method == "tools/call" and is_plain_text(result, version):
        return RepairedResult(result)
    cut: tuple[str, ...] = ()
    content = result.get("content")
    if method == "tools/call" and is_list(content) and len(content) > _MOST_BLOCKS:
        cut = (f"only the first {_MOST_BLOCKS:,} of {len(content):,} content blocks are kept",)
        result = {**result, "content": content[:_MOST_BLOCKS]}
    repair = _REPAIRS.get(method)
    if repair is None or is_unfinished(result, version):
        return RepairedResult(result, cut)
    repairer = _Repairer(method, version, may_mirror=may_mirror)
    if method == "tools/list":
        valid = is_plain_list(result, version) and not repairer.has_bad_headers(result)
    elif method == "initialize" and is_valid(result, _PlainHandshake):
        valid = True
    else:
        valid = _fault(method, version, result) is None and not _has_bad_size(result)
    if valid:
        return RepairedResult(result, cut)
    repaired = repair(repairer, repairer.envelope(result))
    return RepairedResult(repaired, (*cut, *repairer.notes))


class _PlainLists(Struct, frozen=True, gc=False, rename="camel"):
    list_changed: bool = False
    subscribe: bool = False


class _PlainCapabilities(Struct, gc=False):
    logging: dict[str, Any] = {}
    completions: dict[str, Any] = {}
    prompts: _PlainLists = _PlainLists()
    resources: _PlainLists = _PlainLists()
    tools: _PlainLists = _PlainLists()
    experimental: dict[str, dict[str, Any]] = {}
    extensions: None = None
    tasks: None = None


class _PlainIdentity(Struct, gc=False, rename="camel"):
    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: None = None
    icons: None = None


class _PlainHandshake(Struct, gc=False, rename="camel"):
    """A result of `initialize` that is valid in every version; others may be valid too."""

    protocol_version: str
    capabilities: _PlainCapabilities
    server_info: _PlainIdentity
    instructions: str | None = None
    meta: dict[str, Any] = field(default={}, name="_meta")


def is_unfinished(result: Json, version: str) -> bool:
    """Recognize input requests, and results of protocol extensions."""
    kind = result.get("resultType")
    if kind == "input_required":
        return True
    return (
        version in types.version.MODERN_PROTOCOL_VERSIONS
        and isinstance(kind, str)
        and kind != "complete"
    )


def is_plain_text(result: Mapping[str, Any], version: str) -> bool:
    """Recognize the most common result without validating it twice."""
    if version in types.version.MODERN_PROTOCOL_VERSIONS and result.get("resultType") != "complete":
        return False
    content = result.get("content")
    return (
        isinstance(content, list)
        and len(cast("list[object]", content)) <= _MOST_BLOCKS
        and isinstance(result.get("resultType", ""), str)
        and result.keys() <= _PLAIN_KEYS
        and isinstance(result.get("isError", False), bool)
        and isinstance(result.get("structuredContent", {}), dict)
        and isinstance(result.get("_meta", {}), dict)
        and all(_is_text_block(block) for block in cast("list[object]", content))
    )


def _is_text_block(block: object) -> bool:
    if not _is_object(block):
        return False
    return block.keys() == _TEXT_KEYS and block["type"] == "text" and isinstance(block["text"], str)


def _is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


@cache
def any_result(method: str) -> TypeAdapter[Any]:
    """Return the validator of a result, or of what a server asks in its place."""
    from mcp_types import methods  # noqa: PLC0415  # all types of both eras

    return TypeAdapter(cast("Any", methods.MONOLITH_RESULTS[method]))


def complete_result(method: str) -> TypeAdapter[Any]:
    """Return the validator of a complete result, as the SDK has it for all versions."""
    return _validators(method, "")[-1]


@cache
def _validators(method: str, version: str) -> tuple[TypeAdapter[Any], ...]:
    """Return the SDK's validators of a complete result: for the version, then its own type."""
    from mcp_types import methods  # noqa: PLC0415  # all types of both eras

    rows = (methods.SERVER_RESULTS.get((method, version)), methods.MONOLITH_RESULTS.get(method))
    return tuple(_finished(row) for row in rows if row is not None)


def _finished(row: object) -> TypeAdapter[Any]:
    # The union also has `InputRequiredResult`, whose fields are all optional: it would accept
    # every broken result.
    arms = cast("tuple[type[BaseModel], ...]", get_args(row) or (row,))
    return TypeAdapter(next(arm for arm in arms if arm.__name__ != "InputRequiredResult"))


def _fault(method: str, version: str, result: Json) -> ValidationError | None:
    try:
        for validator in _validators(method, version):
            validator.validate_python(result, by_name=False)
    except ValidationError as error:
        return error
    return None


def check_result(method: str, version: str, result: Json) -> None:
    """Raise the `ValidationError` of a result that the protocol version does not know."""
    from mcp_types import methods  # noqa: PLC0415  # all types of both eras

    with contextlib.suppress(KeyError):  # the version does not know the method either
        methods.validate_server_result(method, version, result)


class _Repairer:
    """Repairs one result, and collects notes."""

    def __init__(self, method: str, version: str, *, may_mirror: bool) -> None:
        self.method = method
        self.version = version
        self.modern = version in types.version.MODERN_PROTOCOL_VERSIONS
        self.checks_headers = self.modern and may_mirror
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def envelope(self, result: Json) -> Json:
        repaired = dict(result)
        if "_meta" in repaired and not isinstance(repaired["_meta"], dict):
            del repaired["_meta"]
            self.note("_meta was not an object and was left out")
        if self.modern:
            from mcp_types import methods  # noqa: PLC0415  # all types of both eras

            if not isinstance(repaired.get("resultType"), str):
                repaired["resultType"] = "complete"
            if self.method in methods.CACHEABLE_METHODS:
                repaired["ttlMs"] = _milliseconds(repaired.get("ttlMs"))
                if repaired.get("cacheScope") != "public":
                    repaired["cacheScope"] = "private"
        else:
            for key in ("ttlMs", "cacheScope", "resultType"):
                repaired.pop(key, None)
        if "nextCursor" in repaired and not isinstance(repaired["nextCursor"], str):
            cursor = repaired.pop("nextCursor")
            if cursor is not None:
                repaired["nextCursor"] = str(cursor)
        return repaired

    def fault_of(
        self, field: str, item: object, method: str | None = None
    ) -> ValidationError | None:
        """Return the validation error of a result with only this item."""
        probe: Json = {field: [item]}
        if self.modern:
            probe |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return _fault(method or self.method, self.version, probe)

    def accepts_block(self, block: object) -> bool:
        return self.fault_of("content", block, "tools/call") is None

    def has_bad_headers(self, result: Json) -> bool:
        if not self.checks_headers:
            return False
        import_once("mcp.shared.inbound")
        from mcp.shared.inbound import find_invalid_x_mcp_header  # noqa: PLC0415  # imports the SDK

        return any(find_invalid_x_mcp_header(tool["inputSchema"]) for tool in result["tools"])


def _milliseconds(ttl: object) -> int:
    """Parse a lifetime; an invalid one counts as 0."""
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not math.isfinite(ttl):
        return 0
    return max(0, int(ttl))


def _as_list(repairer: _Repairer, result: Json, field: str) -> list[Any]:
    value = result.get(field)
    if isinstance(value, list):
        return cast("list[Any]", value)
    if value is None:
        repairer.note(f"{field} was missing")
        return []
    repairer.note(f"{field} was not a list")
    return [value]


def _repair_call(repairer: _Repairer, result: Json) -> Json:
    blocks = _as_list(repairer, result, "content")
    result["content"] = [
        _repair_block(repairer, block, f"content[{index}]") for index, block in enumerate(blocks)
    ]
    if not isinstance(failed := result.pop("isError", None), NoneType):
        result["isError"] = bool(failed)
        if not isinstance(failed, bool):
            repairer.note("isError was not a boolean")
    structured = result.get("structuredContent")
    if structured is None:
        result.pop("structuredContent", None)
    elif not repairer.modern and not isinstance(structured, dict):
        del result["structuredContent"]
        meta = cast("Json", result.get("_meta") or {})
        result["_meta"] = {**meta, ORIGINAL: {"structuredContent": structured}}
        repairer.note("structuredContent was not an object and was moved to _meta")
    return result


def _repair_block(repairer: _Repairer, block: object, place: str) -> Json:
    if isinstance(block, str):
        repairer.note(f"{place}: a bare string became a text block")
        return {"type": "text", "text": block}
    if repairer.accepts_block(block):
        return _with_possible_size(repairer, cast("Json", block), place)
    kind = block.get("type") if _is_object(block) else None
    if _is_object(block) and (kind == "resource" or kind == "resource_link"):
        link = _link_from(block)
        if link is not None and repairer.accepts_block(link):
            repairer.note(f"{place}: an incomplete {kind} became a resource link")
            return link
    named = f"block of type {kind!r}" if kind else "block without a type"
    repairer.note(f"{place}: a {named} could not be read and became text")
    return {"type": "text", "text": _readable(block), "_meta": {ORIGINAL: block}}


def _has_bad_size(result: Json) -> bool:
    blocks = result.get("content")
    return is_list(blocks) and any(_is_object(one) and _is_bad_size(one) for one in blocks)


def _is_bad_size(block: Json) -> bool:
    size = block.get("size")
    return isinstance(size, int) and not 0 <= size <= _MOST_BYTES


def _with_possible_size(repairer: _Repairer, block: Json, place: str) -> Json:
    """Leave out a size that no file has, and that would not fit into other types."""
    if not _is_bad_size(block):
        return block
    repairer.note(f"{place}: the size of a {block.get('type')} was impossible and was left out")
    return {key: value for key, value in block.items() if key != "size"}


def _link_from(block: Json) -> Json | None:
    """Build a resource link from a resource that has only a URI."""
    inner: object = block.get("resource", block)
    uri = inner.get("uri") if _is_object(inner) else None
    if not _is_object(inner) or not isinstance(uri, str):
        return None
    name = inner.get("name")
    link: Json = {"type": "resource_link", "uri": uri, "_meta": {ORIGINAL: block}}
    link["name"] = name if isinstance(name, str) and name else _name_from_uri(uri)
    for key in ("title", "description", "mimeType"):
        if isinstance(inner.get(key), str):
            link[key] = inner[key]
    return link


def _name_from_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return parts.path.rstrip("/").rpartition("/")[2] or parts.netloc or uri


def _readable(block: object) -> str:
    if _is_object(block) and isinstance(block.get("text"), str):
        return cast("str", block["text"])
    if is_longer(block, _MOST_QUOTED):
        return "content that is too large to be shown"
    try:
        quoted = json.dumps(block, ensure_ascii=False, default=str)
    except RecursionError:
        return "content that is nested too deeply to be shown"
    return quoted if len(quoted) <= _LONGEST_QUOTE else quoted[:_LONGEST_QUOTE] + "…"


def _repair_tools(repairer: _Repairer, result: Json) -> Json:
    import_once("mcp.shared.inbound")
    from mcp.shared.inbound import find_invalid_x_mcp_header  # noqa: PLC0415  # imports the SDK

    if is_list(rows := result.get("tools")):
        result["tools"] = [whole_row(row) for row in rows]
    result = _repair_items("tools", "tool")(repairer, result)
    result["tools"] = [checked_row(tool) for tool in result["tools"]]
    if repairer.checks_headers:
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
        # A tool whose header annotations are wrong must not be used; the SDK drops it silently.
        kept: list[Json] = []
        for tool in result["tools"]:
            reason = find_invalid_x_mcp_header(tool["inputSchema"])
            if reason is None:
                kept.append(tool)
            else:
                repairer.note(f"tool {tool['name']!r} was left out: x-mcp-header: {reason}")
        result["tools"] = kept
    return result


def _repair_each(
    repairer: _Repairer,
    result: Json,
    field: str,
    replace: Callable[[int, object, ValidationError], Iterable[Json]],
) -> Json:
    repaired: list[Any] = []
    for index, item in enumerate(_as_list(repairer, result, field)):
        is_valid = field == "tools" and is_plain_row(item)
        fault = None if is_valid else repairer.fault_of(field, item)
        repaired += [item] if fault is None else replace(index, item, fault)
    return result | {field: repaired}


def _repair_items(field: str, noun: str) -> Callable[[_Repairer, Json], Json]:
    """Create the repair of a list: invalid items are removed and noted."""

    def repair(repairer: _Repairer, result: Json) -> Json:
        def leave_out(index: int, item: object, fault: ValidationError) -> Iterable[Json]:
            name = item.get("name") if _is_object(item) else None
            named = f"{noun} {name!r}" if isinstance(name, str) else f"{noun} number {index + 1}"
            repairer.note(f"{named} was left out: {_first_reason(fault)}")
            return ()

        return _repair_each(repairer, result, field, leave_out)

    return repair


def _first_reason(fault: ValidationError) -> str:
    first = fault.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"][2:])
    return one_line(f"{place}: {first['msg']}" if place else first["msg"])


def _repair_read(repairer: _Repairer, result: Json) -> Json:
    def as_text(index: int, item: object, _: ValidationError) -> Iterable[Json]:
        uri = item.get("uri") if _is_object(item) else None
        repairer.note(f"contents[{index}] could not be read and became text")
        uri = uri if isinstance(uri, str) else ""
        return [{"uri": uri, "text": _readable(item), "_meta": {ORIGINAL: item}}]

    return _repair_each(repairer, result, "contents", as_text)


def _repair_prompt(repairer: _Repairer, result: Json) -> Json:
    def readable(index: int, message: object, _: ValidationError) -> Iterable[Json]:
        content: object = message.get("content") if _is_object(message) else message
        sender = message.get("role") if _is_object(message) else None
        role = "assistant" if sender == "assistant" else "user"
        for block in cast("list[object]", content) if isinstance(content, list) else [content]:
            yield {"role": role, "content": _repair_block(repairer, block, f"messages[{index}]")}

    return _repair_each(repairer, result, "messages", readable)


def _repair_initialize(repairer: _Repairer, result: Json) -> Json:
    repairer.note("the handshake answer was incomplete")
    info = result.get("serverInfo")
    known: Json = info if _is_object(info) else {}
    named = {
        "name": str(known.get("name") or "unknown"),
        "version": str(known.get("version") or ""),
    }
    able = result.get("capabilities")
    if not isinstance(result.get("instructions", ""), str):
        del result["instructions"]
    if not isinstance(result.get("protocolVersion"), str):
        result["protocolVersion"] = types.version.OLDEST_SUPPORTED_VERSION
    result |= {"serverInfo": named, "capabilities": {}}

    def accepts(**change: Json) -> bool:
        return _fault(repairer.method, repairer.version, result | change) is None

    if accepts(serverInfo=known | named):
        result["serverInfo"] = known | named
    offered = able.items() if _is_object(able) else ()
    result["capabilities"] = {
        name: value for name, value in offered if accepts(capabilities={name: value})
    }
    return result


_REPAIRS: Mapping[str, Callable[[_Repairer, Json], Json]] = {
    "tools/call": _repair_call,
    "tools/list": _repair_tools,
    "resources/list": _repair_items("resources", "resource"),
    "resources/templates/list": _repair_items("resourceTemplates", "resource template"),
    "prompts/list": _repair_items("prompts", "prompt"),
    "resources/read": _repair_read,
    "prompts/get": _repair_prompt,
    "initialize": _repair_initialize,
}
