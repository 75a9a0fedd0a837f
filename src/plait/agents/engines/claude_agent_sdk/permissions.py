"""The policy of a run, for calls that Claude's command line is about to make."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from plait._support.sanitize import sanitize_text
from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_agent_sdk.tools import CliTool
from plait.client.calls.approval import ApprovalRequest, OnApproval
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.overrides import complete_arguments
from plait.errors import PermissionDeniedError


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may be made."""

    arguments: Mapping[str, Any] | None = None
    """What a person wrote in place of the model's arguments, as the server gets it."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The call must not be made."""

    text: str
    """Why, for the model."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a person was shown, and what they said."""

    request: ApprovalRequest

    answer: object


class Permissions:
    """Decides about calls as the toolbox does, and asks a person once about each."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._ask: OnApproval | None = run.settings.tool_options.get("on_approval")
        self._asked: dict[str, _Asked] = {}

    async def decide(
        self, call_id: str, tool: CliTool, arguments: Mapping[str, Any], *, bridged: bool
    ) -> Allowed | Denied:
        """Decide about a call; those that are `bridged` are completed by overrides first.

        Raises:
            ConfigError: The answer of a person cannot be understood.
        """
        listed, toolbox = tool.run_tool.listed, self._run.toolbox
        if not tool.is_of_server or listed is None or toolbox is None:
            return Allowed()
        call = ToolCall(server=listed.server, tool=listed.wire_name, arguments=arguments)
        sent = await complete_arguments(listed, arguments, call) if bridged else dict(arguments)

        async def ask(request: ApprovalRequest) -> object:
            answer = await self._answer(request)
            self._asked[call_id] = _Asked(request, answer)
            return answer

        call = ToolCall(
            server=listed.server,
            tool=listed.wire_name,
            arguments=sent,
            on_approval=None if self._ask is None else ask,
        )
        try:
            permitted = await toolbox.calls.policy.permit(call, listed)
        except PermissionDeniedError as error:
            return Denied(sanitize_text(error.message) if toolbox.sanitizes else error.message)
        return Allowed(None if permitted.arguments == sent else permitted.arguments)

    def approval_of(self, call_id: str) -> OnApproval | None:
        """Return what answers as the person did who was asked about a call; `None` if nobody was.

        So they are not asked again when the call is made.
        """
        asked = self._asked.get(call_id)
        if asked is None:
            return None

        async def answer(request: ApprovalRequest) -> object:
            # A server that stands in for the one they were asked about is something else.
            return asked.answer if request == asked.request else await self._answer(request)

        return answer

    async def _answer(self, request: ApprovalRequest) -> object:
        answer = None if self._ask is None else self._ask(request)
        return cast("object", await answer) if inspect.isawaitable(answer) else answer
