"""What the SDK tells of a run, as turns of a trace.

The command line tells of each block of an answer as soon as it is complete, and begins to call
tools before the whole answer is there. So a turn is recorded when the provider says that the
answer is at its end, and calls wait for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from claude_agent_sdk import (
    AssistantMessage,
    StreamEvent,
    SystemMessage,
    ToolResultBlock,
    UserMessage,
)

from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_agent_sdk.content import text_from_result
from plait.agents.engines.claude_agent_sdk.messages import (
    SYNTHETIC,
    content_from_block,
    usage_from_api,
)
from plait.agents.engines.claude_agent_sdk.tools import CliTool
from plait.errors import AgentExecutionError
from plait.traces.messages.content import Content, TextContent, ToolUseContent
from plait.traces.messages.message import Message, Role

_FULL: Final = ("max_tokens", "model_context_window_exceeded")

_UNFINISHED: Final = ("pause_turn", "compaction")
"""Reasons to stop after which the model goes on when it is asked again."""


@dataclass(slots=True)
class _Answer:
    """An answer of the model that is still on its way."""

    message_id: str | None

    model: str | None = None

    content: list[Content] = field(default_factory=list[Content])

    usage: dict[str, Any] = field(default_factory=dict[str, Any])

    stop_reason: str | None = None


class Turns:
    """Records the turns of a run, and the calls that the command line makes by itself."""

    def __init__(
        self, run: AgentRun, tools: Mapping[str, CliTool], *, bridged: bool = True
    ) -> None:
        self._run = run
        self._names = {name: tool.run_tool.name for name, tool in tools.items()}
        self._here = {
            tool.run_tool.name for tool in tools.values() if bridged or not tool.is_of_server
        }
        """The tools whose calls are made in this process, which records them."""
        self._open: _Answer | None = None
        self._asked_at = time.monotonic()
        self._wishes: dict[str, ToolUseContent] = {}
        self._dropped: set[str] = set()
        self._claimed: set[str] = set()
        self._called: set[str] = set()
        self._early: dict[str, ToolResultBlock] = {}
        """Results of calls whose answer is still on its way: the command line does not wait."""
        self._changed = asyncio.Event()
        self._is_closed = False
        self.is_over = False
        """Whether the last answer ends the run, though the command line would ask again."""

    def hear(self, message: object) -> None:
        """Take the next message of the SDK.

        Raises:
            AgentExecutionError: An answer was cut off.
        """
        match message:
            case SystemMessage(subtype="init"):
                self._run.session_id = message.data.get("session_id")
            case SystemMessage(subtype="status"):
                self._asked_at = time.monotonic()
            case StreamEvent(parent_tool_use_id=None):
                self._stream(message.event)
            case AssistantMessage(parent_tool_use_id=None) if message.model != SYNTHETIC:
                self._said(message)
            case UserMessage(content=list()):
                self._results(message)
            case _:
                pass

    def close(self) -> None:
        """Let go of whoever still waits for a turn: there will be none."""
        self._is_closed = True
        self._drop()

    async def is_recorded(self, call_id: str) -> bool:
        """Wait for the turn that asks for a call; false if its answer was cut off."""
        while not (call_id in self._wishes or call_id in self._dropped or self._is_closed):
            await self._changed.wait()
        return call_id in self._wishes

    async def call_id_for(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Wait for the turn that asks for a call of that look, which nobody has made yet."""
        while True:
            for wish in self._wishes.values():
                is_free = wish.id not in self._claimed
                if is_free and (wish.name, wish.input) == (name, arguments):
                    return wish.id
            if self._is_closed:
                return None
            await self._changed.wait()

    def claim(self, call_id: str) -> None:
        """Say that a call is made in this process, which records it."""
        self._claimed.add(call_id)
        self._called.add(call_id)

    def _stream(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._cut_off()
                begun = event["message"]
                self._open = _Answer(begun.get("id"), begun.get("model"))
                self._open.usage.update(begun.get("usage") or {})
            case "message_delta" if self._open is not None:
                counted: Mapping[str, Any] = event.get("usage") or {}
                known = {name: one for name, one in counted.items() if one is not None}
                self._open.usage.update(known)
                self._open.stop_reason = event["delta"].get("stop_reason")
            case "message_stop" if self._open is not None:
                if self._open.stop_reason is None:
                    self._cut_off()
                else:
                    self._finish()
            case _:
                pass

    def _said(self, message: AssistantMessage) -> None:
        parts = [
            part for block in message.content for part in content_from_block(block, self._names)
        ]
        if self._open is None or self._open.message_id != message.message_id:
            # It did not come as a stream, so this is the whole of it.
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
        is_full = answer.stop_reason in _FULL
        said = [part for part in answer.content if not (is_full and part in calls)]
        self._run.recorder.turn(
            Message(Role.ASSISTANT, said),
            model=answer.model,
            usage=usage_from_api(answer.usage),
            seconds=round(time.monotonic() - self._asked_at, 6),
        )
        self._run.actual_model = answer.model
        if is_full and calls:
            raise AgentExecutionError(
                f"the answer of the model ended in the middle of a call ({answer.stop_reason}): "
                f"raise max_tokens, which is {self._run.model_config.max_tokens}, or give it less "
                "to read"
            )
        for call in calls:
            self._wishes[call.id] = call
            if call.name not in self._here:
                self._record_call(call)
        for call in calls:
            if (block := self._early.pop(call.id, None)) is not None:
                self._result(call, block)
        self.is_over = not calls and _would_go_on(answer)
        self._tell()

    def _cut_off(self) -> None:
        """Give up an answer that did not come to its end.

        One of which nothing was there yet is asked for again. What was there the command line
        would keep, and have the model go on in the middle of it.
        """
        has_said = self._open is not None and bool(self._open.content)
        self._drop()
        if has_said and not self.is_over:
            raise AgentExecutionError("the answer of the model was cut off: run it again")

    def _drop(self) -> None:
        """Forget the answer that is on its way, and let go of its calls."""
        answer, self._open = self._open, None
        content = () if answer is None else answer.content
        self._dropped |= {part.id for part in content if isinstance(part, ToolUseContent)}
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _results(self, message: UserMessage) -> None:
        """Record what the command line answered by itself."""
        for block in message.content:
            if not isinstance(block, ToolResultBlock):
                continue
            if (wish := self._wishes.get(block.tool_use_id)) is not None:
                self._result(wish, block)
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
        tool = self._run.tools.get(call.name)
        self._run.recorder.tool_called(
            call.id,
            call.name,
            call.input,
            server=None if tool is None else tool.server,
            tool=None if tool is None else tool.wire_name,
        )


def _would_go_on(answer: _Answer) -> bool:
    """Say whether the command line asks again after an answer that is the last one to us.

    It does so after one without a word, and after one that was cut at the longest it may be.
    """
    if answer.stop_reason in (*_UNFINISHED, "tool_use"):
        return False
    has_text = any(isinstance(part, TextContent) and part.text.strip() for part in answer.content)
    return not has_text or answer.stop_reason not in ("end_turn", "stop_sequence")
