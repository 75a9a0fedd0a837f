"""Calling the tools of a client's servers: as overrides want it, within policy and budget."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from mcp.client.session import ElicitationFnT

from plait.client.calls.approval import OnApproval
from plait.client.calls.outcome import ToolResult
from plait.client.calls.policy_check import PolicyCheck
from plait.client.calls.result_budget.limiter import OWN_SERVER, READ_MORE, ResultLimiter
from plait.client.calls.tool_call import OnProgress, ToolCall
from plait.client.catalog.overrides import complete_arguments
from plait.client.catalog.tool import Tool
from plait.client.config.policy import PolicyDecision
from plait.client.config.servers import ServerConfig
from plait.client.connections.credentials import CallerCredentials, join
from plait.client.features import ServerFeatures
from plait.client.run_identity import Run, access_for, mark_of
from plait.client.runtime import Core
from plait.errors import PlaitError


class ToolCalls(ServerFeatures):
    """Makes calls on the servers of a client."""

    _servers: dict[str, ServerConfig]
    _limiter: ResultLimiter
    _policy_check: PolicyCheck

    async def access_for(
        self, server: str, run: Run | None, given: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        """Find out whom a run acts for on a server; what is given wins.

        Raises:
            ConfigError: A function of the run failed.
        """
        self.check_names([server])
        return join(await access_for(server, self._servers[server], run), given)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        on_elicitation: ElicitationFnT | None = None,
        on_approval: OnApproval | None = None,
        run: Run | None = None,
        reader: str = READ_MORE,
    ) -> ToolResult:
        """Call a tool by its wire name; what the tool itself calls a failure is a result.

        `on_elicitation` answers elicitation requests of this call, in a client that has an
        `on_elicitation` of its own; the time it takes does not count. `on_approval` replaces the
        client's own. `run` is passed to functions of the run, such as
        `{"configurable": {"user": "ann"}}`. `reader` is the name of the `read_more` tool that
        shortened results refer to.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        if server == OWN_SERVER:
            call = await self._reading_call(tool, arguments or {}, run)
            return await self.read_on(call, reader=reader)
        call = ToolCall(
            server=server,
            tool=tool,
            arguments=arguments or {},
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
            on_elicitation=on_elicitation,
            on_approval=on_approval,
            access=await self.access_for(server, run),
            run=mark_of(run),
        )
        return await self.carry_out(call, reader=reader)

    async def carry_out(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Make a call as overrides want it, and keep its result within the budget.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        try:
            completed = await self.completed(call, context=call)
        except PlaitError as error:
            # What overrides want is not known, because the server cannot be asked.
            result = await self._core.executor.run_instead(call, error)
        else:
            result = await self.execute(completed)
        return await self.bounded(result, call, reader=reader)

    async def _reading_call(
        self, tool: str, arguments: Mapping[str, Any], run: Run | None
    ) -> ToolCall:
        """Make a call of a tool of our own, for whom the run acts on the server it is about."""
        asked = self._limiter.server_of(arguments.get("handle"))
        access = await self.access_for(asked, run) if asked in self.server_names else None
        return ToolCall(
            server=OWN_SERVER, tool=tool, arguments=arguments, access=access, run=mark_of(run)
        )

    async def completed(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call as overrides of the tool want it: renamed, filled in, injected.

        Functions among the overrides get the `context`.
        """
        tool = await self._recall(call)
        if tool is None or tool.override is None:
            return call
        return replace(call, arguments=await complete_arguments(tool, call.arguments, context))

    async def _recall(self, call: ToolCall) -> Tool | None:
        self.check_names([call.server])
        tool = self._core.catalog.known(call.server, call.tool, call.access)
        if tool is not None:
            return tool
        return await self._on_owner(
            lambda core: core.catalog.recall(call.server, call.tool, call.access)
        )

    async def decide(
        self, server: str, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> PolicyDecision:
        """Say what the policy decides about a call, without making it or asking anybody."""
        call = ToolCall(server=server, tool=tool, arguments=arguments or {})
        call = await self.completed(call, context=call)
        return self._policy_check.decide(call, await self._recall(call))

    async def permit(self, call: ToolCall, tool: Tool) -> ToolCall:
        """Hold a call to the policy that is not made by this toolbox itself.

        Raises:
            PermissionDeniedError: It must not be made.
        """
        return await self._policy_check.permit(call, tool)

    def hides(self, tool: Tool) -> bool:
        """Say whether a tool is left out of lists, because the policy denies every call of it."""
        return self._policy_check.hides(tool)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make a call as it is.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        self.check_names([call.server])
        self._check_open()
        if not self._core.opened:
            await self._on_owner(_nothing)
        return await self._core.executor.run(call)

    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, or a shorter one if it is larger than the call's budget.

        `call` does this by itself; whoever uses `execute` does it last. `reader` is the name
        under which the model knows the tool that reads on.
        """
        return await self._limiter.limited(result, call, reader=reader)

    def own_tools(self, *, taken: Collection[str] = ()) -> list[Tool]:
        """Return the tools that the toolbox answers itself, under names that are not taken.

        With a result budget that is `read_more`, for results that are shortened; without one there
        is none. They are called like others: `call(tool.server, tool.wire_name, arguments)`.
        """
        if not self._limiter.has_limits:
            return []
        name = READ_MORE
        while name in taken:
            name = f"mcp_{name}"
        return [self._limiter.read_more_tool(name)]

    async def read_on(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of `read_more`, made by whoever made the call that was shortened.

        Raises:
            InvalidArgumentsError: The arguments are wrong.
            ResultExpiredError: The result is not kept (any more), or is somebody else's.
        """
        self._check_open()
        return await self._limiter.answer_read_more(call, reader=reader)

    def server_of_full_result(self, handle: object) -> str | None:
        """Return the server that was asked for a result that is kept, or `None`."""
        return self._limiter.server_of(handle)

    def read_full_result(self, handle: str) -> ToolResult:
        """Return the whole of a result that was shortened; for programs, whoever made the call.

        Raises:
            ResultExpiredError: It is not kept (any more).
        """
        return self._limiter.full_result(handle)

    def call_blocking(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Do what `call` does, and block until it is done."""
        return self.run_blocking(
            self.call,
            server,
            tool,
            arguments,
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
        )


async def _nothing(core: Core) -> None:
    """Do nothing; the parts are open after it."""
    del core
