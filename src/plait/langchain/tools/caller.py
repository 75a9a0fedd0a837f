"""What makes the calls of tools: a toolbox, or an object that supports only a part of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from typing_extensions import override

from plait.client.calls.result_budget import READ_MORE

if TYPE_CHECKING:
    import mcp_types as types

    from plait.client.calls.executor import ToolExecutor
    from plait.client.calls.outcome import ToolResult
    from plait.client.calls.tool_call import ToolCall
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.toolbox import Toolbox

P = ParamSpec("P")
T = TypeVar("T")


class Caller(Protocol):
    """What makes the calls of tools: a toolbox, or a session that the user manages.

    A subclass without credentials by run, overrides or budgets inherits methods that do nothing.
    """

    def plain(self, server: str, tool: str) -> ToolExecutor | None:
        """Return what makes calls of a tool that need no other step, if they need none."""
        del server, tool
        return None

    async def access_for(
        self, server: str, run: Mapping[str, Any] | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        """Return the credentials of a run on a server; explicit credentials win."""
        del server, run
        return access

    async def apply_overrides(self, call: ToolCall, *, context: object) -> ToolCall:
        """Apply the overrides of the tool to the call."""
        del context
        return call

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make the call."""
        ...

    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, shortened if it is over the budget of the call."""
        del call, reader
        return result

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource."""
        ...

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function in the loop of the connections, and block until it is done."""
        ...


class ToolboxCaller(Caller):
    """Answers calls that no server answers with a function, and the rest with a toolbox."""

    def __init__(
        self, toolbox: Toolbox, execute: Callable[[ToolCall], Coroutine[Any, Any, ToolResult]]
    ) -> None:
        self._toolbox = toolbox
        self._execute = execute
        self.read_resource = toolbox.read_resource
        self.run_blocking = toolbox.run_blocking

    @override
    async def access_for(
        self, server: str, run: Mapping[str, Any] | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        if server not in self._toolbox.server_names:
            return None
        return await self._toolbox.calls.access_for(server, run, access)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make the call."""
        return await self._execute(call)
