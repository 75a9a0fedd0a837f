"""Middleware that records turns and tool calls, and ends the run at its turn limit."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import CoroutineType
from typing import Any, TypeAlias, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import override

from plait._support.mappings import entries_of
from plait._support.unicode import well_formed_data
from plait.agents.agent_run import AgentRun, ToolAnswer
from plait.agents.engines.langchain.chat_models import failure_of_model
from plait.agents.engines.langchain.messages import (
    model_name_of,
    usage_from_langchain,
)
from plait.agents.engines.langchain.tools import (
    LangChainTools,
    message_from_answer,
    observed_call,
    takes_images,
)
from plait.agents.model_retry import CutAnswerError, with_retries
from plait.client.catalog.tool import Tool
from plait.langchain.tools.tool import MCPTool
from plait.langchain.tools.written_calls import CallTexts, stop_reason_of
from plait.models.call_arguments import arguments_from, fault_of
from plait.models.stop_reasons import UNFINISHED, cuts_calls, not_made, stop_kind
from plait.traces.agent_spans import describe_answer
from plait.traces.messages.from_langchain import message_from_any

_CallModel: TypeAlias = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
_ToolReply: TypeAlias = ToolMessage | Command[Any]
_CallTool: TypeAlias = Callable[[ToolCallRequest], Awaitable[_ToolReply]]


_turns_of_run: ContextVar[Turns] = ContextVar("plait_turns_of_run")


class TurnsMiddleware(AgentMiddleware[Any, Any, Any]):
    """The innermost middleware of a graph: passes each step to the `Turns` of its run.

    So several runs may share a graph, also at the same time. The hooks are plain functions that
    return coroutines: LangSmith wraps every coroutine function in a task and two thread switches,
    even if tracing is off.
    """

    @override
    def awrap_model_call(
        self, request: ModelRequest[Any], handler: _CallModel
    ) -> CoroutineType[Any, Any, ModelResponse[Any]]:
        return _turns_of_run.get().call_model(request, handler)

    @override
    def awrap_tool_call(
        self, request: ToolCallRequest, handler: _CallTool
    ) -> CoroutineType[Any, Any, _ToolReply]:
        return _turns_of_run.get().call_tool(request, handler)


class Turns:
    """The turns of one run.

    It checks the limit in place of LangChain's own middleware, which adds two steps of the graph to
    every turn.
    """

    def __init__(
        self,
        run: AgentRun,
        model: BaseChatModel,
        agent_tools: LangChainTools,
        *,
        max_turns: int,
    ) -> None:
        self._run = run
        self._model = model
        self._tools = agent_tools
        self._max_turns = max_turns
        self._images = takes_images(model)
        self._turns = 0
        self._rejected: dict[str, str] = {}
        """Why calls are not made, by their ids."""
        self._called: set[str] = set()

    @contextmanager
    def active(self) -> Generator[None]:
        """Receive the steps of the graph that is run in the block."""
        token = _turns_of_run.set(self)
        try:
            yield
        finally:
            _turns_of_run.reset(token)

    async def call_model(
        self, request: ModelRequest[Any], handler: _CallModel
    ) -> ModelResponse[Any]:
        """Call the model of the run, and record its answer."""
        if request.model is not self._model:  # the graph was made for another run
            request = request.override(model=self._model)
        if self._tools.deferred:
            request = request.override(tools=list(self._tools.visible(request.messages)))
        paused: list[BaseMessage] = []
        while True:
            response = await self._turn(request, handler)
            last = response.result[0]
            if not isinstance(last, AIMessage):
                return response
            if last.tool_calls or stop_reason_of(last) not in UNFINISHED:
                break
            # The model goes on with what it has written so far.
            paused.append(last)
            request = request.override(messages=[*request.messages, last])
        if last.tool_calls and self._run.is_spent():
            raise self._limit()
        return replace(response, result=[*paused, *response.result]) if paused else response

    def _limit(self) -> ModelCallLimitExceededError:
        turns, limit = self._turns, self._max_turns
        return ModelCallLimitExceededError(turns, turns, thread_limit=None, run_limit=limit)

    async def _turn(self, request: ModelRequest[Any], handler: _CallModel) -> ModelResponse[Any]:
        """Request an answer, and record it."""
        if self._turns >= self._max_turns or (self._turns and self._run.is_spent()):
            raise self._limit()
        began = time.monotonic()
        response = await with_retries(
            self._run,
            lambda span: self._answer(request, handler, span),
            lambda error: failure_of_model(error, self._run.model_config, self._run.redact),
            passes=(GraphBubbleUp,),
        )
        return self._recorded(response, began)

    async def _answer(
        self, request: ModelRequest[Any], handler: _CallModel, span: dict[str, Any] | None
    ) -> ModelResponse[Any]:
        """Request one answer, within the time for a request."""
        seconds = self._run.model_config.request_timeout
        limit = asyncio.timeout(seconds)
        texts = CallTexts()
        try:
            async with limit:
                with texts.reading():
                    response = await handler(request)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer within {seconds:g} s") from error
        if isinstance(first := response.result[0], AIMessage):
            _check_end(first)
            describe_answer(
                span,
                response_id=first.response_metadata.get("id") or first.id,
                model=model_name_of(first),
                stop_reason=stop_reason_of(first),
                usage=usage_from_langchain(first),
            )
            response = replace(response, result=[texts.as_written(first), *response.result[1:]])
        return response

    async def call_tool(self, request: ToolCallRequest, handler: _CallTool) -> _ToolReply:
        """Call a tool, and record the call; an unknown tool gets an answer too."""
        call = request.tool_call
        call_id = call["id"] or ""
        rejected = self._rejected.pop(call_id, None)
        if rejected is None and isinstance(request.tool, MCPTool):
            return await self._call_mcp_tool(call, request.tool.tool, handler(request))
        if rejected is None:
            answer = await self._run.call(call_id, call["name"], call["args"])
        else:
            answer = self._run.reject_call(call_id, call["name"], rejected)
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
        answer = answer or ToolAnswer.of_text("")
        self._run.record_answer(call_id, answer, attempts=outcome.attempts, notes=outcome.notes)
        return message

    def on_rejected(self, call: ToolCall, message: ToolMessage) -> None:
        """Record a call that other middleware rejects."""
        self._run.reject_call(call["id"] or "", call["name"], message.text)

    def on_summary(self, answer: AIMessage) -> None:
        """Record a summary, and what it used."""
        usage, model = usage_from_langchain(answer), model_name_of(answer)
        self._run.recorder.summary(answer.text, model=model, usage=usage)

    def _recorded(self, response: ModelResponse[Any], began: float) -> ModelResponse[Any]:
        first, *rest = response.result
        if not isinstance(first, AIMessage):
            return response
        seconds = time.monotonic() - began
        stop = stop_reason_of(first)
        message = self._with_usable_calls(_well_formed(first), stop)
        usage = usage_from_langchain(message)
        self._turns += 1
        self._run.recorder.turn(
            replace(message_from_any(message), usage_metadata=None),
            model=model_name_of(message),
            usage=usage,
            seconds=round(seconds, 6),
            stop_reason=stop,
        )
        return response if message is first else replace(response, result=[message, *rest])

    def _with_usable_calls(self, message: AIMessage, stop: str | None) -> AIMessage:
        """Return a message in which every call has a unique id and arguments.

        The graph continues only after valid calls; so calls that are not made stay in the message,
        and are answered in place of the tool. A refused answer has no calls.
        """
        kind = stop_kind(stop)
        requested = (*message.tool_calls, *message.invalid_tool_calls)
        if kind == "refused":
            requested = ()
        ids = [call["id"] for call in message.tool_calls]
        is_valid = not message.invalid_tool_calls and all(ids) and len(set(ids)) == len(ids)
        arguments = (arguments_from(call["args"]) for call in message.tool_calls)
        is_valid = is_valid and not any(map(fault_of, arguments))
        is_cut = cuts_calls(stop)
        if is_valid and ((kind == "complete" and not is_cut) or not ids):
            return message
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for call in requested:
            call_id = call["id"]
            if not call_id or call_id in taken:
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            taken.add(call_id)
            calls.append(self._usable(call, call_id))
            if is_cut:
                self._rejected[call_id] = not_made(stop, self._run.model_config.max_tokens)
        content = _with_valid_arguments(message.content, calls)
        return message.model_copy(
            update={"content": content, "tool_calls": calls, "invalid_tool_calls": []}
        )

    def _usable(self, call: ToolCall | InvalidToolCall, call_id: str) -> ToolCall:
        arguments = arguments_from(call["args"])
        if (fault := fault_of(arguments)) is not None:
            self._rejected[call_id] = fault
        return ToolCall(name=call["name"] or "", args=arguments, id=call_id, type="tool_call")


def _with_valid_arguments(content: Any, calls: Sequence[ToolCall]) -> Any:
    """Return content whose calls, in blocks of OpenAI's Responses API, have valid arguments."""
    if not isinstance(content, list):
        return content
    arguments = {call["id"]: json.dumps(call["args"]) for call in calls}
    return [
        {**block, "arguments": arguments[call_id]}
        if (call_id := entries_of(block).get("call_id")) in arguments
        else block
        for block in cast("list[Any]", content)
    ]


def _well_formed(message: AIMessage) -> AIMessage:
    """Return a message whose texts can be encoded in the next request."""
    calls: list[ToolCall] = [
        {**call, "args": well_formed_data(call["args"])} for call in message.tool_calls
    ]
    content = well_formed_data(message.content)
    if content == message.content and calls == message.tool_calls:
        return message
    return message.model_copy(update={"content": content, "tool_calls": calls})


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
        raise CutAnswerError("it ended without a reason to stop")
