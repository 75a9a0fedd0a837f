"""Middleware that records what the model says, ends the run at its limit, and answers its calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import CoroutineType
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import override

from plait._support.exception_groups import one_line
from plait.agents.agent_run import AgentRun
from plait.agents.engines.langchain.messages import model_name_of, usage_from_langchain
from plait.agents.engines.langchain.tools import message_from_answer
from plait.agents.run_tools import ToolAnswer
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.usage import UsageMetadata


class CutAnswerError(ConnectionError):
    """An answer of the model did not come to its end."""


class Turns(AgentMiddleware[Any, Any, Any]):
    """Stands next to the model, behind all other middleware of a run.

    The limit is held here, and not by LangChain's own middleware, because that adds two steps of
    the graph to every turn. The hooks are plain functions that return what is to be awaited:
    LangSmith, traced or not, gives every coroutine function a task and two trips to a thread.
    """

    def __init__(self, run: AgentRun, *, max_turns: int, images: bool) -> None:
        super().__init__()
        self._run = run
        self._max_turns = max_turns
        self._images = images
        self._turns = 0
        self._broken: dict[str, str] = {}

    @override
    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Ask the model, and record what it says."""
        self._hold_limit()
        began = time.monotonic()
        return self._heard(handler(request), began)

    @override
    def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> CoroutineType[Any, Any, ModelResponse[Any]]:
        """Ask the model, and record what it says."""
        return self._ask(request, handler)

    @override
    def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> CoroutineType[Any, Any, ToolMessage]:
        """Answer a call, also one of a tool that is not there."""
        return self._answer(request.tool_call)

    async def _ask(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        self._hold_limit()
        began = time.monotonic()
        return self._heard(await handler(request), began)

    async def _answer(self, call: ToolCall) -> ToolMessage:
        call_id = call["id"] or ""
        arguments = self._broken.pop(call_id, None)
        if arguments is None:
            answer = await self._run.call(call_id, call["name"], call["args"])
        else:
            said = f"the arguments are not a JSON object: {one_line(arguments)}"
            answer = ToolAnswer.of_text(said, is_error=True)
            self._note(call, answer.text)
        return message_from_answer(call, answer, images=self._images)

    def refused(self, call: ToolCall, message: ToolMessage) -> None:
        """Record that other middleware does not let a call be made."""
        self._note(call, message.text)

    def spent(self, usage: UsageMetadata | None) -> None:
        """Add what a model needed."""
        if usage is not None:
            before = self._run.usage
            self._run.usage = usage if before is None else before + usage

    def _hold_limit(self) -> None:
        if self._turns >= self._max_turns:
            turns, limit = self._turns, self._max_turns
            raise ModelCallLimitExceededError(turns, turns, thread_limit=None, run_limit=limit)

    def _heard(self, response: ModelResponse[Any], began: float) -> ModelResponse[Any]:
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
        """Return a message in which every call has an id of its own and arguments.

        A graph goes on only after calls that can be made; so what is wrong with one is noted, and
        answered when its time has come.
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
            self._broken[call_id] = arguments or ""
            arguments = {}
        return ToolCall(name=call["name"] or "", args=arguments, id=call_id, type="tool_call")

    def _note(self, call: ToolCall, text: str) -> None:
        """Record a call that is made by nobody, and the error that answers it."""
        call_id, name = call["id"] or "", call["name"]
        tool = self._run.tools.get(name)
        recorder = self._run.recorder
        recorder.tool_called(
            call_id,
            name,
            call["args"],
            server=None if tool is None else tool.server,
            tool=None if tool is None else tool.wire_name,
        )
        recorder.tool_returned(call_id, text, is_error=True)


def _check_end(message: AIMessage) -> None:
    """Refuse an answer that was cut off: one that does not say why it ends."""
    told = message.response_metadata
    match told.get("model_provider"):
        case "anthropic":
            whole = bool(told.get("stop_reason"))
        case "openai":
            # What came in one piece is whole; some endpoints leave the reason out of it.
            whole = any(told.get(name) for name in ("finish_reason", "status", "token_usage"))
        case _:
            whole = True
    if not whole:
        raise CutAnswerError("the answer broke off before its end")
