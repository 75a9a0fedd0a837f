"""The events of a run; each is one line of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from plait.traces.messages.message import Message, Role, UsageMetadata

VERSION = 1
"""The version of the format; readers support it and all earlier ones."""

Status = Literal["completed", "truncated", "refused", "limit", "timeout", "failed", "cancelled"]
"""How a run ended; `truncated` and `refused` are last answers that were cut, or refused."""

_ANSWERS: Final = (Role.ASSISTANT, Role.TOOL)

Action = Literal["accept", "decline", "cancel"]
"""The answer to an elicitation."""

Decision = Literal["approve", "edit", "reject", "deny"]
"""What became of a call that the policy does not simply allow; `deny` is without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """The fields of every event."""

    kind: ClassVar[str]
    run: str
    """The id of its run; a file may contain several."""
    id: int
    """Its number in the run, from 0."""
    parent: int | None = None
    """The event that caused it: the turn of a call, the call of a result."""
    time: str
    """The time of day, in UTC: `2026-02-03T04:05:06.789Z`."""
    at: float
    """Seconds since the run began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(TraceEvent):
    """A run began."""

    kind: ClassVar[str] = "run"
    interface: str
    model: str | None = None
    messages: tuple[Message, ...] = ()
    """The input of the agent."""
    question_hash: str | None = None
    """The MD5 of the question, by which a recording is found."""
    task_id: str | None = None
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """The tools of the agent: `server/tool`."""
    max_turns: int | None = None
    timeout_seconds: float | None = None
    parent_run: str | None = None
    """The run that started this one."""
    continues: str | None = None
    """The run whose conversation this one continues."""
    omitted: int | None = None
    """How many messages of that conversation a file omits here, because it has them there."""
    plait: str | None = None
    """The version of plait that wrote it."""
    unreached: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why servers of the run could not be used, by their names."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The endpoint, temperature and other settings of the model, and the policy of the run."""
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The digests of the definitions of the tools, by `server/tool`: see `ToolDefined`."""

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages of the input that the model has not answered before this run."""
        if self.continues is None:
            return self.messages
        places = range(len(self.messages), 0, -1)
        last = next((n for n in places if self.messages[n - 1].role in _ANSWERS), 0)
        return self.messages[last:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefined(TraceEvent):
    """The definition of a tool as the model knows it; a file stores each digest once."""

    kind: ClassVar[str] = "tool"
    digest: str
    name: str
    """The name for the model."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized(TraceEvent):
    """A long conversation was replaced by a summary."""

    kind: ClassVar[str] = "summary"
    text: str
    model: str | None = None
    usage: UsageMetadata | None = None


DeltaKind = Literal["text", "thinking", "call"]
"""What a part of an answer belongs to: its text, its thinking, or the arguments of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(TraceEvent):
    """A part of an answer that is being streamed; its `Turn` has the complete answer."""

    kind: ClassVar[str] = "delta"
    part: DeltaKind
    text: str = ""
    call_id: str | None = None
    """The call whose arguments these are."""
    name: str | None = None
    """The tool of that call, for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(TraceEvent):
    """A model answered."""

    kind: ClassVar[str] = "turn"
    number: int
    """From 1."""
    message: Message
    model: str | None = None
    usage: UsageMetadata | None = None
    seconds: float | None = None
    stop_reason: str | None = None
    """Why the model stopped, as the provider names it."""
    node: str | None = None
    """The node of a graph in which it answered: `sub-graph/node`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(TraceEvent):
    """A tool is about to be called."""

    kind: ClassVar[str] = "tool_call"
    call_id: str
    name: str
    """The name for the model."""
    server: str | None = None
    tool: str | None = None
    """The name on the server."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    node: str | None = None
    """The node of a graph that called it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultImage:
    """An image in the result of a tool."""

    mime_type: str
    digest: str
    """The SHA-256 of its bytes, in hexadecimal."""
    size_bytes: int
    data: str | None = field(default=None, repr=False)
    """The bytes, in base64; `None` if they are too many, or with an earlier result of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(TraceEvent):
    """A tool returned a result, or its call failed."""

    kind: ClassVar[str] = "tool_result"
    call_id: str
    name: str
    server: str | None = None
    tool: str | None = None
    content: str = ""
    """The text for the model."""
    is_error: bool = False
    seconds: float | None = None
    """How long the call took, without what it waited for people."""
    waited_seconds: float | None = None
    """How long it waited for approvals and answers to elicitations; `None` if for none."""
    attempts: int = 1
    notes: tuple[str, ...] = ()
    images: tuple[ResultImage, ...] = ()
    """Its images, for which `content` has a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided(TraceEvent):
    """A call was denied by the policy, or somebody decided about it."""

    kind: ClassVar[str] = "approval"
    server: str
    tool: str
    decision: Decision
    by: Literal["person", "program", "policy"]
    """Who decided: a `person` whom plait has asked, or a `program`, such as `on_approval`, what
    resumes a graph, or `--yes`; the policy also denies a call where nobody can be asked."""
    reason: str
    """The rule that denies the call, or requires approval."""
    call_id: str | None = None
    arguments: Mapping[str, Any] | None = None
    """The arguments of the call after an `edit`."""
    message: str | None = None
    """The reason for a `reject`, or how a program came to its decision."""
    seconds: float | None = None
    """How long the decision took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(TraceEvent):
    """A call is retried."""

    kind: ClassVar[str] = "retry"
    server: str
    tool: str
    attempt: int
    """The number of the attempt: 2 is the first retry."""
    call_id: str | None = None
    reason: str | None = None
    delay_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetried(TraceEvent):
    """A request to the model is repeated."""

    kind: ClassVar[str] = "model_retry"
    attempt: int
    """The number of the attempt: 2 is the first retry."""
    reason: str | None = None
    delay_seconds: float | None = None
    status: int | None = None
    """The HTTP status of the failure, where there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed(TraceEvent):
    """A lost server is connected again."""

    kind: ClassVar[str] = "heal"
    server: str
    reason: str | None = None
    """Why the connection was lost."""
    seconds: float | None = None
    """How long it was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicited(TraceEvent):
    """A server sent an elicitation."""

    kind: ClassVar[str] = "elicitation"
    server: str
    question: str
    action: Action | None = None
    tool: str | None = None
    call_id: str | None = None
    seconds: float | None = None
    """How long the answer took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(TraceEvent):
    """An error ended the run."""

    kind: ClassVar[str] = "failure"
    error: str
    """The class of the error."""
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(TraceEvent):
    """The run ended; a run that was killed has no such event."""

    kind: ClassVar[str] = "end"
    status: Status
    final_response: str
    turns: int
    usage: UsageMetadata = field(default_factory=UsageMetadata)
    session_id: str | None = None
    actual_model: str | None = None
    seconds: float | None = None
    stop_reason: str | None = None
    """Why the model stopped in its last answer."""


_ALL = (
    *(ToolDefined, RunStarted, Summarized, Delta, Turn, ToolCalled, ToolReturned),
    *(ApprovalDecided, Retried, ModelRetried, Healed, Elicited, RunFailed, RunEnded),
)

KINDS: Mapping[str, type[TraceEvent]] = {event.kind: event for event in _ALL}
"""The classes of events, by their names in the format."""
