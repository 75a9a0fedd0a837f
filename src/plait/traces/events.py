"""The events of a run; each is one line of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from plait.traces.messages.message import Message
from plait.traces.messages.usage import UsageMetadata

VERSION = 1
"""The version of the format; a reader takes lines of this one and of earlier ones."""

Status = Literal["completed", "limit", "timeout", "failed", "cancelled"]
"""How a run ended."""

Action = Literal["accept", "decline", "cancel"]
"""How a question of a server was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """What every event says."""

    kind: ClassVar[str]

    run: str
    """The run that it belongs to; a file may hold several."""

    id: int
    """Its number in the run, from 0."""

    parent: int | None = None
    """The event that it follows from: a call from a turn, a result from a call."""

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
    """What the agent was given."""

    question_hash: str | None = None
    """The MD5 of the question, by which a recording is found."""

    task_id: str | None = None
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """The tools that the agent could use: `server/tool`."""

    max_turns: int | None = None
    timeout_seconds: float | None = None
    parent_run: str | None = None
    """The run that started this one."""

    plait: str | None = None
    """The version of the package that wrote it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(TraceEvent):
    """A tool is about to be called."""

    kind: ClassVar[str] = "tool_call"

    call_id: str
    name: str
    """What the model calls it."""

    server: str | None = None
    tool: str | None = None
    """What the server calls it."""

    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(TraceEvent):
    """A tool answered, or its call failed."""

    kind: ClassVar[str] = "tool_result"

    call_id: str
    name: str
    server: str | None = None
    tool: str | None = None
    content: str = ""
    """What the model reads of it."""

    is_error: bool = False
    seconds: float | None = None
    attempts: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(TraceEvent):
    """A call is made once more."""

    kind: ClassVar[str] = "retry"

    server: str
    tool: str
    attempt: int
    """Which attempt begins: 2 is the first repetition."""

    call_id: str | None = None
    reason: str | None = None
    delay_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed(TraceEvent):
    """A server that was gone is there again."""

    kind: ClassVar[str] = "heal"

    server: str
    reason: str | None = None
    """Why it was gone."""

    seconds: float | None = None
    """How long it was gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicited(TraceEvent):
    """A server asked the user something."""

    kind: ClassVar[str] = "elicitation"

    server: str
    question: str
    action: Action | None = None
    tool: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(TraceEvent):
    """Something ended the run that is no answer."""

    kind: ClassVar[str] = "failure"

    error: str
    """The class of the error."""

    message: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(TraceEvent):
    """The run is over; a trace without this event is one of a run that was killed."""

    kind: ClassVar[str] = "end"

    status: Status
    final_response: str
    turns: int
    usage: UsageMetadata = field(default_factory=UsageMetadata)
    session_id: str | None = None
    actual_model: str | None = None
    seconds: float | None = None


KINDS: Mapping[str, type[TraceEvent]] = {
    one.kind: one
    for one in (
        RunStarted,
        Turn,
        ToolCalled,
        ToolReturned,
        Retried,
        Healed,
        Elicited,
        RunFailed,
        RunEnded,
    )
}
