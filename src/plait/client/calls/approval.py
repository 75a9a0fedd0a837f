"""Approval of one call by a person: the request, and the answers to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from plait.client.config.raw_value import as_list, as_mapping
from plait.errors import ConfigError

Decision = Literal["approve", "edit", "reject"]

DECISIONS: Final[tuple[Decision, ...]] = ("approve", "edit", "reject")


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
    """A person's decision about a call."""

    decision: Decision
    args: Mapping[str, Any] | None = field(default=None, repr=False)
    """The arguments to call with instead, for `edit`."""
    message: str | None = None
    """The reason for a `reject`; the model reads it."""

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
