"""Records the messages of the SDK as turns of a trace, and makes the calls of the command line.

The command line sends each block of an answer as soon as it is complete, and calls tools before
the answer ends. So a turn is recorded at the end of the answer, and calls wait for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import mcp_types as types
from claude_agent_sdk import (
    AssistantMessage,
    PermissionResultAllow,
    PermissionResultDeny,
    StreamEvent,
    SystemMessage,
    ToolPermissionContext,
    ToolResultBlock,
    UserMessage,
)

from plait.agents.agent_run import AgentRun, ToolAnswer
from plait.agents.anthropic_api import usage_from_anthropic
from plait.agents.engines.claude_agent_sdk.messages import (
    SYNTHETIC,
    content_from_block,
    text_from_result,
)
from plait.agents.engines.claude_agent_sdk.tools import CliTool
from plait.client.calls.tool_call import ToolCall
from plait.errors import AgentExecutionError, PermissionDeniedError
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.stop_reasons import UNFINISHED, cuts_calls, stop_kind
from plait.telemetry.agent_spans import describe_answer
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


@dataclass(slots=True)
class _StreamedCall:
    """A call of the open answer, as the model writes it."""

    id: str
    name: str
    texts: list[str] = field(default_factory=list[str])
    """The parts of its arguments."""


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
        self._streamed_calls: dict[int, _StreamedCall] = {}
        """The calls of the open answer, by the index of their block."""
        self._rejected: dict[str, ToolUseContent] = {}
        """The calls of answers that were cut."""
        self._claimed: set[str] = set()
        self._called: set[str] = set()
        self.sent: dict[str, str] = {}
        """The results that this process returned, as texts, by call."""
        self._early: dict[str, ToolResultBlock] = {}
        """Results of calls before their answer is complete: the command line does not wait."""
        self._changed = asyncio.Event()
        self._is_closed = False
        self.is_over = False
        """Whether the last answer ends the run, though the command line would continue."""
        self.is_spent = False
        """Whether the run has used the tokens or the money that it may use."""
        self.is_first = run.recorder.trace.turns == 0
        """Whether these are the first turns of the run."""
        self.broke_off = False
        """Whether an answer has begun, and is not complete."""
        self.retry_after: float | None = None
        """The last pause of the command line before it repeated a request."""

    def handle(self, message: object) -> None:
        """Handle the next message of the SDK."""
        match message:
            case SystemMessage(subtype="init"):
                self._run.session_id = message.data.get("session_id")
            case SystemMessage(subtype="status"):
                self._requested_at = time.monotonic()
            case SystemMessage(subtype="api_retry"):
                self._retry(message.data)
            case StreamEvent(parent_tool_use_id=None):
                self._stream(message.event)
            case AssistantMessage(parent_tool_use_id=None) if message.model != SYNTHETIC:
                names = self._names
                parts = [
                    one for block in message.content for one in content_from_block(block, names)
                ]
                if self._open is not None and self._open.message_id == message.message_id:
                    self._open.content += parts
                    return
                # It was not streamed, so this is the complete answer.
                self._drop()
                usage = dict(message.usage or {})
                self._open = _Answer(message.message_id, message.model, parts, usage, "end_turn")
                self._finish()
            case UserMessage(content=list() as blocks):  # results of the command line itself
                for block in blocks:
                    if not isinstance(block, ToolResultBlock):
                        continue
                    key = block.tool_use_id
                    call = self._requested.get(key) or self._rejected.get(key)
                    if call is not None:
                        self._result(call, block)
                    elif self._open is not None:
                        self._early[key] = block
            case _:
                pass

    def _retry(self, data: Mapping[str, Any]) -> None:
        """Record that the command line repeats a request, if there is time for it."""
        self.broke_off = False
        pause = (data.get("retry_delay_ms") or 0) / 1000
        self.retry_after = pause
        reason = f"{data.get('error_status') or ''} {data.get('error') or ''}".strip()
        left = self._run.seconds_left()
        if left is not None and pause >= left:
            raise AgentExecutionError(
                f"the provider failed ({reason}), and there is no time to try again",
                status=data.get("error_status"),
                retry_after=pause,
                retryable=True,
                retry="always",
            )
        attempt = int(data.get("attempt") or 1) + 1
        self._run.model_retry(attempt, reason, pause, data.get("error_status"))

    def close(self) -> None:
        """Release the calls that still wait for their turn."""
        self._is_closed = True
        self._drop()

    async def is_recorded(self, call_id: str) -> bool:
        """Wait for the turn that requests a call; false if its answer is incomplete."""
        ended = (self._requested, self._dropped, self._rejected)
        while not (self._is_closed or any(call_id in calls for calls in ended)):
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

    def arguments_of(self, call_id: str, received: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a call as the model wrote them, else those received."""
        call = self._requested.get(call_id)
        return received if call is None else call.input

    def claim(self, call_id: str) -> None:
        """Mark a call that this process makes and records."""
        self._claimed.add(call_id)
        self._called.add(call_id)

    def _stream(self, event: Mapping[str, Any]) -> None:
        if self.is_over:
            return  # the command line may go on, and ask the model again, until it is stopped
        match event.get("type"):
            case "message_start":
                self._reject_incomplete()
                start = event["message"]
                self.broke_off = True
                self._open = _Answer(start.get("id"), start.get("model"))
                self._open.usage.update(start.get("usage") or {})
                self._streamed_calls.clear()
            case "content_block_start":
                block: Mapping[str, Any] = event["content_block"]
                if block["type"] == "tool_use":
                    name = str(block["name"])
                    call = _StreamedCall(str(block["id"]), self._names.get(name, name))
                    self._streamed_calls[event["index"]] = call
            case "content_block_delta":
                delta: Mapping[str, Any] = event["delta"]
                call = self._streamed_calls.get(event["index"])
                record, streams = self._run.recorder.delta, self._run.settings.stream
                match delta.get("type"):
                    case "text_delta" if streams:
                        record("text", delta["text"])
                    case "thinking_delta" if streams:
                        record("thinking", delta["thinking"])
                    case "input_json_delta" if call is not None:
                        call.texts.append(delta["partial_json"])
                        if streams:
                            record("call", delta["partial_json"], call_id=call.id, name=call.name)
                    case _:
                        pass
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

    def _finish(self) -> None:
        answer, self._open = self._open, None
        self.broke_off = False
        if answer is None or self.is_over:
            return
        answer.content = [self._as_written(part) for part in answer.content]
        calls = [part for part in answer.content if isinstance(part, ToolUseContent)]
        kind = stop_kind(answer.stop_reason)
        if kind == "refused":
            self._dropped |= {call.id for call in calls}
            answer.content = [part for part in answer.content if part not in calls]
            calls = []
        usage = usage_from_anthropic(answer.usage)
        with self._run.chat_span(self._requested_at) as span:
            describe_answer(
                span,
                response_id=answer.message_id,
                model=answer.model,
                stop_reason=answer.stop_reason,
                usage=usage,
            )
        self._run.recorder.turn(
            Message(Role.ASSISTANT, answer.content),
            model=answer.model,
            usage=usage,
            seconds=round(time.monotonic() - self._requested_at, 6),
            stop_reason=answer.stop_reason,
        )
        self._run.actual_model = answer.model
        # The command line would continue after an empty answer, and after one at the token limit.
        texts = [part.text for part in answer.content if isinstance(part, TextContent)]
        is_end = answer.stop_reason in ("end_turn", "stop_sequence")
        goes_on = answer.stop_reason in (*UNFINISHED, "tool_use")
        self.is_over = not (calls or goes_on or (is_end and "".join(texts).strip()))
        if calls and self._run.is_spent():
            self.is_over = self.is_spent = True
            self._dropped |= {call.id for call in calls}
            calls = []
        is_cut = cuts_calls(answer.stop_reason)
        if is_cut:
            self._rejected |= {call.id: call for call in calls}
        for call in () if is_cut else calls:
            self._requested[call.id] = call
            if call.name not in self._local_tools:
                self._record_call(call)
        for call in calls:
            if (block := self._early.pop(call.id, None)) is not None:
                self._result(call, block)
        self._notify()

    def _as_written(self, part: Content) -> Content:
        """Return a call with the arguments that the model wrote: those received may be others.

        The command line reads a number that is too large as `null`.
        """
        if isinstance(part, ToolUseContent):
            for call in self._streamed_calls.values():
                if call.id == part.id:
                    return replace(part, input=arguments_from("".join(call.texts)))
        return part

    def _reject_incomplete(self) -> None:
        """Drop an answer without an end.

        The command line requests an empty one again. Otherwise it would keep the parts, and let
        the model continue in the middle.
        """
        has_content = self._open is not None and bool(self._open.content)
        self._drop()
        if has_content and not self.is_over:
            self.broke_off = True
            text = "the answer of the model is incomplete: run it again"
            raise AgentExecutionError(text, retryable=True, retry="always")

    def _drop(self) -> None:
        """Forget the open answer, and release its calls."""
        answer, self._open = self._open, None
        content = () if answer is None else answer.content
        self._dropped |= {part.id for part in content if isinstance(part, ToolUseContent)}
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _result(self, call: ToolUseContent, block: ToolResultBlock) -> None:
        text = text_from_result(block.content)
        if call.id in self._claimed:
            if len(text) < len(self.sent.get(call.id, "")):
                # The command line cut it: this is what the model reads.
                notes = ("shortened by the command line",)
                failed = bool(block.is_error)
                self._run.recorder.tool_returned(
                    call.id, text, is_error=failed, name=call.name, notes=notes
                )
            return
        self._claimed.add(call.id)
        if call.id in self._rejected:
            self._run.reject_call(call.id, call.name, text)
            return
        self._record_call(call)
        self._run.recorder.tool_returned(call.id, text, is_error=bool(block.is_error))

    def _record_call(self, call: ToolUseContent) -> None:
        if call.id in self._called:
            return
        self._called.add(call.id)
        self._run.record_call(call.id, call.name, call.input)


_CALL_ID: Final = "claudecode/toolUseId"
"""The metadata key with the id of the model's call."""

_INCOMPLETE: Final = (
    "This call was not made: the answer that requested it is incomplete, so its arguments may be "
    "incomplete too. Call again with shorter arguments, or in smaller steps."
)

_ENDED: Final = "This call was not made: the run has ended."


class Bridge:
    """Makes the calls of the command line, each after the turn that requests it is recorded.

    Those that the command line makes itself are checked against the policy before.
    """

    def __init__(self, run: AgentRun, tools: Mapping[str, CliTool], turns: Turns) -> None:
        self._run = run
        self._tools = tools
        self.turns = turns
        self.failure: Exception | None = None
        """The error that ends the run."""

    async def call(
        self, tool: CliTool, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Make a call of the command line."""
        arguments = params.arguments or {}
        meta_id = (params.meta or {}).get(_CALL_ID)
        call_id = await self._recorded_id(str(meta_id) if meta_id else None, tool, arguments)
        if call_id is None:
            return result_from_answer(ToolAnswer.of_text(_INCOMPLETE, is_error=True))
        name = tool.run_tool.name
        self.turns.claim(call_id)
        # As the model wrote them: the command line changes arguments that are not an object.
        arguments = self.turns.arguments_of(call_id, arguments)
        try:
            if (fault := fault_of(arguments)) is not None:
                return result_from_answer(self._run.reject_call(call_id, name, fault))
            answer = await self._run.call(call_id, name, arguments)
            self.turns.sent[call_id] = answer.text
        except Exception as error:  # noqa: BLE001  # boundary: the SDK would return it as a result
            self.failure = self.failure or error
            answer = ToolAnswer.of_text(_ENDED, is_error=True)
        return result_from_answer(answer)

    async def may_use(
        self, name: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Check a call that the command line makes itself; a person may edit its arguments."""
        tool, toolbox = self._tools.get(name), self._run.toolbox
        if tool is None:
            return PermissionResultDeny(message=f"{name} is not a tool of this run.")
        listed = tool.run_tool.listed
        if tool.is_local or listed is None or toolbox is None:
            return PermissionResultAllow()  # checked, and recorded, when this process makes it
        try:
            call_id = await self._recorded_id(context.tool_use_id, tool, arguments)
            if call_id is None:
                return PermissionResultDeny(message=_INCOMPLETE)
            written = self.turns.arguments_of(call_id, arguments)
            if (fault := fault_of(written)) is not None:
                return PermissionResultDeny(message=fault)
            call = ToolCall(
                server=listed.server,
                tool=listed.wire_name,
                arguments=written,
                on_approval=self._run.settings.tool_options.get("on_approval"),
                call_id=call_id,
            )
            sent = (await toolbox.calls.policy.permit(call, listed)).arguments
            return PermissionResultAllow(updated_input=None if sent == arguments else dict(sent))
        except PermissionDeniedError as error:
            return PermissionResultDeny(message=self._run.text_of(error))
        except Exception as error:  # noqa: BLE001  # boundary: the SDK would hide it
            self.failure = self.failure or error
            return PermissionResultDeny(message=_ENDED)

    async def _recorded_id(
        self, call_id: str | None, tool: CliTool, arguments: Mapping[str, Any]
    ) -> str | None:
        """Wait for the turn that requests a call; `None` if its answer is incomplete."""
        if call_id is None:
            call_id = await self.turns.call_id_for(tool.run_tool.name, arguments)
        return call_id if call_id and await self.turns.is_recorded(call_id) else None


def result_from_answer(answer: ToolAnswer) -> types.CallToolResult:
    """Convert an answer without structured content, which the model would read for the text."""
    content = [
        block.model_copy(update={"annotations": None, "meta": None})
        for block in answer.texts_and_images()
    ]
    return types.CallToolResult(content=list(content), is_error=answer.is_error)
