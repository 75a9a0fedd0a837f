"""Middleware that records turns and tool calls, and ends the run at its turn limit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import CoroutineType
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import override

from plait._support.exception_groups import one_line
from plait.agents.agent_run import AgentRun, ToolAnswer
from plait.agents.engines.langchain.messages import model_name_of, usage_from_langchain
from plait.agents.engines.langchain.tools import LangChainTools, message_from_answer, observed_call
from plait.client.catalog.tool import Tool
from plait.langchain.tools.tool import MCPTool
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.message import UsageMetadata

_CallModel: TypeAlias = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
_ToolReply: TypeAlias = ToolMessage | Command[Any]
_CallTool: TypeAlias = Callable[[ToolCallRequest], Awaitable[_ToolReply]]


class CutAnswerError(ConnectionError):
    """The answer of the model is incomplete."""


class Turns(AgentMiddleware[Any, Any, Any]):
    """The innermost middleware of a run.

    It checks the limit in place of LangChain's own middleware, which adds two steps of the graph to
    every turn. The hooks are plain functions that return coroutines: LangSmith wraps every
    coroutine function in a task and two thread switches, even if tracing is off.
    """

    def __init__(
        self, run: AgentRun, agent_tools: LangChainTools, *, max_turns: int, images: bool
    ) -> None:
        super().__init__()
        self._run = run
        self._tools = agent_tools
        self._max_turns = max_turns
        self._images = images
        self._turns = 0
        self._invalid_arguments: dict[str, str] = {}
        self._called: set[str] = set()

    @override
    def awrap_model_call(
        self, request: ModelRequest[Any], handler: _CallModel
    ) -> CoroutineType[Any, Any, ModelResponse[Any]]:
        return self._call_model(request, handler)

    @override
    def awrap_tool_call(
        self, request: ToolCallRequest, handler: _CallTool
    ) -> CoroutineType[Any, Any, _ToolReply]:
        return self._call_tool(request, handler)

    async def _call_model(
        self, request: ModelRequest[Any], handler: _CallModel
    ) -> ModelResponse[Any]:
        if (turns := self._turns) >= (limit := self._max_turns):
            raise ModelCallLimitExceededError(turns, turns, thread_limit=None, run_limit=limit)
        if self._tools.deferred:
            request = request.override(tools=list(self._tools.visible(request.messages)))
        began = time.monotonic()
        return self._recorded(await handler(request), began)

    async def _call_tool(self, request: ToolCallRequest, handler: _CallTool) -> _ToolReply:
        """Call a tool, and record the call; an unknown tool gets an answer too."""
        call = request.tool_call
        call_id = call["id"] or ""
        invalid = self._invalid_arguments.pop(call_id, None)
        if invalid is None and isinstance(request.tool, MCPTool):
            return await self._call_mcp_tool(call, request.tool.tool, handler(request))
        if invalid is None:
            answer = await self._run.call(call_id, call["name"], call["args"])
        else:
            text = f"the arguments are not a JSON object: {one_line(invalid)}"
            answer = ToolAnswer.of_text(text, is_error=True)
            self._record_rejected(call, answer.text)
        return message_from_answer(call, answer, images=self._images)

    async def _call_mcp_tool(
        self, call: ToolCall, tool: Tool, reply: Awaitable[_ToolReply]
    ) -> _ToolReply:
        call_id, recorder = call["id"] or "", self._run.recorder
        if call_id not in self._called:  # else the graph resumes after an interrupt
            self._called.add(call_id)
            recorder.tool_called(
                call_id, call["name"], call["args"], server=tool.server, tool=tool.wire_name
            )
        with observed_call() as outcome:
            message = await reply
        answer = outcome.answer
        if isinstance(message, ToolMessage) and answer is not None:
            artifact = message.artifact
            message = message_from_answer(call, answer, images=self._images, artifact=artifact)
        elif isinstance(message, ToolMessage):
            text = message_from_any(message).tool_results[0].content
            answer = ToolAnswer.of_text(text, is_error=message.status == "error")
        recorder.tool_returned(
            call_id,
            "" if answer is None else answer.text,
            is_error=answer is not None and answer.is_error,
            attempts=outcome.attempts,
            notes=outcome.notes,
        )
        return message

    def on_rejected(self, call: ToolCall, message: ToolMessage) -> None:
        """Record a call that other middleware rejects."""
        self._record_rejected(call, message.text)

    def spent(self, usage: UsageMetadata | None) -> None:
        """Add the usage of a model."""
        if usage is not None:
            before = self._run.usage
            self._run.usage = usage if before is None else before + usage

    def _recorded(self, response: ModelResponse[Any], began: float) -> ModelResponse[Any]:
        first, *rest = response.result
        if not isinstance(first, AIMessage):
            return response
        seconds = time.monotonic() - began
        _check_end(first)
        message = self._with_usable_calls(first)
        usage = usage_from_langchain(message)
        self._turns += 1
        self.spent(usage)
        self._run.recorder.turn(
            replace(message_from_any(message), usage_metadata=None),
            model=model_name_of(message),
            usage=usage,
            seconds=round(seconds, 6),
        )
        return response if message is first else replace(response, result=[message, *rest])

    def _with_usable_calls(self, message: AIMessage) -> AIMessage:
        """Return a message in which every call has a unique id and arguments.

        The graph continues only after valid calls; so invalid arguments are kept aside, and
        answered when the call is made.
        """
        ids = [call["id"] for call in message.tool_calls]
        if not message.invalid_tool_calls and all(ids) and len(set(ids)) == len(ids):
            return message
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            call_id = call["id"]
            if not call_id or call_id in taken:
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            taken.add(call_id)
            calls.append(self._usable(call, call_id))
        return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})

    def _usable(self, call: ToolCall | InvalidToolCall, call_id: str) -> ToolCall:
        arguments = call["args"]
        if not isinstance(arguments, dict):
            self._invalid_arguments[call_id] = arguments or ""
            arguments = {}
        return ToolCall(name=call["name"] or "", args=arguments, id=call_id, type="tool_call")

    def _record_rejected(self, call: ToolCall, text: str) -> None:
        """Record a call that is not made, and the error that answers it."""
        call_id = call["id"] or ""
        self._run.record_call(call_id, call["name"], call["args"])
        self._run.recorder.tool_returned(call_id, text, is_error=True)


def _check_end(message: AIMessage) -> None:
    """Reject an incomplete answer: one without a reason to stop."""
    metadata = message.response_metadata
    match metadata.get("model_provider"):
        case "anthropic":
            complete = bool(metadata.get("stop_reason"))
        case "openai":
            # An answer that was not streamed is complete; some endpoints send no reason.
            complete = any(map(metadata.get, ("finish_reason", "status", "token_usage")))
        case _:
            complete = True
    if not complete:
        raise CutAnswerError("the answer is incomplete")
