"""The steps of a tool call: credentials, argument overrides, policy, execution, result budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cachetools import LRUCache

from plait._support.threads import is_imported
from plait.client.calls.result_budget.limiter import READ_MORE, ResultLimiter
from plait.client.catalog.overrides import complete_arguments
from plait.client.connections.credentials import CallerCredentials, join
from plait.client.connections.pool import unknown_server
from plait.client.connections.session import OPENING
from plait.client.run_identity import Run, access_for, depends_on_run
from plait.errors import PlaitError

if TYPE_CHECKING:
    import mcp_types as types

    from plait.client.calls.direct import DirectTool
    from plait.client.calls.outcome import ToolResult
    from plait.client.calls.policy_check import PolicyCheck
    from plait.client.calls.tool_call import FirstAttempt, ToolCall
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import PolicyDecision
    from plait.client.config.servers import ServerConfig
    from plait.client.lifecycle import Lifecycle

_MOST_DIRECT = 1000
"""How many tools keep what their direct calls have in common."""


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
        self._direct_tools: LRUCache[tuple[str, str], DirectTool] = LRUCache(_MOST_DIRECT)

    async def run(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Apply overrides, make the call, and keep its result within the budget.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        first = await self._direct_attempt(call)
        if first is not None:
            from plait.client.calls.direct import result_of_direct  # noqa: PLC0415  # imports the SDK

            if (direct_result := await result_of_direct(call, first)) is not None:
                return direct_result
            call = replace(call, first=first)
        result = await self.execute(await self.apply_overrides(call, context=call))
        return await self.bounded(result, call, reader=reader)

    def direct(self, server: str, tool: str) -> DirectTool:
        """Return what makes direct calls of a tool."""
        from plait.client.calls.direct import DirectTool  # noqa: PLC0415  # imports the SDK

        return DirectTool(server, tool, self._lifecycle, self._may_be_direct)

    def _may_be_direct(self, server: str) -> bool:
        """Return whether calls of a server need no credentials of a run, and no budget."""
        config = self._servers.get(server)
        return not (config is None or depends_on_run(config) or self.limiter.limits(server))

    async def _direct_attempt(self, call: ToolCall) -> FirstAttempt | None:
        """Make a call directly, if it needs nothing else."""
        if not call.is_plain or not is_imported(OPENING):  # else there is no session yet
            return None
        key = (call.server, call.tool)
        if key not in self._direct_tools:
            self._direct_tools[key] = self.direct(call.server, call.tool)
        return await self._direct_tools[key].call(call.arguments)

    async def access_for(
        self, server: str, run: Run | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        """Return the credentials of a run on a server; those in `access` win."""
        self.check_server(server)
        return join(await access_for(server, self._servers[server], run), access)

    async def apply_overrides(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call with the tool's overrides applied; their functions get the `context`."""
        try:
            tool = await self._tool_of(call)
        except PlaitError:
            # The server cannot list its tools; if it has a backup, that one is called.
            runtime = self._lifecycle.runtime
            backup = runtime.executor.settings.fallbacks.get(call.server)
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
