"""Limits the size of results: cuts those over budget, keeps them in full, answers `read_more`.

A part of a full result is read by block, by range, by path, or by search. Paths are written as
models write them: `$.rows[100:200].name`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from cachetools import TTLCache

from plait._support import mcp_types as types
from plait._support.clock import Clock, SystemClock
from plait._support.threads import in_thread
from plait.client.calls.arguments import checked_arguments
from plait.client.calls.outcome import ToolResult, block_from_resource
from plait.client.calls.result_budget.cut import (
    CutNote,
    cost_of,
    count_of_parts,
    cut_json,
    cut_result,
    head_of,
    is_within,
    parsed_json,
    path_to,
    raw_text_of,
    size_of_text,
    text_of,
    written_json,
)
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.deferral import TokenCounter
from plait.client.catalog.tool import Tool
from plait.client.config.argument_readings import is_large
from plait.client.config.budgets import Limit, ResultBudget, limit_for
from plait.client.config.raw_value import describe
from plait.client.config.servers import ServerConfig
from plait.errors import InvalidArgumentsError, ResultExpiredError

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]\s"'*]+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<first>-?\d*)\s*:\s*(?P<last>-?\d*)\s*\]
      | (?P<all>\[\s*\*\s*\]|\.\*)
      | \[\s*(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""",
    re.VERBOSE,
)

Step = str | int | slice

_NOTE_BYTES = 300
"""Room for the line that says what was read, and what comes next."""
_CONTEXT_CHARACTERS = 80
"""Characters shown on either side of a match."""
_MAX_MATCHES = 50
"""A model that needs more of them continues behind the last."""


class PathError(ValueError):
    """A path is invalid, or has no value."""


def steps_of(path: str) -> list[Step]:
    """Parse a path, perhaps without its leading `$`; raise `PathError` if it is invalid."""
    rest = path.strip()
    if rest.startswith("$"):
        rest = rest[1:]
    elif rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise PathError(
                f"the path cannot be read from {rest[position : position + 20]!r} on; "
                'it is made of .name, ["name"], [0], [10:20] and [*]'
            )
        position = match.end()
        if match["name"] is not None:
            steps.append(match["name"])
        elif match["index"] is not None:
            steps.append(int(match["index"]))
        elif (quoted := match["key"]) is None:
            first, last = match["first"], match["last"]
            steps.append(slice(int(first) if first else None, int(last) if last else None))
        elif quoted.startswith("'"):
            steps.append(re.sub(r"\\(.)", r"\1", quoted[1:-1]))
        else:
            try:
                steps.append(json.loads(quoted))
            except ValueError as error:
                raise PathError(f"{quoted} is not a string") from error
    return steps


def is_single(path: str) -> bool:
    """Return whether a path selects one value, not a list of several."""
    return not any(isinstance(step, slice) for step in steps_of(path))


def select(value: Any, path: str) -> Any:
    """Return the value of a path, or the list of values after a range or `[*]`.

    Items without a value for the rest of the path are left out of the list.

    Raises:
        PathError: The path is invalid, or has no value.
    """
    return _select(value, steps_of(path), "$")


def _select(value: Any, steps: Sequence[Step], at: str) -> Any:
    for number, step in enumerate(steps):
        if not isinstance(step, slice):
            value = _inside(value, step, at)
            at = path_to(at, step) or at
            continue
        if not isinstance(value, list | Mapping):
            raise PathError(f"{at} is {describe(value)}, not a list")
        entries = cast("Mapping[str, Any] | list[Any]", value)
        items = entries if isinstance(entries, list) else list(entries.values())
        rest = steps[number + 1 :]
        selected: list[Any] = []
        missing: PathError | None = None
        for position, item in enumerate(items[step]):
            try:
                selected.append(_select(item, rest, f"{at}[{position}]"))
            except PathError as error:
                missing = error
        if missing is not None and not selected:
            raise missing
        return selected
    return value


def _inside(value: Any, step: str | int, at: str) -> Any:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        if step in entries:
            return entries[cast("str", step)]
        near = ", ".join(list(entries)[:10])
        raise PathError(f"{at} has no {step!r}; it has {len(entries)} keys: {near}"[:300])
    if isinstance(value, list) and isinstance(step, int):
        items = cast("list[Any]", value)
        if -len(items) <= step < len(items):
            return items[step]
        raise PathError(f"{at} has {len(items)} items; there is no [{step}]")
    expected = "a list" if isinstance(step, int) else "an object"
    raise PathError(f"{at} is {describe(cast('object', value))}, not {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The arguments of `read_more`, but for the handle."""

    block: int = 0
    """Structured content counts as the last block."""
    path: str | None = None
    start: int | None = None
    length: int | None = None
    find: str | None = None

    def range_of(self, total: int, unit: str) -> tuple[int, int]:
        """Return the first and the last position to read, if the range begins before the end."""
        start = self.start or 0
        if start > total or (start == total and total):
            raise InvalidArgumentsError(
                f"start={start} is behind the end: there are {total} {unit}"
            )
        return start, total if self.length is None else min(total, start + self.length)


Blocks: TypeAlias = "list[types.ContentBlock]"


def read_part(
    result: ToolResult, request: ReadRequest, limit: Limit, allowed_bytes: int, note: CutNote
) -> Blocks:
    """Return as much of the requested part as fits, and a line that says how to continue."""
    total = count_of_parts(result)
    if not 0 <= request.block < total:
        raise InvalidArgumentsError(
            f"there is no block {request.block}: the result has {total}, from 0 on"
        )
    allowed = allowed_bytes - _NOTE_BYTES
    note = replace(note, block=request.block if total > 1 else None)
    if request.find is not None:
        return _find(raw_text_of(result, request.block), request, allowed)
    if request.path is not None:
        if request.block == len(result.content):
            return _read_path(result.structured_content, request, allowed, note)
        if (value := parsed_json(raw_text_of(result, request.block))) is None:
            raise InvalidArgumentsError(
                f"block {request.block} is not JSON, so it has no paths: read it by start and "
                "length"
            )
        return _read_path(value, request, allowed, note)
    if request.start is None and request.length is None:
        # The block and as many after it as fit.
        blocks: Blocks = []
        room = allowed
        for block in result.content[request.block :]:
            room -= cost_of(block, limit)
            if room < 0:
                break
            blocks.append(_readable(block))
        if blocks:
            last = request.block + len(blocks) - 1
            following = f"; the next is block={last + 1}" if last + 1 < total else ""
            which = f"block {last}" if len(blocks) == 1 else f"blocks {request.block} to {last}"
            return [*blocks, _line(f"{which} of {total}, numbered from 0{following}")]
    return _read_text(raw_text_of(result, request.block), request, allowed)


def _readable(block: types.ContentBlock) -> types.ContentBlock:
    """Convert resources, which may be hidden from the model, to content that it reads."""
    if isinstance(block, types.ResourceLink):
        return types.TextContent(text=text_of(block) or "")
    if not isinstance(block, types.EmbeddedResource):
        return block
    converted = block_from_resource(block.resource)
    return block if isinstance(converted, types.EmbeddedResource) else converted


def _read_text(text: str, request: ReadRequest, allowed: int) -> Blocks:
    start, end = request.range_of(len(text), "characters")
    piece = text[start:end]
    if size_of_text(piece) > allowed:
        piece = head_of(piece, allowed)
    blank = " (blank)" if piece and not piece.strip() else ""
    position = _position("characters", start, start + len(piece), len(text), blank)
    return [types.TextContent(text=piece), position]


def _read_path(data: Any, request: ReadRequest, allowed: int, note: CutNote) -> Blocks:
    path = request.path or "$"
    try:
        value = select(data, path)
        note = replace(note, base=path if is_single(path) else None)
    except PathError as error:
        raise InvalidArgumentsError(str(error)) from error
    if isinstance(value, str):
        return _read_text(value, request, allowed)
    if isinstance(value, list):
        return _read_items(cast("list[Any]", value), request, allowed, note)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        start, end = request.range_of(len(entries), "keys")
        part = dict(list(entries.items())[start:end])
        shorter = cut_json(part, allowed, note)
        cut = "" if shorter is part else " (shortened)"
        line = _line(f"keys {start} to {end} of {len(entries)}{cut}")
        return [types.TextContent(text=written_json(shorter)), line]
    return [types.TextContent(text=written_json(value)), _line(f"the value at {path[:100]}")]


def _read_items(items: list[Any], request: ReadRequest, allowed: int, note: CutNote) -> Blocks:
    """Return whole items; only one that is too large by itself is cut."""
    start, end = request.range_of(len(items), "items")
    written: list[str] = []
    room = allowed - 2
    for item in items[start:end]:
        text = written_json(item)
        room -= size_of_text(text) + 2
        if room < 0:
            break
        written.append(text)
    shortened = ""
    if start < end and not written:
        item, base = items[start], None if note.base is None else f"{note.base}[{start}]"
        is_text = isinstance(item, str)
        shorter = cut_json([item] if is_text else item, allowed - 2, replace(note, base=base))
        written = [written_json(shorter[0] if is_text else shorter)]
        shortened = " (shortened: it is too large by itself)"
    position = _position("items", start, start + len(written), len(items), shortened)
    return [types.TextContent(text=f"[{', '.join(written)}]"), position]


def _find(text: str, request: ReadRequest, allowed: int) -> Blocks:
    """List the matches of a text, ignoring case, with their context."""
    pattern = re.compile(re.escape(request.find or ""), re.IGNORECASE)
    lines: list[str] = []
    room = allowed
    following: int | None = None
    for match in pattern.finditer(text, request.start or 0):
        begin = max(0, match.start() - _CONTEXT_CHARACTERS)
        context = text[begin : match.end() + _CONTEXT_CHARACTERS]
        line = f"start={match.start()}: {' '.join(context.split())}"
        room -= size_of_text(line) + 1
        if room < 0 or len(lines) == _MAX_MATCHES:
            following = match.start()
            break
        lines.append(line)
    more = "" if following is None else f"; there are more: start={following}"
    matches = types.TextContent(text="\n".join(lines) or "There is no match.")
    return [matches, _line(f"{len(lines)} places{more}")]


def _position(unit: str, start: int, end: int, total: int, remark: str) -> types.TextContent:
    following = f"; the next is start={end}" if end < total else "; this is the end"
    return _line(f"{unit} {start} to {end} of {total}{remark}{following}")


def _line(text: str) -> types.TextContent:
    return types.TextContent(text=f"[{text}]")


OWN_SERVER = "plait/results"
"""The server of the `read_more` tool; no configured server can have that name."""
READ_MORE = "read_more"
_MIN_BYTES = 600
"""Notes and the labels of blocks need so much."""
_MAX_TRIES = 12
"""Each takes a third off: the last is a hundredth of the limit."""


def _argument(kind: str, description: str, **limits: int) -> dict[str, Any]:
    return {"type": kind, **limits, "description": description}


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "handle": _argument("string", "The handle in the shortened result: r_…"),
        "block": _argument(
            "integer", "Which block of the result, from 0 on. By default the first.", minimum=0
        ),
        "path": _argument(
            "string", "For JSON: what to read, such as $.rows[100:200].name or $.rows[7]."
        ),
        "start": _argument(
            "integer",
            "Where to begin: a character of a text, an item of a list. By default 0.",
            minimum=0,
        ),
        "length": _argument(
            "integer", "How many characters or items. By default as many as fit.", minimum=1
        ),
        "find": _argument(
            "string", "Lists where this text occurs, instead of reading it.", minLength=1
        ),
    },
    "required": ["handle"],
    "additionalProperties": False,
}


class ResultLimiter:
    """Keeps the results of one client within its budget."""

    def __init__(
        self,
        budget: ResultBudget | None,
        servers: Mapping[str, ServerConfig],
        *,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take the budget, and the servers, which may change and have budgets of their own."""
        self._budget = budget
        self._servers = servers
        self._counter = counter
        kept = budget or ResultBudget()
        # Kept until they expire unread, or until newer ones need their space.
        self._kept: TTLCache[str, _FullResult] = TTLCache(
            kept.keep_bytes,
            kept.keep_seconds,
            timer=(clock or SystemClock()).monotonic,
            getsizeof=lambda full_result: full_result.size_bytes,
        )
        self._lock = threading.Lock()

    @property
    def has_limits(self) -> bool:
        """Whether any result is limited."""
        own = (server.result_budget for server in self._servers.values())
        budgets = [budget for budget in (self._budget, *own) if budget is not None]
        return any(
            not limit.is_none
            for budget in budgets
            for limit in (budget.default, *budget.tools.values())
            if limit is not None
        )

    def limits(self, server: str) -> bool:
        """Return whether any result of a server is limited."""
        return self._budget is not None or self._own_budget(server) is not None

    def _own_budget(self, server: str) -> ResultBudget | None:
        return None if (own := self._servers.get(server)) is None else own.result_budget

    def read_more_tool(self, name: str = READ_MORE) -> Tool:
        """Describe the tool that reads full results."""
        return Tool(
            server=OWN_SERVER,
            wire_name=READ_MORE,
            name=name,
            description="Read what is left out of a result that was too large and is shortened. "
            "The result names its handle.",
            input_schema=_SCHEMA,
            annotations={"read_only_hint": True, "idempotent_hint": True},
        )

    async def limited(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, or a shortened one with notes on how to read the rest."""
        limit = limit_for(call.server, call.tool, self._own_budget(call.server), self._budget)
        if limit is None:
            return result

        def shortened() -> ToolResult:
            if is_within(result, limit, self._counter):
                return result
            # 80 random bits: whoever has the handle may ask for the result.
            handle = f"r_{base64.b32encode(secrets.token_bytes(10)).decode().lower()}"
            note = CutNote(handle, reader)
            shorter = self._fit(lambda allowed: cut_result(result, limit, allowed, note), limit)
            size = sum(len(raw_text_of(result, part)) for part in range(count_of_parts(result)))
            with self._lock, contextlib.suppress(ValueError):  # larger than all there is room for
                self._kept[handle] = _FullResult(result, call.server, _owner_of(call), limit, size)
            return replace(shorter, full_result=handle)

        return await _process(result, shortened)

    def _fit(self, make: Callable[[int], ToolResult], limit: Limit) -> ToolResult:
        """Make a result that is within the limit also if the token counter exceeds the estimate."""
        allowed = limit.most_bytes
        result = make(allowed)
        for _ in range(_MAX_TRIES):
            has_room = self._counter is not None and allowed > _MIN_BYTES
            if not has_room or is_within(result, limit, self._counter):
                break
            allowed = max(_MIN_BYTES, allowed * 2 // 3)
            result = make(allowed)
        return result

    def _full_result(self, handle: str, reader: _Owner | None = None) -> _FullResult:
        """Return what is kept for a reader, and keep it for the full time again."""
        with self._lock:
            full_result = self._kept.get(handle)
            if full_result is None or not (reader is None or full_result.may_be_read_by(reader)):
                raise _expired_error(handle)
            self._kept[handle] = full_result
        return full_result

    def full_result(self, handle: str) -> ToolResult:
        """Return a full result without checking its owner, or raise `ResultExpiredError`."""
        return self._full_result(handle).result

    def server_of(self, handle: object) -> str | None:
        """Return the server that was called for a result, if the result is kept."""
        with self._lock:
            full_result = self._kept.get(handle) if isinstance(handle, str) else None
        return None if full_result is None else full_result.server

    async def answer_read_more(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of the `read_more` tool; the answer is within the limit, too."""
        arguments = dict(await checked_arguments(_SCHEMA, call.arguments, tool=call.tool))
        handle = str(arguments.pop("handle"))
        full_result = self._full_result(handle, _owner_of(call))
        result, limit = full_result.result, full_result.limit
        request, note = ReadRequest(**arguments), CutNote(handle, reader)

        def read(allowed: int) -> ToolResult:
            content = tuple(read_part(result, request, limit, allowed, note))
            return ToolResult(server=result.server, tool=READ_MORE, is_error=False, content=content)

        return await _process(result, lambda: self._fit(read, limit))


def _owner_of(call: ToolCall) -> _Owner:
    access = "" if call.access is None else call.access.key
    return _Owner(access, None if call.run is None else call.run.thread)


async def _process(result: ToolResult, work: Callable[[], ToolResult]) -> ToolResult:
    """Process a result, in a thread if it is large."""
    texts = [text_of(block) for block in result.content]
    parts = {"texts": texts, "structured": result.structured_content}
    return await in_thread(work) if is_large(parts) else work()


def _expired_error(handle: str) -> ResultExpiredError:
    return ResultExpiredError(
        f"no result is kept under {handle[:40]!r} (any more); call the tool again that returned it"
    )


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose call a result came from."""

    access: str
    """The key of the credentials; empty for the server's own."""
    thread: str | None
    """The conversation, if it is known."""


@dataclass(frozen=True, slots=True)
class _FullResult:
    """A full result, and who may read it."""

    result: ToolResult = field(repr=False)
    server: str
    """The server that was called; its fallback may have answered."""
    owner: _Owner = field(repr=False)
    limit: Limit
    size_bytes: int

    def may_be_read_by(self, other: _Owner) -> bool:
        """Say whether a caller has the same credentials, and is in the same conversation."""
        return self.owner.access == other.access and self.owner.thread in (None, other.thread)
