"""What makes the calls of tools: a toolbox, or something that can do less."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar

import mcp_types as types

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.limiter import READ_MORE
from plait.client.calls.tool_call import ToolCall
from plait.client.connections.credentials import Access

P = ParamSpec("P")
T = TypeVar("T")


class Caller(Protocol):
    """What makes the calls: a toolbox, or a session that the user manages."""

    async def access_for(
        self, server: str, run: Mapping[str, Any] | None, given: Access | None = None
    ) -> Access | None:
        """Find out whom a run acts for on a server; what is given wins."""
        ...

    async def completed(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call as overrides of the tool want it."""
        ...

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make the call."""
        ...

    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, or a shorter one if it is larger than the budget of the call."""
        ...

    async def read(
        self, server: str, uri: str, *, access: Access | None = None
    ) -> types.ReadResourceResult:
        """Read a resource."""
        ...

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run something where calls can be made, and block until it is done."""
        ...


class PlainCaller:
    """The part of a caller that knows neither users nor overrides nor budgets."""

    async def access_for(
        self, server: str, run: Mapping[str, Any] | None, given: Access | None = None
    ) -> Access | None:
        """Return what is given, whatever the run."""
        del server, run
        return given

    async def completed(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call as it is."""
        del context
        return call

    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result as it is."""
        del call, reader
        return result
