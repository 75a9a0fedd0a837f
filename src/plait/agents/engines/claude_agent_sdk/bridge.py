"""Between Claude's command line and the toolbox: calls, and the question whether to make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext

from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_agent_sdk.content import result_from_answer
from plait.agents.engines.claude_agent_sdk.permissions import Denied, Permissions
from plait.agents.engines.claude_agent_sdk.tools import CliTool
from plait.agents.engines.claude_agent_sdk.turns import Turns
from plait.agents.run_tools import ToolAnswer

_CALL_ID: Final = "claudecode/toolUseId"
"""Where the command line says which call of the model it makes."""

_CUT_OFF: Final = "This call was not made: the answer that asked for it was cut off."

_ENDED: Final = "This call was not made: the run is at its end."


class Bridge:
    """Makes the calls of the command line through the run, each after the turn that asks for it.

    `bridged` says whether servers are asked by the toolbox, or by the command line itself.
    """

    def __init__(
        self, run: AgentRun, tools: Mapping[str, CliTool], turns: Turns, *, bridged: bool
    ) -> None:
        self._run = run
        self._tools = tools
        self._turns = turns
        self._bridged = bridged
        self._permissions = Permissions(run)
        self.failure: Exception | None = None
        """What must end the run."""

    async def call(
        self, tool: CliTool, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Make a call."""
        return result_from_answer(await self._answer(tool, params))

    async def may_use(
        self, name: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Decide about a call before the command line makes it."""
        tool = self._tools.get(name)
        if tool is None:
            return PermissionResultDeny(message=f"{name} is not a tool of this run.")
        try:
            return await self._decided(tool, arguments, context.tool_use_id)
        except Exception as error:  # noqa: BLE001  # boundary: the SDK would keep it to itself
            self.failure = self.failure or error
            return PermissionResultDeny(message=_ENDED)

    async def _decided(
        self, tool: CliTool, arguments: Mapping[str, Any], call_id: str | None
    ) -> PermissionResultAllow | PermissionResultDeny:
        is_bridged = self._bridged or not tool.is_of_server
        if call_id is None:
            call_id = await self._turns.call_id_for(tool.run_tool.name, arguments)
        if call_id is None or not await self._turns.is_recorded(call_id):
            return PermissionResultDeny(message=_CUT_OFF)
        decision = await self._permissions.decide(call_id, tool, arguments, bridged=is_bridged)
        if isinstance(decision, Denied):
            if is_bridged:
                # The toolbox denies it in the same words; so the trace has it as from elsewhere.
                await self._made(call_id, tool, arguments)
            return PermissionResultDeny(message=decision.text)
        if is_bridged or decision.arguments is None:
            # What a person changed is put in where the call is made, behind the overrides.
            return PermissionResultAllow()
        return PermissionResultAllow(updated_input=dict(decision.arguments))

    async def _answer(self, tool: CliTool, params: types.CallToolRequestParams) -> ToolAnswer:
        arguments = params.arguments or {}
        given = (params.meta or {}).get(_CALL_ID)
        call_id = str(given) if given else None
        if call_id is None:
            call_id = await self._turns.call_id_for(tool.run_tool.name, arguments)
        if call_id is None or not await self._turns.is_recorded(call_id):
            return ToolAnswer.of_text(_CUT_OFF, is_error=True)
        try:
            return await self._made(call_id, tool, arguments)
        except Exception as error:  # noqa: BLE001  # boundary: the SDK would make a result of it
            self.failure = self.failure or error
            return ToolAnswer.of_text(_ENDED, is_error=True)

    async def _made(self, call_id: str, tool: CliTool, arguments: Mapping[str, Any]) -> ToolAnswer:
        self._turns.claim(call_id)
        approval = self._permissions.approval_of(call_id)
        return await self._run.call(call_id, tool.run_tool.name, arguments, on_approval=approval)
