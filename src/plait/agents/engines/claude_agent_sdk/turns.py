"""Records the messages of the SDK as turns of a trace.

The command line sends each block of an answer as soon as it is complete, and calls tools before
the answer ends. So a turn is recorded at the end of the answer, and calls wait for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    StreamEvent,
    SystemMessage,
    ToolResultBlock,
    UserMessage,
)

from plait.agents.agent_run import AgentRun
from plait.agents.anthropic_api import TRUNCATED, UNFINISHED, truncated_call, usage_from_anthropic
from plait.agents.engines.claude_agent_sdk.messages import (
    SYNTHETIC,
    content_from_block,
    text_from_result,
)
from plait.agents.engines.claude_agent_sdk.tools import CliTool
from plait.errors import AgentExecutionError
from plait.traces.messages.content import Content, TextContent, ToolUseContent
from plait.traces.messages.message import Message, Role


@dataclass(slots=True)
class _Answer:
    """An answer of the model that is not complete yet."""

    message_id: str | None
    model: str | None = None
    content: list[Content] = field(default_factory=list[Content])
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    stop_reason: str | None = None


class Turns:
    """Records the turns of a run, and the calls that the command line makes by itself."""

    def __init__(self, run: AgentRun, tools: Mapping[str, CliTool]) -> None:
        self._run = run
        self._names = {name: tool.run_tool.name for name, tool in tools.items()}
        self._local_tools = {tool.run_tool.name for tool in tools.values() if tool.is_local}
        """The tools whose calls are recorded when this process makes them."""
        self._open: _Answer | None = None
        self._requested_at = time.monotonic()
        self._requested: dict[str, ToolUseContent] = {}
        self._dropped: set[str] = set()
        self._claimed: set[str] = set()
        self._called: set[str] = set()
        self._early: dict[str, ToolResultBlock] = {}
        """Results of calls before their answer is complete: the command line does not wait."""
        self._changed = asyncio.Event()
        self._is_closed = False
        self.is_over = False
        """Whether the last answer ends the run, though the command line would continue."""

    def handle(self, message: object) -> None:
        """Handle the next message of the SDK."""
        match message:
            case SystemMessage(subtype="init"):
                self._run.session_id = message.data.get("session_id")
            case SystemMessage(subtype="status"):
                self._requested_at = time.monotonic()
            case StreamEvent(parent_tool_use_id=None):
                self._stream(message.event)
            case AssistantMessage(parent_tool_use_id=None) if message.model != SYNTHETIC:
                self._add_blocks(message)
            case UserMessage(content=list()):
                self._results(message)
            case _:
                pass

    def close(self) -> None:
        """Release the calls that still wait for their turn."""
        self._is_closed = True
        self._drop()

    async def is_recorded(self, call_id: str) -> bool:
        """Wait for the turn that requests a call; false if its answer is incomplete."""
        while not (call_id in self._requested or call_id in self._dropped or self._is_closed):
            await self._changed.wait()
        return call_id in self._requested

    async def call_id_for(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Wait for the turn that requests such a call, and that is not made yet."""
        while True:
            for call in self._requested.values():
                is_free = call.id not in self._claimed
                if is_free and (call.name, call.input) == (name, arguments):
                    return call.id
            if self._is_closed:
                return None
            await self._changed.wait()

    def claim(self, call_id: str) -> None:
        """Mark a call that this process makes and records."""
        self._claimed.add(call_id)
        self._called.add(call_id)

    def _stream(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._reject_incomplete()
                start = event["message"]
                self._open = _Answer(start.get("id"), start.get("model"))
                self._open.usage.update(start.get("usage") or {})
            case "message_delta" if self._open is not None:
                usage: Mapping[str, Any] = event.get("usage") or {}
                known = {name: count for name, count in usage.items() if count is not None}
                self._open.usage.update(known)
                self._open.stop_reason = event["delta"].get("stop_reason")
            case "message_stop" if self._open is not None:
                if self._open.stop_reason is None:
                    self._reject_incomplete()
                else:
                    self._finish()
            case _:
                pass

    def _add_blocks(self, message: AssistantMessage) -> None:
        names = self._names
        parts = [part for block in message.content for part in content_from_block(block, names)]
        if self._open is None or self._open.message_id != message.message_id:
            # It was not streamed, so this is the complete answer.
            self._drop()
            usage = dict(message.usage or {})
            self._open = _Answer(message.message_id, message.model, parts, usage, "end_turn")
            self._finish()
        else:
            self._open.content += parts

    def _finish(self) -> None:
        answer, self._open = self._open, None
        if answer is None or self.is_over:
            return
        calls = [part for part in answer.content if isinstance(part, ToolUseContent)]
        is_truncated = answer.stop_reason in TRUNCATED
        content = [part for part in answer.content if not (is_truncated and part in calls)]
        self._run.recorder.turn(
            Message(Role.ASSISTANT, content),
            model=answer.model,
            usage=usage_from_anthropic(answer.usage),
            seconds=round(time.monotonic() - self._requested_at, 6),
        )
        self._run.actual_model = answer.model
        if is_truncated and calls:
            raise AgentExecutionError(
                truncated_call(str(answer.stop_reason), self._run.model_config.max_tokens)
            )
        for call in calls:
            self._requested[call.id] = call
            if call.name not in self._local_tools:
                self._record_call(call)
        for call in calls:
            if (block := self._early.pop(call.id, None)) is not None:
                self._result(call, block)
        self.is_over = not calls and _would_continue(answer)
        self._notify()

    def _reject_incomplete(self) -> None:
        """Drop an answer without an end.

        The command line requests an empty one again. Otherwise it would keep the parts, and let
        the model continue in the middle.
        """
        has_content = self._open is not None and bool(self._open.content)
        self._drop()
        if has_content and not self.is_over:
            raise AgentExecutionError("the answer of the model is incomplete: run it again")

    def _drop(self) -> None:
        """Forget the open answer, and release its calls."""
        answer, self._open = self._open, None
        content = () if answer is None else answer.content
        self._dropped |= {part.id for part in content if isinstance(part, ToolUseContent)}
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _results(self, message: UserMessage) -> None:
        """Record results of the command line itself."""
        for block in message.content:
            if not isinstance(block, ToolResultBlock):
                continue
            if (call := self._requested.get(block.tool_use_id)) is not None:
                self._result(call, block)
            elif self._open is not None:
                self._early[block.tool_use_id] = block

    def _result(self, call: ToolUseContent, block: ToolResultBlock) -> None:
        if call.id in self._claimed:
            return
        self._claimed.add(call.id)
        self._record_call(call)
        text = text_from_result(block.content)
        self._run.recorder.tool_returned(call.id, text, is_error=bool(block.is_error))

    def _record_call(self, call: ToolUseContent) -> None:
        if call.id in self._called:
            return
        self._called.add(call.id)
        self._run.record_call(call.id, call.name, call.input)


def _would_continue(answer: _Answer) -> bool:
    """Check whether the command line continues after an answer that is the last one for us.

    It does so after an empty answer, and after one at the token limit.
    """
    if answer.stop_reason in (*UNFINISHED, "tool_use"):
        return False
    has_text = any(isinstance(part, TextContent) and part.text.strip() for part in answer.content)
    return not has_text or answer.stop_reason not in ("end_turn", "stop_sequence")
