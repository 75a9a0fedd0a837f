"""Limits the size of results: cuts those over budget, keeps them in full, answers `read_more`."""

from __future__ import annotations

import base64
import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cachetools import TTLCache

from plait._support.clock import Clock, SystemClock
from plait._support.threads import in_thread
from plait.client.calls.arguments import checked_arguments
from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.cut import (
    CutNote,
    count_of_parts,
    cut_result,
    is_within,
    raw_text_of,
    text_of,
)
from plait.client.calls.result_budget.read import ReadRequest, read_part
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.deferral import TokenCounter
from plait.client.catalog.tool import Tool
from plait.client.config.argument_readings import is_large
from plait.client.config.budgets import Limit, ResultBudget, limit_for
from plait.client.config.servers import ServerConfig
from plait.errors import ResultExpiredError

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
