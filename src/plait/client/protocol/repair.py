"""Repairs the results of servers before they are validated.

Validation rejects a result as a whole for one unknown content block or one tool without a schema.
`repair_result` keeps the valid parts, converts the others to readable text, and notes each change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeGuard, cast, get_args
from urllib.parse import urlsplit

from msgspec import Struct, field
from pydantic import BaseModel, TypeAdapter, ValidationError

from plait._support import mcp_types as types
from plait._support.causes import is_longer
from plait._support.exception_groups import one_line
from plait.client.protocol.headers import invalid_mirror
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
MAX_CONTENT_BLOCKS = 10_000
"""How many content blocks of one result are kept; each takes far more memory than its JSON."""
MAX_RESOURCE_BYTES = 2**63 - 1
"""The largest size of a resource; other types hold no larger number."""
MAX_QUOTED_CHARS = 2000
"""How much of an unreadable block is quoted to the model."""
MAX_ENCODED_BYTES = 1_000_000
"""Encoding larger blocks to quote them would take long."""


@dataclass(frozen=True, slots=True)
class RepairedResult:
    """A valid result, and notes on its repairs."""

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
    repairer = _Repairer(method, version)
    if method == "tools/call":
        content = result.get("content")
        if is_list(content) and len(content) > MAX_CONTENT_BLOCKS:
            counts = f"the first {MAX_CONTENT_BLOCKS:,} of {len(content):,}"
            repairer.notes.append(f"only {counts} content blocks are kept")
            result = {**result, "content": content[:MAX_CONTENT_BLOCKS]}
    repair = _REPAIRS.get(method)
    if repair is None or is_unfinished(result, version):
        return RepairedResult(result, tuple(repairer.notes))
    checks_headers = repairer.modern and may_mirror and method == "tools/list"
    if method == "tools/list":
        valid = is_plain_list(result, version) and not (
            checks_headers and any(invalid_mirror(tool["inputSchema"]) for tool in result["tools"])
        )
    elif method == "initialize" and is_plain_handshake(result):
        valid = True
    else:
        blocks = result.get("content")
        valid = _fault(method, version, result) is None and not (
            is_list(blocks) and any(_is_object(one) and _has_bad_size(one) for one in blocks)
        )
    if not valid:
        result = repair(repairer, repairer.envelope(result))
        if checks_headers:
            result["tools"] = [*filter(repairer.may_be_mirrored, result["tools"])]
    return RepairedResult(result, tuple(repairer.notes))


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


def is_plain_handshake(result: Json) -> bool:
    """Recognize a result of `initialize` that is valid in every version; `False` means perhaps."""
    return is_valid(result, _PlainHandshake)


def is_unfinished(result: Json, version: str) -> bool:
    """Recognize input requests, and results of protocol extensions."""
    kind = result.get("resultType")
    if kind == "input_required":
        return True
    is_modern = version in types.version.MODERN_PROTOCOL_VERSIONS
    return is_modern and isinstance(kind, str) and kind != "complete"


def is_plain_text(result: Mapping[str, Any], version: str) -> bool:
    """Recognize the most common result without validating it twice."""
    if version in types.version.MODERN_PROTOCOL_VERSIONS and result.get("resultType") != "complete":
        return False
    content = result.get("content")
    return (
        isinstance(content, list)
        and len(cast("list[object]", content)) <= MAX_CONTENT_BLOCKS
        and isinstance(result.get("resultType", ""), str)
        and result.keys() <= _PLAIN_KEYS
        and isinstance(result.get("isError", False), bool)
        and isinstance(result.get("structuredContent", {}), dict)
        and isinstance(result.get("_meta", {}), dict)
        and all(
            _is_object(block)
            and block.keys() == _TEXT_KEYS
            and block["type"] == "text"
            and isinstance(block["text"], str)
            for block in cast("list[object]", content)
        )
    )


def _is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


@cache
def any_result(method: str) -> TypeAdapter[Any]:
    """Return the validator of a result, or of what a server asks in its place."""
    from mcp_types import methods  # noqa: PLC0415  # all types of both eras

    return TypeAdapter(cast("Any", methods.MONOLITH_RESULTS[method]))


def complete_result(method: str) -> TypeAdapter[Any]:
    """Return the validator of a complete result, which is the same for all versions."""
    return _validators(method, "")[-1]


@cache
def _validators(method: str, version: str) -> tuple[TypeAdapter[Any], ...]:
    """Return the validators of a complete result: for the version, then its own type."""
    from mcp_types import methods  # noqa: PLC0415  # all types of both eras

    validators: list[TypeAdapter[Any]] = []
    rows = (methods.SERVER_RESULTS.get((method, version)), methods.MONOLITH_RESULTS.get(method))
    for row in rows:
        if row is not None:
            # The union also has `InputRequiredResult`, whose fields are all optional: it would
            # accept every broken result.
            arms = cast("tuple[type[BaseModel], ...]", get_args(row) or (row,))
            complete = next(arm for arm in arms if arm.__name__ != "InputRequiredResult")
            validators.append(TypeAdapter(complete))
    return tuple(validators)


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

    with suppress(KeyError):  # the version does not know the method either
        methods.validate_server_result(method, version, result)


def _has_bad_size(block: Json) -> bool:
    """Return whether a resource has a size that no file has, and that other types cannot hold."""
    size = block.get("size")
    return isinstance(size, int) and not 0 <= size <= MAX_RESOURCE_BYTES


class _Repairer:
    """Repairs one result, and collects notes."""

    def __init__(self, method: str, version: str) -> None:
        self.method = method
        self.version = version
        self.modern = version in types.version.MODERN_PROTOCOL_VERSIONS
        self.notes: list[str] = []

    def envelope(self, result: Json) -> Json:
        """Return a copy of a result whose fields around the content are valid."""
        repaired = dict(result)
        if "_meta" in repaired and not isinstance(repaired["_meta"], dict):
            del repaired["_meta"]
            self.notes.append("_meta was not an object and was left out")
        if self.modern:
            from mcp_types import methods  # noqa: PLC0415  # all types of both eras

            if not isinstance(repaired.get("resultType"), str):
                repaired["resultType"] = "complete"
            if self.method in methods.CACHEABLE_METHODS:
                ttl: object = repaired.get("ttlMs")
                if isinstance(ttl, bool) or not isinstance(ttl, int | float):
                    ttl = 0
                repaired["ttlMs"] = max(0, int(ttl)) if math.isfinite(ttl) else 0
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

    def fault_of(self, field: str, item: object, method: str) -> ValidationError | None:
        """Return the validation error of a result with only this item."""
        probe: Json = {field: [item]}
        if self.modern:
            probe |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return _fault(method, self.version, probe)

    def items(self, result: Json, field: str) -> list[Any]:
        """Return the list in a field; anything else is taken for its only item."""
        value = result.get(field)
        if is_list(value):
            return value
        if value is None:
            self.notes.append(f"{field} was missing")
            return []
        self.notes.append(f"{field} was not a list")
        return [value]

    def repair_each(
        self,
        result: Json,
        field: str,
        replace: Callable[[int, object, ValidationError], Iterable[Json]],
    ) -> Json:
        """Replace the invalid items of a list."""
        repaired: list[Any] = []
        for index, item in enumerate(self.items(result, field)):
            is_valid = field == "tools" and is_plain_row(item)
            fault = None if is_valid else self.fault_of(field, item, self.method)
            repaired += [item] if fault is None else replace(index, item, fault)
        return result | {field: repaired}

    def repair_call(self, result: Json) -> Json:
        """Repair the result of a call block by block."""
        result["content"] = [
            self.block(block, f"content[{index}]")
            for index, block in enumerate(self.items(result, "content"))
        ]
        if (failed := result.pop("isError", None)) is not None:
            result["isError"] = bool(failed)
            if not isinstance(failed, bool):
                self.notes.append("isError was not a boolean")
        structured = result.get("structuredContent")
        if structured is None:
            result.pop("structuredContent", None)
        elif not self.modern and not isinstance(structured, dict):
            del result["structuredContent"]
            meta = cast("Json", result.get("_meta") or {})
            result["_meta"] = {**meta, ORIGINAL: {"structuredContent": structured}}
            self.notes.append("structuredContent was not an object and was moved to _meta")
        return result

    def block(self, block: object, place: str) -> Json:
        """Return a content block, or what stands for it."""
        if isinstance(block, str):
            self.notes.append(f"{place}: a bare string became a text block")
            return {"type": "text", "text": block}
        kind = block.get("type") if _is_object(block) else None
        if self.fault_of("content", block, "tools/call") is None:
            whole = cast("Json", block)
            if not _has_bad_size(whole):
                return whole
            self.notes.append(f"{place}: the size of a {kind} was impossible and was left out")
            return {key: value for key, value in whole.items() if key != "size"}
        if _is_object(block) and (kind == "resource" or kind == "resource_link"):
            link = _link_from(block)
            if link is not None and self.fault_of("content", link, "tools/call") is None:
                self.notes.append(f"{place}: an incomplete {kind} became a resource link")
                return link
        named = f"block of type {kind!r}" if kind else "block without a type"
        self.notes.append(f"{place}: a {named} could not be read and became text")
        return {"type": "text", "text": _readable(block), "_meta": {ORIGINAL: block}}

    def repair_items(self, result: Json, field: str, noun: str) -> Json:
        """Leave out the invalid items of a list."""

        def leave_out(index: int, item: object, fault: ValidationError) -> Iterable[Json]:
            name = item.get("name") if _is_object(item) else None
            named = f"{noun} {name!r}" if isinstance(name, str) else f"{noun} number {index + 1}"
            first = fault.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"][2:])
            reason = one_line(f"{place}: {first['msg']}" if place else first["msg"])
            self.notes.append(f"{named} was left out: {reason}")
            return ()

        return self.repair_each(result, field, leave_out)

    def repair_tools(self, result: Json) -> Json:
        """Leave out invalid tools."""
        if is_list(rows := result.get("tools")):
            result["tools"] = [whole_row(row) for row in rows]
        result = self.repair_items(result, "tools", "tool")
        result["tools"] = [checked_row(tool) for tool in result["tools"]]
        return result

    def may_be_mirrored(self, tool: Json) -> bool:
        """Return whether the header annotations of a tool permit that it is used."""
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
        reason = invalid_mirror(tool["inputSchema"])
        if reason is not None:
            self.notes.append(f"tool {tool['name']!r} was left out: x-mcp-header: {reason}")
        return reason is None

    def repair_read(self, result: Json) -> Json:
        """Make text of contents that cannot be read."""

        def as_text(index: int, item: object, _: ValidationError) -> Iterable[Json]:
            uri = item.get("uri") if _is_object(item) else None
            self.notes.append(f"contents[{index}] could not be read and became text")
            uri = uri if isinstance(uri, str) else ""
            return [{"uri": uri, "text": _readable(item), "_meta": {ORIGINAL: item}}]

        return self.repair_each(result, "contents", as_text)

    def repair_prompt(self, result: Json) -> Json:
        """Repair the messages of a prompt block by block."""

        def readable(index: int, message: object, _: ValidationError) -> Iterable[Json]:
            content: object = message.get("content") if _is_object(message) else message
            sender = message.get("role") if _is_object(message) else None
            role = "assistant" if sender == "assistant" else "user"
            for block in content if is_list(content) else [content]:
                yield {"role": role, "content": self.block(block, f"messages[{index}]")}

        return self.repair_each(result, "messages", readable)

    def repair_initialize(self, result: Json) -> Json:
        """Complete the answer of a handshake."""
        self.notes.append("the handshake answer was incomplete")
        info, able = result.get("serverInfo"), result.get("capabilities")
        known: Json = info if _is_object(info) else {}
        named = {
            "name": str(known.get("name") or "unknown"),
            "version": str(known.get("version") or ""),
        }
        if not isinstance(result.get("instructions", ""), str):
            del result["instructions"]
        if not isinstance(result.get("protocolVersion"), str):
            result["protocolVersion"] = types.version.OLDEST_SUPPORTED_VERSION
        result |= {"serverInfo": named, "capabilities": {}}

        def accepts(**change: Json) -> bool:
            return _fault(self.method, self.version, result | change) is None

        if accepts(serverInfo=known | named):
            result["serverInfo"] = known | named
        offered = able.items() if _is_object(able) else ()
        result["capabilities"] = {
            name: value for name, value in offered if accepts(capabilities={name: value})
        }
        return result


def _link_from(block: Json) -> Json | None:
    """Build a resource link from a resource that has only a URI."""
    inner: object = block.get("resource", block)
    uri = inner.get("uri") if _is_object(inner) else None
    if not _is_object(inner) or not isinstance(uri, str):
        return None
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        try:
            parts = urlsplit(uri)
            name = parts.path.rstrip("/").rpartition("/")[2] or parts.netloc or uri
        except ValueError:
            name = uri
    link: Json = {"type": "resource_link", "uri": uri, "name": name, "_meta": {ORIGINAL: block}}
    for key in ("title", "description", "mimeType"):
        if isinstance(inner.get(key), str):
            link[key] = inner[key]
    return link


def _readable(block: object) -> str:
    if _is_object(block) and isinstance(block.get("text"), str):
        return cast("str", block["text"])
    if is_longer(block, MAX_ENCODED_BYTES):
        return "content that is too large to be shown"
    try:
        quoted = json.dumps(block, ensure_ascii=False, default=str)
    except RecursionError:
        return "content that is nested too deeply to be shown"
    return quoted if len(quoted) <= MAX_QUOTED_CHARS else quoted[:MAX_QUOTED_CHARS] + "…"


_REPAIRS: Mapping[str, Callable[[_Repairer, Json], Json]] = {
    "tools/call": _Repairer.repair_call,
    "tools/list": _Repairer.repair_tools,
    "resources/list": lambda one, result: one.repair_items(result, "resources", "resource"),
    "resources/templates/list": lambda one, result: one.repair_items(
        result, "resourceTemplates", "resource template"
    ),
    "prompts/list": lambda one, result: one.repair_items(result, "prompts", "prompt"),
    "resources/read": _Repairer.repair_read,
    "prompts/get": _Repairer.repair_prompt,
    "initialize": _Repairer.repair_initialize,
}
