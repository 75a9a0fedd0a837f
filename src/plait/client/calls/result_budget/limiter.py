"""The result budget of a client: what is too large is cut, kept, and read on from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import mcp_types as types

from plait._support.clock import Clock
from plait._support.threads import in_thread
from plait.client.calls.arguments import argument_error_text, prepare_arguments
from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.cut_result import cut_result
from plait.client.calls.result_budget.full_result import FullResult, FullResultStore, Owner
from plait.client.calls.result_budget.marks import Mark
from plait.client.calls.result_budget.parts import count_of_parts, is_within, raw_text_of, text_of
from plait.client.calls.result_budget.read import Reading, read_part
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tokens import TokenCounter
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import prepare
from plait.client.config.budgets import Limit, ResultBudget, limit_for
from plait.client.config.servers import ServerConfig
from plait.errors import InvalidArgumentsError, ResultExpiredError

OWN_SERVER = "plait/results"
"""Where the tool that reads on stands instead of a server; no server can have that name."""

READ_MORE = "read_more"

_LARGE_BYTES = 256_000
"""From this size on, work on a result would keep an event loop from its other work."""

_LEAST_BYTES = 600
_MOST_TRIES = 12

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "The handle in the shortened result: r_…"},
        "block": {
            "type": "integer",
            "minimum": 0,
            "description": "Which block of the result, from 0 on. By default the first.",
        },
        "path": {
            "type": "string",
            "description": "For JSON: what to read, such as $.rows[100:200].name or $.rows[7].",
        },
        "start": {
            "type": "integer",
            "minimum": 0,
            "description": "Where to begin: a character of a text, an item of a list. "
            "By default 0.",
        },
        "length": {
            "type": "integer",
            "minimum": 1,
            "description": "How many characters or items. By default as many as fit.",
        },
        "find": {
            "type": "string",
            "minLength": 1,
            "description": "Lists where this stands in the text, instead of reading it.",
        },
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
        self._store = FullResultStore(
            keep_seconds=kept.keep_seconds, keep_bytes=kept.keep_bytes, clock=clock
        )

    @property
    def has_limits(self) -> bool:
        """Whether anything is limited."""
        own = (server.result_budget for server in self._servers.values())
        budgets = [budget for budget in (self._budget, *own) if budget is not None]
        return any(
            not limit.is_none
            for budget in budgets
            for limit in (budget.default, *budget.tools.values())
            if limit is not None
        )

    def read_more_tool(self, name: str = READ_MORE) -> Tool:
        """Describe the tool that reads on, under a name that is free."""
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
        """Return the result, or a shorter one that says how to read on in it."""
        own = self._servers.get(call.server)
        limit = limit_for(
            call.server, call.tool, None if own is None else own.result_budget, self._budget
        )
        if limit is None:
            return result
        return await _aside(result, self._limited, result, call, limit, reader)

    def _limited(self, result: ToolResult, call: ToolCall, limit: Limit, reader: str) -> ToolResult:
        if is_within(result, limit, self._counter):
            return result
        handle = FullResultStore.new_handle()
        mark = Mark(handle, reader)
        shorter = self._fitted(
            lambda allowed: cut_result(result, limit, allowed, mark),
            lambda made: is_within(made, limit, self._counter),
            limit,
        )
        size = _size(result)
        full_result = FullResult(
            result=result, server=call.server, owner=owner_of(call), limit=limit, size_bytes=size
        )
        self._store.put(handle, full_result)
        return replace(shorter, full_result=handle)

    def _fitted(
        self,
        make: Callable[[int], ToolResult],
        fits: Callable[[ToolResult], bool],
        limit: Limit,
    ) -> ToolResult:
        """Make something small enough also for a counter that counts more than is estimated."""
        allowed = limit.most_bytes
        made = make(allowed)
        for _ in range(_MOST_TRIES):
            if self._counter is None or fits(made) or allowed <= _LEAST_BYTES:
                break
            allowed = max(_LEAST_BYTES, allowed * 2 // 3)
            made = make(allowed)
        return made

    def full_result(self, handle: str) -> ToolResult:
        """Return the whole result, whoever it belongs to; for programs, not for models.

        Raises:
            ResultExpiredError: It is not kept (any more).
        """
        full_result = self._store.get(handle)
        if full_result is None:
            raise _expired(handle)
        return full_result.result

    def server_of(self, handle: object) -> str | None:
        """Return the server that was asked for a result, if that is kept."""
        full_result = self._store.peek(handle) if isinstance(handle, str) else None
        return None if full_result is None else full_result.server

    async def answer_read_more(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of the tool that reads on.

        Raises:
            InvalidArgumentsError: The arguments are wrong.
            ResultExpiredError: The result is not kept (any more), or is somebody else's.
        """
        prepared = prepare_arguments(await prepare(_SCHEMA), call.arguments, tool=call.tool)
        if prepared.problems:
            text = argument_error_text(call.tool, prepared.problems)
            raise InvalidArgumentsError(text, tool=call.tool)
        asked = dict(prepared.arguments)
        handle = str(asked.pop("handle"))
        return await self.read(handle, Reading(**asked), owner_of(call), reader=reader)

    async def read(
        self, handle: str, reading: Reading, owner: Owner, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Read a part of a result that is kept; what is returned is within its limit, too.

        Raises:
            InvalidArgumentsError: There is no such block, path or position.
            ResultExpiredError: The result is not kept (any more), or is somebody else's.
        """
        full_result = self._store.peek(handle)
        if full_result is None or not full_result.owner.is_also(owner):
            raise _expired(handle)
        self._store.get(handle)
        mark = Mark(handle, reader)
        return await _aside(full_result.result, self._read, full_result, reading, mark)

    def _read(self, full_result: FullResult, reading: Reading, mark: Mark) -> ToolResult:
        def read(allowed: int) -> ToolResult:
            blocks = read_part(full_result.result, reading, full_result.limit, allowed, mark)
            return _answer(full_result.result, blocks)

        return self._fitted(
            read, lambda made: is_within(made, full_result.limit, self._counter), full_result.limit
        )


def owner_of(call: ToolCall) -> Owner:
    """Say whose call it is."""
    access = "" if call.access is None else call.access.key
    return Owner(access, None if call.run is None else call.run.thread)


def _answer(result: ToolResult, blocks: list[types.ContentBlock]) -> ToolResult:
    return ToolResult(server=result.server, tool=READ_MORE, is_error=False, content=tuple(blocks))


def _size(result: ToolResult) -> int:
    return sum(len(raw_text_of(result, part)) for part in range(count_of_parts(result)))


async def _aside(result: ToolResult, work: Callable[..., ToolResult], *args: Any) -> ToolResult:
    """Work on a result where that keeps nobody waiting."""
    texts = [text for block in result.content if (text := text_of(block)) is not None]
    if sum(map(len, texts)) < _LARGE_BYTES and _is_small(result.structured_content):
        return work(*args)
    return await in_thread(work, *args)


def _is_small(value: Any) -> bool:
    """Look at a value for as long as it may be small."""
    room = _LARGE_BYTES
    waiting: list[Any] = [value]
    while waiting and room > 0:
        one = waiting.pop()
        if isinstance(one, str):
            room -= len(one)
        elif isinstance(one, Mapping):
            room -= 16 * len(cast("Mapping[str, Any]", one))
            waiting += cast("Mapping[str, Any]", one).values() if room > 0 else ()
        elif isinstance(one, list):
            room -= 8 * len(cast("list[Any]", one))
            waiting += cast("list[Any]", one) if room > 0 else ()
    return room > 0


def _expired(handle: str) -> ResultExpiredError:
    return ResultExpiredError(
        f"no result is kept under {handle[:40]!r} (any more); call the tool again that returned it"
    )
