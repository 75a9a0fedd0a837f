"""PausedCalls every call to the policy of its client, and asking a person where it says so."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plait.client.calls.approval import Approval, ApprovalRequest, OnApproval
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.config.policy import Policy, PolicyDecision
from plait.errors import ConfigError, PermissionDeniedError

logger = logging.getLogger("plait.client.calls")

_NOT_SENT = "It was not sent."


class PolicyCheck:
    """Lets calls through, or not; without a policy, all of them."""

    def __init__(self, policy: Policy | None = None, on_approval: OnApproval | None = None) -> None:
        self.policy = policy
        self._on_approval = on_approval

    def hides(self, tool: Tool) -> bool:
        """Say whether a tool is left out of lists."""
        return self.policy is not None and self.policy.hides(tool)

    def decide(self, call: ToolCall, tool: Tool | None) -> PolicyDecision:
        """Decide about a call; of a tool that is not listed, only the name is known."""
        if self.policy is None:
            return PolicyDecision("allow", "there is no policy")
        facts = tool or Tool(server=call.server, wire_name=call.tool, name=call.tool)
        return self.policy.decide(facts, call.arguments)

    async def permit(self, call: ToolCall, tool: Tool | None) -> ToolCall:
        """Return the call as it may be made; a person may have changed its arguments.

        Raises:
            PermissionDeniedError: It must not be made.
        """
        if self.policy is None:
            return call
        decision = self.checked(call, tool)
        if decision.verdict == "allow":
            return call
        answered = await self._asked(call, tool, decision)
        # What a person wrote needs no approval of anybody else, but a rule may still forbid it.
        self.checked(answered, tool)
        return answered

    def checked(self, call: ToolCall, tool: Tool | None) -> PolicyDecision:
        """Decide about a call that is not denied, whoever approves of it.

        Raises:
            PermissionDeniedError: It is denied.
        """
        decision = self.decide(call, tool)
        if decision.verdict == "deny":
            text = f"this call is denied by {decision.reason}. {_NOT_SENT} Do without it."
            raise _denied(call, text)
        return decision

    async def _asked(self, call: ToolCall, tool: Tool | None, decision: PolicyDecision) -> ToolCall:
        hidden = _hidden_arguments(call, tool)
        shown = {name: one for name, one in call.arguments.items() if name not in hidden}
        request = ApprovalRequest(
            server=call.server,
            tool=call.tool,
            arguments=shown,
            annotations={} if tool is None else tool.annotations,
            reason=decision.reason,
            instead_of=call.instead_of,
        )
        approval = await self._answer(call, request)
        if approval.decision == "reject":
            why = f": {approval.message}" if approval.message else ""
            raise _denied(call, f"the user did not approve this call{why}. {_NOT_SENT}")
        if approval.args is None:
            return call
        return replace(call, arguments={**approval.args, **hidden})

    async def _answer(self, call: ToolCall, request: ApprovalRequest) -> Approval:
        ask = call.on_approval or self._on_approval
        answer = None if ask is None else ask(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            raise _denied(
                call,
                f"a person must approve this call, by {request.reason}, and there is nobody to "
                f"ask: give on_approval=, or a checkpointer to the graph. {_NOT_SENT}",
            )
        approval = Approval.read(answer)
        if approval is None:
            raise ConfigError(
                f"{call.where}: on_approval must return True, False, an Approval or "
                '{"decision": "approve" | "edit" | "reject"}',
                server=call.server,
            )
        logger.info("%s: %s by a person (%s)", call.where, approval.decision, request.reason)
        return approval


def _hidden_arguments(call: ToolCall, tool: Tool | None) -> Mapping[str, Any]:
    """Return what overrides put in behind the model's back: it may be secret."""
    if tool is None or tool.override is None:
        return {}
    rules = tool.override.arguments
    return {
        name: value
        for name, value in call.arguments.items()
        if name in rules and rules[name].hidden
    }


def _denied(call: ToolCall, text: str) -> PermissionDeniedError:
    return PermissionDeniedError(f"{call.where}: {text}", server=call.server, tool=call.tool)
