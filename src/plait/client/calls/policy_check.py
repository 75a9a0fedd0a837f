"""Checks every call against the policy of its client, and requests approval where it says so."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plait.client.calls.approval import Approval, ApprovalRequest, OnApproval
from plait.client.calls.callbacks import resolve
from plait.client.catalog.tool import Tool
from plait.client.config.policy import Policy, PolicyDecision
from plait.errors import ConfigError, PermissionDeniedError

if TYPE_CHECKING:
    from plait.client.calls.tool_call import ToolCall

logger = logging.getLogger("plait.client.calls")

_NOT_SENT = "It was not sent."


class PolicyCheck:
    """Permits or denies calls; without a policy, permits all of them."""

    def __init__(self, policy: Policy | None = None, on_approval: OnApproval | None = None) -> None:
        self.policy = policy
        self._on_approval = on_approval

    def hides(self, tool: Tool) -> bool:
        """Say whether a tool is left out of lists."""
        return self.policy is not None and self.policy.hides(tool)

    def decide(self, call: ToolCall, tool: Tool | None) -> PolicyDecision:
        """Decide about a call; of an unlisted tool only the name is known."""
        if self.policy is None:
            return PolicyDecision("allow", "there is no policy")
        facts = tool or Tool(server=call.server, wire_name=call.tool, name=call.tool)
        return self.policy.decide(facts, call.arguments)

    async def permit(self, call: ToolCall, tool: Tool | None) -> ToolCall:
        """Return the call as it may be made, perhaps edited, or raise `PermissionDeniedError`."""
        if self.policy is None:
            return call
        decision = self.check(call, tool)
        if decision.verdict == "allow":
            return call
        approved = await self._approved(call, tool, decision)
        # Edited arguments need no second approval, but a rule may still deny them.
        self.check(approved, tool)
        return approved

    def check(self, call: ToolCall, tool: Tool | None) -> PolicyDecision:
        """Return the decision about a call, or raise `PermissionDeniedError` if it is denied."""
        decision = self.decide(call, tool)
        if decision.verdict == "deny":
            text = f"this call is denied by {decision.reason}. {_NOT_SENT} Do without it."
            raise _denied(call, text)
        return decision

    async def _approved(
        self, call: ToolCall, tool: Tool | None, decision: PolicyDecision
    ) -> ToolCall:
        hidden = _hidden_arguments(call, tool)
        request = ApprovalRequest(
            server=call.server,
            tool=call.tool,
            arguments={key: value for key, value in call.arguments.items() if key not in hidden},
            annotations={} if tool is None else tool.annotations,
            reason=decision.reason,
            instead_of=call.instead_of,
        )
        approval = await self._request_approval(call, request)
        if approval.decision == "reject":
            why = f": {approval.message}" if approval.message else ""
            raise _denied(call, f"the user did not approve this call{why}. {_NOT_SENT}")
        if approval.args is None:
            return call
        return replace(call, arguments={**approval.args, **hidden})

    async def _request_approval(self, call: ToolCall, request: ApprovalRequest) -> Approval:
        on_approval = call.on_approval or self._on_approval
        answer = None if on_approval is None else await resolve(on_approval(request))
        if answer is None:
            raise _denied(
                call,
                f"a person must approve this call, by {request.reason}, and no one can be asked: "
                f"set on_approval=, or use a graph with a checkpointer. {_NOT_SENT}",
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
    """Return the arguments that overrides hide from the model; they may be secret."""
    if tool is None or tool.override is None:
        return {}
    hidden = {name for name, rule in tool.override.arguments.items() if rule.hidden}
    return {name: value for name, value in call.arguments.items() if name in hidden}


def _denied(call: ToolCall, text: str) -> PermissionDeniedError:
    return PermissionDeniedError(f"{call.where}: {text}", server=call.server, tool=call.tool)
