"""The settings of one run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plait.errors import ConfigError
from plait.traces.events import TraceEvent


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The settings of a run; they mean the same on every engine."""

    max_turns: int = 25
    """How often the model may answer."""
    system_prompt: str | None = None
    """Used if the messages contain none."""
    timeout: float | None = None
    """Seconds for the whole run; a partial result is kept."""
    question_hash: str | None = None
    """The MD5 of the question, by which the manual engine finds its recording."""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of one engine; `task_id` names a recording."""
    workspace_path: Path | None = None
    """The working folder, on engines that have one."""
    trace: str | Path | None = None
    """The file to which the trace is appended while the run proceeds."""
    tool_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How tools are listed and called: the options of a `Toolbox`, such as `policy`,
    `on_approval` and `result_budget`. On the langchain engine `tool_interceptors`,
    `before_tool_call` and `after_tool_call` wrap each call of a server's tool."""
    on_event: Callable[[TraceEvent], None] | None = None
    """Called with each event of the trace as it happens."""
    on_interrupt: Callable[[Any], Awaitable[Any] | Any] | None = None
    """Answers the interrupts of a graph on the langchain engine, such as those for elicitation,
    approval and sign-in: takes the value of the interrupt, and returns the value to resume with.
    Without it, elicitations are declined, and calls that need approval or sign-in fail."""

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ConfigError(f"max_turns is {self.max_turns}: an agent needs at least one turn")
        if self.timeout is not None and self.timeout <= 0:
            raise ConfigError(f"timeout is {self.timeout}: use a positive number, or None")

    @property
    def task_id(self) -> str | None:
        """The name of the task, if it has one."""
        task = self.extra.get("task_id")
        return None if task is None else str(task)
