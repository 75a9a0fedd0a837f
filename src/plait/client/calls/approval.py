"""Checks calls against the policy of their client, and requests approval where it says so."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from plait._support.gather import resolve
from plait._support.threads import in_thread
from plait.client.calls.arguments import copy_of
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.config.argument_readings import is_large
from plait.client.config.policy import Policy, PolicyDecision
from plait.client.config.raw_value import as_list, as_mapping
from plait.errors import ConfigError, InvalidArgumentsError, PermissionDeniedError
from plait.telemetry.spans import waiting_span

Decision = Literal["approve", "edit", "reject"]

DECISIONS: Final[tuple[Decision, ...]] = ("approve", "edit", "reject")

logger = logging.getLogger("plait.client.calls")

_NOT_SENT_TEXT = "It was not sent."


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that a policy wants a person to approve."""

    server: str
    tool: str
    """The wire name."""
    arguments: Mapping[str, Any] = field(repr=False)
    """What the server would get, without what is hidden from the model."""
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The annotations of the tool that are set, in snake_case."""
    reason: str
    """The rule that requires approval, and its reason."""
    instead_of: str | None = None
    """The server that failed, if this one is its fallback."""

    @property
    def where(self) -> str:
        """The tool's full name, for texts."""
        return f"{self.server}/{self.tool}"


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision about a call that needs approval."""

    decision: Decision
    args: Mapping[str, Any] | None = field(default=None, repr=False)
    """The arguments to call with instead, for `edit`."""
    message: str | None = None
    """The reason for a `reject`, which the model reads, or how a program came to its decision."""
    by: Literal["person", "program"] = "program"
    """Who decided; traces record it. Say `person` only where a person was asked about the tool."""

    def __post_init__(self) -> None:
        """Refuse contradictions."""
        if self.decision not in DECISIONS:
            raise ConfigError(f"an approval is approve, edit or reject, not {self.decision!r}")
        if (self.decision == "edit") is (self.args is None):
            raise ConfigError("an approval has arguments if, and only if, it is an edit")

    @classmethod
    def read(cls, answer: object) -> Approval | None:
        """Parse an answer; return `None` if it is not clear.

        Takes an `Approval`, `True`, `False`, `{"decision": "approve"}`,
        `{"decision": "edit", "args": {…}}`, `{"decision": "reject", "message": "…"}`, and the
        decisions of LangChain's human-in-the-loop middleware.
        """
        if isinstance(answer, Approval):
            return answer
        if isinstance(answer, bool):
            return cls("approve" if answer else "reject")
        fields = as_mapping(answer)
        if fields is None:
            return None
        decisions = as_list(fields.get("decisions"))
        if decisions is not None:
            return cls.read(decisions[0]) if len(decisions) == 1 else None
        match fields.get("decision", fields.get("type")):
            case "approve":
                return cls("approve")
            case "edit":
                args = as_mapping((as_mapping(fields.get("edited_action")) or fields).get("args"))
                return None if args is None else cls("edit", {str(key): args[key] for key in args})
            case "reject":
                message = fields.get("message")
                return cls("reject", message=str(message) if message else None)
            case _:
                return None


OnApproval = Callable[[ApprovalRequest], Awaitable[object] | object]
"""Gets a call, and returns what `Approval.read` takes; `None` means that no one can be asked."""


OnDecision = Callable[[ToolCall, str, Approval | None, float | None], None]
"""Gets a call that is denied or needs approval, the rule, and the answer if there is one.

The number is how many seconds the answer took.
"""


class PolicyCheck:
    """Permits or denies calls; without a policy, permits all of them."""

    def __init__(self, policy: Policy | None = None, on_approval: OnApproval | None = None) -> None:
        self.policy = policy
        self.on_decision: OnDecision | None = None
        """Called with denied calls and answered requests, for traces."""
        self._on_approval = on_approval

    @property
    def uses_hints(self) -> bool:
        """Whether the policy decides by what servers say of their tools."""
        return self.policy is not None and self.policy.uses_annotations

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
        decision = await self.check(call, tool)
        hints = hints_of(tool)
        if decision.verdict == "allow":
            return replace(call, decided_hints=hints) if self.uses_hints else call
        approved = await self._approved_call(call, tool, decision)
        # Edited arguments need no second approval, but a rule may still deny them.
        await self.check(approved, tool)
        return replace(approved, decided_hints=hints)

    async def with_own_arguments(self, call: ToolCall) -> ToolCall:
        """Return the call with a copy of its arguments, which no other code can change."""
        if self.policy is None:
            return call
        arguments = dict(call.arguments)
        try:
            own = await in_thread(copy_of, arguments) if is_large(arguments) else copy_of(arguments)
        except RecursionError:
            text = f"the arguments are nested too deeply. {_NOT_SENT_TEXT}"
            raise call.error(InvalidArgumentsError, text) from None
        return replace(call, arguments=own)

    async def check(self, call: ToolCall, tool: Tool | None) -> PolicyDecision:
        """Return the decision about a call, or raise `PermissionDeniedError` if it is denied."""
        if self.policy is not None and is_large(call.arguments):
            decision = await in_thread(self.decide, call, tool)
        else:
            decision = self.decide(call, tool)
        if decision.verdict == "deny":
            self._report(call, decision.reason, None)
            text = f"this call is denied by {decision.reason}. {_NOT_SENT_TEXT} Do without it."
            raise call.error(PermissionDeniedError, text)
        return decision

    async def _approved_call(
        self, call: ToolCall, tool: Tool | None, decision: PolicyDecision
    ) -> ToolCall:
        """Request approval, and return the call with the arguments that were approved."""
        # The values of arguments that overrides hide from the model may be secret.
        names: set[str] = set()
        if tool is not None and tool.override is not None:
            names = {name for name, rule in tool.override.arguments.items() if rule.hidden}
        hidden = {name: value for name, value in call.arguments.items() if name in names}
        shown = {name: value for name, value in call.arguments.items() if name not in names}
        request = ApprovalRequest(
            server=call.server,
            tool=call.tool,
            # A callback that changes what it shows must not change what is sent.
            arguments=copy_of(shown),
            annotations=hints_of(tool),
            reason=decision.reason,
            instead_of=call.instead_of,
        )
        on_approval = call.on_approval or self._on_approval
        began = time.monotonic()
        with waiting_span("approval"):
            answer = None if on_approval is None else await resolve(on_approval(request))
        if answer is None:
            self._report(call, decision.reason, None)
            raise call.error(
                PermissionDeniedError,
                f"a person must approve this call, by {decision.reason}, and no one can be asked: "
                f"set on_approval=, or use a graph with a checkpointer. {_NOT_SENT_TEXT}",
            )
        approval = Approval.read(answer)
        if approval is None:
            raise ConfigError(
                f"{call.where}: on_approval must return True, False, an Approval or "
                '{"decision": "approve" | "edit" | "reject"}',
                server=call.server,
            )
        decided = f"{approval.decision} by a {approval.by}"
        logger.info("%s: %s (%s)", call.where, decided, decision.reason)
        self._report(call, decision.reason, approval, time.monotonic() - began)
        if approval.decision == "reject":
            why = f": {approval.message}" if approval.message else ""
            text = f"this call was not approved{why}. {_NOT_SENT_TEXT}"
            raise call.error(PermissionDeniedError, text)
        if approval.args is None:
            return call
        return replace(call, arguments=copy_of({**approval.args, **hidden}))

    def _report(
        self, call: ToolCall, reason: str, approval: Approval | None, seconds: float | None = None
    ) -> None:
        if self.on_decision is not None:
            self.on_decision(call, reason, approval, seconds)


def hints_of(tool: Tool | None) -> Mapping[str, Any]:
    """Return the annotations of a tool; none of one that is not listed."""
    return {} if tool is None else tool.annotations
