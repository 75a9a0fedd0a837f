"""The engine `claude_agent_sdk`: Claude's command line, through the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import mcp_types as types
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLINotFoundError,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    ToolPermissionContext,
    ToolResultBlock,
    UserMessage,
)
from typing_extensions import override

from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun, ToolAnswer, retry_pause
from plait.agents.anthropic_api import NO_KEY, anthropic_url, usage_from_anthropic
from plait.agents.config import ModelConfig
from plait.agents.engines.claude_agent_sdk.messages import (
    SYNTHETIC,
    content_from_block,
    query_from_messages,
    text_from_result,
)
from plait.agents.engines.claude_agent_sdk.tools import CliTool, cli_tools, sdk_servers, server_keys
from plait.agents.live_agent import Ending, LiveAgent
from plait.agents.model_failures import advice_for, endpoint_of, key_names
from plait.client.calls.tool_call import ToolCall
from plait.client.config.servers import HttpServer, ServerConfig, SseServer, StdioServer
from plait.errors import AgentExecutionError, ConfigError, PermissionDeniedError
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.endpoints import is_loopback, is_transient, origin_of
from plait.models.stop_reasons import UNFINISHED, cuts_calls, stop_kind
from plait.telemetry.agent_spans import describe_answer
from plait.traces.messages.message import (
    Content,
    Message,
    Role,
    TextContent,
    ToolUseContent,
    UsageMetadata,
)


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
    """Records the turns of a run, and the calls that the command line makes by itself.

    The command line sends each block of an answer as soon as it is complete, and calls tools before
    the answer ends. So a turn is recorded at the end of the answer, and calls wait for that.
    """

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


_INTERRUPT_SECONDS: Final = 3.0
"""How long the command line may take to stop before it is killed."""

MAX_STDERR_LINES: Final = 20
"""The last lines of the command line say why it failed."""


class ClaudeSDKAgent(LiveAgent):
    """Runs agents on Claude's command line, with only the tools of the run."""

    engine: ClassVar[str] = "claude_agent_sdk"

    @property
    @override
    def sent_temperature(self) -> None:
        """Nothing: the command line has no setting for it."""
        return

    @override
    async def drive(self, run: AgentRun) -> Ending:
        """Run sessions until one ends; one whose answer broke off is followed by another.

        The command line itself repeats requests that fail before an answer begins.
        """
        attempt = 1
        while True:
            turns, ending = await self._session(run)
            if not isinstance(ending, AgentExecutionError):
                return ending
            pause = retry_pause(run.model_config, ending, attempt, run.seconds_left())
            if pause is None or not turns.broke_off or run.turns_left < 1:
                raise ending
            attempt += 1
            run.model_retry(attempt, str(ending), pause, ending.status)
            await asyncio.sleep(pause)

    async def _session(self, run: AgentRun) -> tuple[Turns, Ending | AgentExecutionError]:
        """Run one session, which begins after the turns so far."""
        bridged = not run.settings.extra.get("pass_through_servers")
        if not bridged and run.toolbox is not None:
            # The command line lists and calls tools in its own sessions, so that some rules cannot
            # be kept.
            refused = {
                "a lockfile": run.toolbox.lock_report().mode == "block",
                "a rule about annotations": run.toolbox.calls.policy.uses_hints,
            }
            for what in (what for what, is_set in refused.items() if is_set):
                text = f"{what} cannot hold with pass_through_servers: remove one of them"
                raise ConfigError(text)
        servers = () if run.toolbox is None else run.toolbox.server_names
        tools = cli_tools(run.tools.values(), servers, bridged=bridged)
        turns = Turns(run, tools)
        bridge = Bridge(run, tools, turns)
        lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="plait-claude-"))
        try:
            options = await asyncio.to_thread(
                options_for, run, folder, tools, bridge, bridged=bridged, stderr=lines.append
            )
            try:
                return turns, await _Session(run, ClaudeSDKClient(options), bridge, lines).run()
            except AgentExecutionError as error:
                return turns, error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


ClaudeSDKAgentAdapter = ClaudeSDKAgent
"""The same class, under the name of its original."""


@dataclass(slots=True)
class _Session:
    _run: AgentRun
    _client: ClaudeSDKClient
    _bridge: Bridge
    _lines: deque[str]

    async def run(self) -> Ending:
        """Run until there is an answer, or the turn limit; afterwards nothing is left running."""
        try:
            await self._client.connect()
            await self._client.query(query_from_messages(self._run.conversation))
            messages = cast("AsyncGenerator[object]", self._client.receive_messages())
            async with contextlib.aclosing(messages), asyncio.timeout(None) as limit:
                async for message in messages:
                    self._bridge.turns.handle(message)
                    if self._bridge.failure is not None:
                        raise self._bridge.failure
                    if isinstance(message, ResultMessage):
                        return self._ended(message)
                    if self._bridge.turns.is_over and limit.when() is None:
                        # Otherwise it would continue; now it reports the usage.
                        limit.reschedule(asyncio.get_running_loop().time() + _INTERRUPT_SECONDS)
                        await self._client.interrupt()
            raise AgentExecutionError(
                "claude_agent_sdk: the command line ended without a result", stderr=self._stderr
            )
        except BaseException as error:
            # Otherwise it would continue for seconds with what it has begun.
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_INTERRUPT_SECONDS):
                    await self._client.interrupt()
            if self._bridge.turns.is_over and isinstance(error, Exception):
                # There is an answer; its usage is the sum of the turns.
                return "limit" if self._bridge.turns.is_spent else "completed"
            if isinstance(error, ClaudeSDKError):
                raise execution_error(error, self._run.redact, self._stderr) from error
            raise
        finally:
            self._bridge.turns.close()
            await self._client.disconnect()

    def _ended(self, result: ResultMessage) -> Ending:
        if self._bridge.turns.is_first:  # else the usage is the sum of the turns
            usage, one = usage_from_result(result), UsageMetadata(1, 1, 2)
            models = result.model_usage or ()
            if usage is not None and any(self._run.cost_of(name, one) is None for name in models):
                # The command line counts models that it does not know at the price of another.
                usage = replace(usage, cost_usd=None)
            self._run.usage = usage
        if self._bridge.turns.is_over:
            return "limit" if self._bridge.turns.is_spent else "completed"
        try:
            return ending_of(result, self._run.model_config, self._run.redact, self._stderr)
        except AgentExecutionError as error:
            error.retry_after = error.retry_after or self._bridge.turns.retry_after
            raise

    @property
    def _stderr(self) -> str | None:
        return self._run.redact("\n".join(self._lines)) or None


_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

MAX_EXCERPT_CHARACTERS = 400
"""Errors of the command line are long; its first lines say what failed."""

_PASSING = re.compile(r"temporar|connection|timed out|overloaded", re.IGNORECASE)
"""Words in a failure of the API that may pass, if it has no HTTP status."""


def usage_from_result(result: ResultMessage) -> UsageMetadata | None:
    """Add up the usage of all models of a run; `None` if none is reported."""
    models = cast("Mapping[str, Mapping[str, Any]]", result.model_usage or {})
    if not models:
        return None
    inputs, outputs, cache_read, cache_written = (
        sum(usage.get(name) or 0 for usage in models.values()) for name in _COUNTS
    )
    return UsageMetadata(
        input_tokens=inputs,
        output_tokens=outputs,
        total_tokens=inputs + outputs,
        cost_usd=result.total_cost_usd,
        cache_read_tokens=cache_read,
        cache_creation_tokens=cache_written,
    )


def ending_of(
    result: ResultMessage, config: ModelConfig, redact: Redactor, stderr: str | None
) -> Ending:
    """Return how the run ended."""
    if result.subtype in ("error_max_turns", "error_max_budget_usd"):
        return "limit"
    if result.subtype == "success" and not result.is_error:
        return "completed"
    reason = result.result or "; ".join(result.errors or ()) or result.subtype
    text = f"claude_agent_sdk: {redact.excerpt(reason, MAX_EXCERPT_CHARACTERS)}"
    status = result.api_error_status
    retryable = False
    if result.subtype == "success":  # the API failed, not the command line
        if status is not None:
            advice = advice_for(status, config)
        elif re.search(r"log(ged)? ?in\b", reason, re.IGNORECASE):
            advice = f"set {key_names(config)}"
        elif "timed out" in reason.lower():
            advice = "raise request_timeout, or look at the endpoint"
        else:
            advice = "check anthropic_base_url and the network, or raise max_retries"
        text = f"{text} (at {origin_of(endpoint_of(config) or '')}); {advice}"
        retryable = bool(_PASSING.search(reason)) if status is None else is_transient(status)
    retry = "always" if retryable else "never"
    raise AgentExecutionError(text, stderr=stderr, status=status, retryable=retryable, retry=retry)


def execution_error(error: Exception, redact: Redactor, stderr: str | None) -> AgentExecutionError:
    """Translate a failure of the command line itself."""
    last_line = (stderr or "").rpartition("\n")[2]
    reason = redact.excerpt(str(error).partition("\nError output:")[0], MAX_EXCERPT_CHARACTERS)
    if isinstance(error, CLINotFoundError):
        reason = "Claude's command line is not installed: pip install 'plait[claude]'"
    elif last_line and last_line not in reason:
        reason = f"{reason}: {redact.excerpt(last_line)}"
    return AgentExecutionError(f"claude_agent_sdk: {reason}", stderr=stderr)


logger = logging.getLogger("plait.agents")

MAX_LINE_BYTES: Final = 256 * 1024 * 1024
"""Bytes of one message of the command line, which may contain images."""

_RESERVED: Final = frozenset(
    {"allowed_tools", "can_use_tool", "permission_mode", "permission_prompt_tool_name", "tools"}
    | {"include_partial_messages", "max_turns", "setting_sources", "stderr"}
    | {"mcp_servers", "strict_mcp_config"}
)
"""The options that the run sets itself."""

_RESERVED_FLAGS: Final = frozenset(
    {"allow-dangerously-skip-permissions", "dangerously-skip-permissions", "permission-mode"}
    | {"allowed-tools", "allowedTools", "permission-prompt-tool", "tools"}
    | {"max-turns", "mcp-config", "setting-sources"}
)

_OPTIONS: Final = frozenset(field.name for field in fields(ClaudeAgentOptions))


def options_for(
    run: AgentRun,
    folder: Path,
    tools: Mapping[str, CliTool],
    bridge: Bridge,
    *,
    bridged: bool,
    stderr: Callable[[str], None],
) -> ClaudeAgentOptions:
    """Build the options of a run, and write the files that they name; this blocks."""
    extra = _extra_options(run.model_config.extra_kwargs or {})
    local_tools = [tool for tool in tools.values() if tool.is_local]
    flags: dict[str, str | None] = {"no-session-persistence": None}
    # Not as arguments, which every user of the machine can read, and which are limited in length.
    if not bridged and run.toolbox is not None:
        keys = server_keys(run.toolbox.server_names)
        servers = run.toolbox.config.servers.items()
        configs = {"mcpServers": {keys[name]: cli_config(name, server) for name, server in servers}}
        flags["mcp-config"] = _write(folder / "servers.json", json.dumps(configs))
    prompt = None
    if run.system_prompt is not None and run.system_prompt.strip():
        prompt = {"type": "file", "path": _write(folder / "system.txt", run.system_prompt)}
    work = folder / "work"
    work.mkdir(mode=0o700)
    settings: dict[str, Any] = {
        "model": run.model_config.model_name,
        "system_prompt": prompt,
        "cwd": run.settings.workspace_path or work,
        "skills": [],
        "verbatim_prompts": True,
        "max_buffer_size": MAX_LINE_BYTES,
        **extra,
        "max_turns": run.turns_left,
        "tools": [],
        "mcp_servers": sdk_servers(local_tools, bridge.call),
        "strict_mcp_config": True,
        "setting_sources": [],
        "disallowed_tools": ["Skill", *extra.get("disallowed_tools", ())],
        # Calls that the command line makes itself are checked before: it makes them before the
        # answer is complete, and with arguments that are not an object.
        "allowed_tools": list(tools) if bridged else [],
        "can_use_tool": None if bridged else bridge.may_use,
        "include_partial_messages": True,
        "stderr": stderr,
        "extra_args": {**flags, **extra.get("extra_args", {})},
        "env": {**environment_for(run.model_config, folder), **extra.get("env", {})},
    }
    return ClaudeAgentOptions(**settings)


def _extra_options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the options that the run sets itself, with a warning."""
    if unknown := sorted(set(extra) - _OPTIONS):
        raise ConfigError(
            f"extra_kwargs holds {', '.join(unknown)}, which ClaudeAgentOptions does not know"
        )
    flags = dict(extra.get("extra_args") or {})
    kept = {name: value for name, value in extra.items() if name not in _RESERVED}
    removed = sorted((set(extra) & _RESERVED) | (set(flags) & _RESERVED_FLAGS))
    if flags:
        kept["extra_args"] = {name: flags[name] for name in flags if name not in removed}
    if removed:
        logger.warning("extra_kwargs: the run itself sets %s", ", ".join(removed))
    return kept


def _write(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")
    return str(path)


def cli_config(
    name: str, server: ServerConfig, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Convert a server that the command line connects to itself."""

    def unsupported(why: str) -> ConfigError:
        return ConfigError(
            f"{name}: Claude's command line cannot connect to this server: {why}. "
            "Remove pass_through_servers, so that plait connects to it",
            server=name,
        )

    match server:
        case StdioServer():
            if callable(server.env):
                raise unsupported("its env is a function of the run")
            if server.cwd is not None:
                raise unsupported("it has a cwd")
            # The command line itself has another home folder.
            names = ["HOME", "USERPROFILE"]
            if server.inherit_env is True:
                names = list(environ)
            elif server.inherit_env is not False:
                names += server.inherit_env
            inherited = {name: environ[name] for name in names if name in environ}
            return {
                "type": "stdio",
                "command": server.command,
                "args": list(server.args),
                "env": {**inherited, **server.env},
            }
        case HttpServer() | SseServer():
            if callable(server.headers):
                raise unsupported("its headers are a function of the run")
            if server.auth is not None:
                raise unsupported("it has auth; pass the token as a header")
            kind = "http" if isinstance(server, HttpServer) else "sse"
            headers = {"headers": dict(server.headers)} if server.headers else {}
            return {"type": kind, "url": server.url, **headers}
        case _:
            raise unsupported(f"its transport is {server.transport}")


_LONG_MS: Final = "86400000"
"""A day: the limits of the run and the toolbox apply instead."""

_LARGE: Final = "100000000"

_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")

_CLOUDS: Final = (
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
)
"""Select a cloud, whose tools keep its credentials in the home folder."""

_ALWAYS: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    # All tools are in the first request, without a search.
    "ENABLE_TOOL_SEARCH": "false",
    # Only the configured model answers, as a stream, which shows when an answer is complete.
    "CLAUDE_CODE_NO_MODEL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_MCP_TASK_BACKGROUND": "1",
    "MCP_TIMEOUT": _LONG_MS,
    "MCP_TOOL_TIMEOUT": _LONG_MS,
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": _LONG_MS,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _LONG_MS,
    "MAX_MCP_OUTPUT_TOKENS": _LARGE,
    "CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH": _LARGE,
    # Programs that it starts do not get the key.
    "CLAUDE_CODE_MCP_ALLOWLIST_ENV": "1",
}


def environment_for(
    config: ModelConfig, folder: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of the command line; `folder` belongs to the run."""
    variables = {
        **_ALWAYS,
        "CLAUDE_CODE_MAX_RETRIES": str(config.max_retries),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(config.max_tokens),
        "CLAUDE_CODE_TMPDIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    anthropic_url(config, environ)  # checks it, though the command line reads it by itself
    url, key = config.anthropic_base_url, config.anthropic_api_key
    is_configured = url is not None or key is not None
    if is_configured:
        variables |= dict.fromkeys(_CLOUDS, "")
    if url is not None:
        variables["ANTHROPIC_BASE_URL"] = url
    if key is not None:
        variables |= dict.fromkeys(_KEYS, "")
        variables["ANTHROPIC_API_KEY"] = key.get_secret_value()
    elif url is not None:
        variables["CLAUDE_CODE_OAUTH_TOKEN"] = ""
        if is_loopback(url) and not any(environ.get(name) for name in _KEYS[:2]):
            variables["ANTHROPIC_API_KEY"] = NO_KEY
    if config.request_timeout is not None:
        variables["API_TIMEOUT_MS"] = str(max(1, round(config.request_timeout * 1000)))
    if needs_login(config, environ):
        return variables
    variables["CLAUDE_CONFIG_DIR"] = str(folder / "settings")
    if is_configured or not any(environ.get(name) for name in _CLOUDS):
        variables["HOME"] = variables["USERPROFILE"] = str(folder)
    return variables


def needs_login(config: ModelConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """Check whether only the user's own login can be used: there is no key and no URL."""
    is_configured = config.anthropic_base_url is not None or config.anthropic_api_key is not None
    return not is_configured and not any(environ.get(name) for name in (*_KEYS, *_CLOUDS))
