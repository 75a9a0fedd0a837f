"""The steps of a tool call: credentials, argument overrides, policy, execution, result budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import mcp_types as types

from plait.client.calls.outcome import ToolResult
from plait.client.calls.policy_check import PolicyCheck
from plait.client.calls.result_budget.limiter import READ_MORE, ResultLimiter
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.overrides import complete_arguments
from plait.client.catalog.tool import Tool
from plait.client.config.policy import PolicyDecision
from plait.client.config.servers import ServerConfig
from plait.client.connections.credentials import CallerCredentials, join
from plait.client.connections.pool import unknown_server
from plait.client.lifecycle import Lifecycle
from plait.client.run_identity import Run, access_for
from plait.errors import PlaitError


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
        self.run_blocking = lifecycle.run_blocking

    async def run(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Apply overrides, make the call, and keep its result within the budget.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        try:
            completed = await self.apply_overrides(call, context=call)
        except PlaitError as error:
            # The server could not list its tools, so their overrides are unknown: try the backup.
            result = await self._lifecycle.runtime.executor.run_instead(call, error)
        else:
            result = await self.execute(completed)
        return await self.bounded(result, call, reader=reader)

    async def access_for(
        self, server: str, run: Run | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        """Return the credentials of a run on a server; those in `access` win.

        Raises:
            ConfigError: A function that returns credentials failed.
        """
        self._check_server(server)
        return join(await access_for(server, self._servers[server], run), access)

    async def apply_overrides(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call with the arguments that the tool's overrides rename, fill in and inject.

        Functions among the overrides get the `context`.
        """
        tool = await self._tool_of(call)
        if tool is None or tool.override is None:
            return call
        return replace(call, arguments=await complete_arguments(tool, call.arguments, context))

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make a call as it is.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        self._check_server(call.server)
        runtime = await self._lifecycle.open()
        return await runtime.executor.run(call)

    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, shortened if it is larger than the call's budget.

        `reader` is the name under which the model knows the tool that reads the rest.
        """
        return await self.limiter.limited(result, call, reader=reader)

    async def decide(self, call: ToolCall) -> PolicyDecision:
        """Return the policy's decision about a call, without making it or asking for approval."""
        call = await self.apply_overrides(call, context=call)
        return self.policy.decide(call, await self._tool_of(call))

    async def read_more(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of `read_more`.

        Raises:
            InvalidArgumentsError: The arguments are wrong.
            ResultExpiredError: The result is not kept any more, or belongs to another user.
        """
        self._lifecycle.check_open()
        return await self.limiter.answer_read_more(call, reader=reader)

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource, with the credentials of a call.

        Raises:
            ResourceNotFoundError: The server has no such resource.
        """
        self._check_server(server)
        return await self._lifecycle.run(
            lambda runtime: runtime.request(
                server, lambda client: client.read_resource(uri), "resources/read", access=access
            )
        )

    async def _tool_of(self, call: ToolCall) -> Tool | None:
        self._check_server(call.server)
        known = self._lifecycle.runtime.catalog.known(call.server, call.tool, call.access)
        if known is not None:
            return known
        return await self._lifecycle.run(
            lambda runtime: runtime.catalog.recall(call.server, call.tool, call.access)
        )

    def _check_server(self, server: str) -> None:
        if server not in self._servers:
            raise unknown_server(server, self._servers)
