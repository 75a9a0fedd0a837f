"""The bridge from Claude's command line to the toolbox: permissions and calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import mcp_types as types
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext

from plait._support.gather import resolve
from plait.agents.agent_run import AgentRun, ToolAnswer
from plait.agents.engines.claude_agent_sdk.tools import CliTool
from plait.agents.engines.claude_agent_sdk.turns import Turns
from plait.client.calls.approval import ApprovalRequest, OnApproval
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.overrides import complete_arguments
from plait.errors import PermissionDeniedError
from plait.models.call_arguments import fault_of

_CALL_ID: Final = "claudecode/toolUseId"
"""The metadata key with the id of the model's call."""

_INCOMPLETE: Final = (
    "This call was not made: the answer that requested it is incomplete, so its arguments may be "
    "incomplete too. Call again with shorter arguments, or in smaller steps."
)

_ENDED: Final = "This call was not made: the run has ended."


class Bridge:
    """Makes the calls of the command line, each after the turn that requests it is recorded.

    Calls are checked against the policy as the toolbox does, and a person is asked once about each.
    """

    def __init__(self, run: AgentRun, tools: Mapping[str, CliTool], turns: Turns) -> None:
        self._run = run
        self._tools = tools
        self._turns = turns
        self._on_approval: OnApproval | None = run.settings.tool_options.get("on_approval")
        self._decisions: dict[str, tuple[ApprovalRequest, object]] = {}
        self.failure: Exception | None = None
        """The error that ends the run."""

    async def call(
        self, tool: CliTool, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Make a call of the command line."""
        return result_from_answer(await self._answer(tool, params))

    async def may_use(
        self, name: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Check the policy before the command line makes a call."""
        tool = self._tools.get(name)
        if tool is None:
            return PermissionResultDeny(message=f"{name} is not a tool of this run.")
        try:
            return await self._decide(tool, arguments, context.tool_use_id)
        except Exception as error:  # noqa: BLE001  # boundary: the SDK would hide it
            self.failure = self.failure or error
            return PermissionResultDeny(message=_ENDED)

    async def _decide(
        self, tool: CliTool, received: Mapping[str, Any], call_id: str | None
    ) -> PermissionResultAllow | PermissionResultDeny:
        recorded_id = await self._recorded_id(call_id, tool, received)
        if recorded_id is None:
            return PermissionResultDeny(message=_INCOMPLETE)
        arguments = self._turns.arguments_of(recorded_id, received)
        fault, edited = fault_of(arguments), None
        if fault is None:
            try:
                edited = await self._edited(recorded_id, tool, arguments)
            except PermissionDeniedError as error:
                fault = self._run.text_of(error)
        if fault is not None:
            if tool.is_local:
                # It fails with the same text there, so the trace is as on other engines.
                await self._call(recorded_id, tool, arguments)
            return PermissionResultDeny(message=fault)
        if tool.is_local:
            # A person's edit is applied when the call is made, after the overrides.
            return PermissionResultAllow()
        sent = arguments if edited is None else edited
        return PermissionResultAllow(updated_input=None if sent == received else dict(sent))

    async def _answer(self, tool: CliTool, params: types.CallToolRequestParams) -> ToolAnswer:
        arguments = params.arguments or {}
        meta_id = (params.meta or {}).get(_CALL_ID)
        call_id = await self._recorded_id(str(meta_id) if meta_id else None, tool, arguments)
        if call_id is None:
            return ToolAnswer.of_text(_INCOMPLETE, is_error=True)
        try:
            return await self._call(call_id, tool, arguments)
        except Exception as error:  # noqa: BLE001  # boundary: the SDK would return it as a result
            self.failure = self.failure or error
            return ToolAnswer.of_text(_ENDED, is_error=True)

    async def _recorded_id(
        self, call_id: str | None, tool: CliTool, arguments: Mapping[str, Any]
    ) -> str | None:
        """Wait for the turn that requests a call; `None` if its answer is incomplete."""
        if call_id is None:
            call_id = await self._turns.call_id_for(tool.run_tool.name, arguments)
        return call_id if call_id and await self._turns.is_recorded(call_id) else None

    async def _call(self, call_id: str, tool: CliTool, arguments: Mapping[str, Any]) -> ToolAnswer:
        self._turns.claim(call_id)
        # As the model wrote them: the command line changes arguments that are not an object.
        arguments = self._turns.arguments_of(call_id, arguments)
        if (fault := fault_of(arguments)) is not None:
            return self._run.reject_call(call_id, tool.run_tool.name, fault)
        approval = self._approval_of(call_id)
        name = tool.run_tool.name
        answer = await self._run.call(call_id, name, arguments, on_approval=approval)
        self._turns.sent[call_id] = answer.text
        return answer

    async def _edited(
        self, call_id: str, tool: CliTool, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Check a call against the policy, and return its arguments if a person edited them.

        Overrides complete the arguments of a local call first.
        """
        listed, toolbox = tool.run_tool.listed, self._run.toolbox
        if not tool.is_of_server or listed is None or toolbox is None:
            return None
        call = ToolCall(server=listed.server, tool=listed.wire_name, arguments=arguments)
        sent = await complete_arguments(listed, arguments, call) if tool.is_local else arguments

        async def ask(request: ApprovalRequest) -> object:
            answer = await self._ask(request)
            self._decisions[call_id] = (request, answer)
            return answer

        on_approval = None if self._on_approval is None else ask
        # A local call is checked again, and recorded, when it is made.
        recorded_id = None if tool.is_local else call_id
        call = replace(call, arguments=sent, on_approval=on_approval, call_id=recorded_id)
        permitted = await toolbox.calls.policy.permit(call, listed)
        return None if permitted.arguments == sent else permitted.arguments

    def _approval_of(self, call_id: str) -> OnApproval | None:
        """Return a callback that repeats the decision about a call; `None` if there is none."""
        if call_id not in self._decisions:
            return None
        known_request, known_answer = self._decisions[call_id]

        async def answer(request: ApprovalRequest) -> object:
            # A request for a fallback server differs, and needs its own decision.
            return known_answer if request == known_request else await self._ask(request)

        return answer

    async def _ask(self, request: ApprovalRequest) -> object:
        return None if self._on_approval is None else await resolve(self._on_approval(request))


def result_from_answer(answer: ToolAnswer) -> types.CallToolResult:
    """Convert an answer without structured content, which the model would read for the text."""
    content = [
        block.model_copy(update={"annotations": None, "meta": None})
        for block in answer.texts_and_images()
    ]
    return types.CallToolResult(content=list(content), is_error=answer.is_error)
