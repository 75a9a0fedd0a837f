"""The steps of a tool call: credentials, argument overrides, policy, execution, result budget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from plait.client.calls.result_budget import READ_MORE, ResultLimiter
from plait.client.calls.tool_call import RunIdentity, ToolCall
from plait.client.catalog.overrides import complete_arguments
from plait.client.connections.connection import unknown_server
from plait.client.connections.credentials import (
    CallerCredentials,
    Run,
    access_for,
    depends_on_run,
    join,
    thread_of,
)
from plait.errors import PlaitError

if TYPE_CHECKING:
    import mcp_types as types

    from plait.client.calls.approval import PolicyCheck
    from plait.client.calls.executor import CallPlan, ToolExecutor
    from plait.client.calls.outcome import ToolResult
    from plait.client.calls.runtime import Lifecycle
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import PolicyDecision
    from plait.client.config.servers import ServerConfig

_MAX_PLAIN_TOOLS = 1000
"""How many tools are remembered whose calls need no other step."""


def run_identity_of(run: Run | None) -> RunIdentity | None:
    """Return the run and conversation of a call; `None` if it has neither."""
    key, thread = (run or {}).get("run_id"), thread_of(run)
    return None if key is None and thread is None else RunIdentity(key=key, thread=thread)


class CallPipeline:
    """Makes the tool calls of a client.

    `run` takes all steps; adapters that put their own code between the steps call them one by one,
    in the order `access_for`, `apply_overrides`, `execute`, `bounded`.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        servers: Mapping[str, ServerConfig],
        *,
        policy: PolicyCheck,
        limiter: ResultLimiter,
    ) -> None:
        """Take the parts; `servers` may change later."""
        self._lifecycle = lifecycle
        self._servers = servers
        self.policy = policy
        self.limiter = limiter
        self.bounded = limiter.limited
        self.run_blocking = lifecycle.run_blocking
        self._plain: dict[tuple[str, str], CallPlan] = {}
        """The plans of tools whose calls need no step but `execute`."""

    async def run(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Apply overrides, make the call, and keep its result within the budget."""
        completed = call
        if self._lifecycle.runtime.executor.direct_tool(call.server, call.tool).plan is None:
            completed = await self.apply_overrides(call, context=call)
        result = await self.execute(completed)
        return await self.bounded(result, call, reader=reader)

    def plain(self, server: str, tool: str) -> ToolExecutor | None:
        """Return what makes the calls of a tool, if they need no other step."""
        executor = self._lifecycle.runtime.executor
        plan = executor.direct_tool(server, tool).plan
        if plan is None or self._lifecycle.closed:
            return None
        if self._plain.get((server, tool)) is plan:
            return executor
        config = self._servers.get(server)
        if config is None or depends_on_run(config) or self.limiter.limits(server):
            return None
        if server in executor.settings.fallbacks:
            return None  # functions of its overrides may need to know the request
        if len(self._plain) >= _MAX_PLAIN_TOOLS:
            self._plain.clear()
        self._plain[server, tool] = plan
        return executor

    async def access_for(
        self, server: str, run: Run | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        """Return the credentials of a run on a server; those in `access` win."""
        self.check_server(server)
        return join(await access_for(server, self._servers[server], run), access)

    async def apply_overrides(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call with the tool's overrides applied; their functions get the `context`."""
        runtime = self._lifecycle.runtime
        backup = runtime.executor.settings.fallbacks.get(call.server)
        if backup is not None:
            call = replace(call, override_context=context)
        try:
            tool = await self._tool_of(call)
        except PlaitError:
            # The server cannot list its tools; if it has a backup, that one is called.
            if backup is None:
                raise
            tool = runtime.catalog.known(backup, call.tool)
        if tool is None or tool.override is None:
            return call
        return replace(call, arguments=await complete_arguments(tool, call.arguments, context))

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make a call as it is."""
        self.check_server(call.server)
        runtime = await self._lifecycle.open()
        return await runtime.executor.run(call)

    async def run_local(
        self,
        call: ToolCall,
        tool: Tool,
        function: Callable[[ToolCall], Awaitable[ToolResult]],
        *,
        reader: str = READ_MORE,
    ) -> ToolResult:
        """Call a function of the program: permitted, counted and bounded as calls of servers."""
        runtime = await self._lifecycle.open()
        result = await runtime.executor.run_local(call, tool, function)
        return await self.bounded(result, call, reader=reader)

    async def decide(self, call: ToolCall) -> PolicyDecision:
        """Return the policy's decision about a call, without making it or asking for approval."""
        call = await self.apply_overrides(call, context=call)
        return self.policy.decide(call, await self._tool_of(call))

    async def read_more(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of `read_more`."""
        self._lifecycle.check_open()
        return await self.limiter.answer_read_more(call, reader=reader)

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource, with the credentials of a call."""
        self.check_server(server)
        return await self._lifecycle.run(
            lambda runtime: runtime.request(
                server, lambda client: client.read_resource(uri), "resources/read", access=access
            )
        )

    async def _tool_of(self, call: ToolCall) -> Tool | None:
        self.check_server(call.server)
        known = self._lifecycle.runtime.catalog.known(call.server, call.tool, call.access)
        if known is not None:
            return known
        return await self._lifecycle.run(
            lambda runtime: runtime.catalog.recall(call.server, call.tool, call.access)
        )

    def check_server(self, server: str) -> None:
        """Raise `UnknownServerError` if there is no such server."""
        if server not in self._servers:
            raise unknown_server(server, self._servers)
