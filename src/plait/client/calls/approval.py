"""Asking a person about one call: what they are shown, and what they can answer."""

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
    """A call that a policy wants a person to look at before it is made."""

    server: str

    tool: str
    """The wire name."""

    arguments: Mapping[str, Any] = field(repr=False)
    """What the server would get, less what is hidden from the model."""

    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The hints about the tool, in snake_case; those that were not given are absent."""

    reason: str
    """Which rule wants it, and why it is there."""

    instead_of: str | None = None
    """The server that was asked first and failed, where this one stands in for it."""

    @property
    def where(self) -> str:
        """The tool's full name, for texts."""
        return f"{self.server}/{self.tool}"


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person decides about a call."""

    decision: Decision

    args: Mapping[str, Any] | None = field(default=None, repr=False)
    """The arguments to call with instead, for `edit`."""

    message: str | None = None
    """Why not, for `reject`; the model reads it."""

    def __post_init__(self) -> None:
        """Refuse what is no clear answer."""
        if self.decision not in DECISIONS:
            raise ConfigError(f"an approval is approve, edit or reject, not {self.decision!r}")
        if (self.decision == "edit") is (self.args is None):
            raise ConfigError("an approval has arguments if, and only if, it is an edit")

    @classmethod
    def read(cls, answer: object) -> Approval | None:
        """Understand an answer, or return `None` for what is no clear one.

        Besides an `Approval` that is `True`, `False`, `{"decision": "approve"}`,
        `{"decision": "edit", "args": {…}}` and `{"decision": "reject", "message": "…"}`, and what
        LangChain's own reviews are answered with.
        """
        if isinstance(answer, Approval):
            return answer
        if isinstance(answer, bool):
            return cls("approve" if answer else "reject")
        told = as_mapping(answer)
        if told is None:
            return None
        several = as_list(told.get("decisions"))
        if several is not None:
            return cls.read(several[0]) if len(several) == 1 else None
        match told.get("decision", told.get("type")):
            case "approve":
                return cls("approve")
            case "edit":
                args = _edited(told)
                return None if args is None else cls("edit", args)
            case "reject":
                said = told.get("message")
                return cls("reject", message=str(said) if said else None)
            case _:
                return None


def _edited(told: Mapping[object, object]) -> Mapping[str, Any] | None:
    within = as_mapping(told.get("edited_action")) or told
    args = as_mapping(within.get("args"))
    return None if args is None else {str(name): value for name, value in args.items()}


OnApproval = Callable[[ApprovalRequest], Awaitable[object] | object]
"""Gets a call, and returns what `Approval.read` understands; `None` leaves it to somebody else."""
