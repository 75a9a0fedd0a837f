"""Middleware for `create_agent` that traces and limits the runs of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, ClassVar, NotRequired, TypeAlias, TypedDict, Unpack

from cachetools import LRUCache
from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import override

from plait.agents.engines.langchain.graph_tracer import (
    GraphRecording,
    GraphTraceOptions,
    GraphTraces,
    ModelRequestFacts,
    messages_in,
    node_of,
    settings_of,
)
from plait.langchain.library_internals import langsmith_params
from plait.models.call_arguments import arguments_from
from plait.traces.trace import Trace

_Reply: TypeAlias = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
_ToolReply: TypeAlias = ToolMessage | Command[Any]

MAX_RUNS = 4096
"""Runs that are remembered: those that wait for an answer, and those whose end nothing reports."""


class _Place(TypedDict):
    """Where an agent records: in a trace of its own, or in that of an agent around it."""

    run: str
    is_own: bool


class _State(AgentState[Any]):
    plait_trace: NotRequired[Annotated[_Place, PrivateStateAttr]]


_outer: ContextVar[tuple[TraceMiddleware, str] | None] = ContextVar("plait_outer_run", default=None)
"""The middleware and the run of the tool call in which this code runs."""


class TraceMiddleware(AgentMiddleware[Any, Any, Any]):
    """Records each run of an agent, and ends it at a limit with `GraphLimitError`.

    Put it first: `create_agent(model, tools, middleware=[TraceMiddleware("runs.jsonl"), …])`.
    Then it records what other middleware has made of answers and results. An agent with the same
    middleware that runs in a tool of this one belongs to its trace. An agent may have several runs
    at the same time.
    """

    state_schema: ClassVar[Any] = _State

    def __init__(
        self, trace: str | Path | None = None, **options: Unpack[GraphTraceOptions]
    ) -> None:
        """Take the file of the traces, if there is one, and the limits of each run."""
        super().__init__()
        self._traces = GraphTraces(trace, options)
        self._runs: LRUCache[str, GraphRecording] = LRUCache(MAX_RUNS)
        self._lock = RLock()

    @property
    def trace(self) -> Trace:
        """The trace of the run that began last, so far."""
        return self._traces.last

    @override
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Begin a trace, or join that of the tool call in which the agent runs."""
        outer, name = _outer.get() or (None, None)
        with self._lock:
            is_own = outer is not self or name not in self._runs
        if is_own or name is None:
            name = self._open(name).recorder.run
        return {"plait_trace": _Place(run=name, is_own=is_own)}

    @override
    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return self.before_agent(state, runtime)

    def _open(self, parent: str | None = None) -> GraphRecording:
        recording = self._traces.begin(parent)
        with self._lock:
            self._runs[recording.recorder.run] = recording
        return recording

    @override
    def after_agent(self, state: Any, runtime: Any) -> None:
        """End the trace of the run."""
        if state["plait_trace"]["is_own"]:
            recording = self._recording_of(state)
            recording.begin(messages_in(state))
            self._end(recording)

    @override
    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        self.after_agent(state, runtime)

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]
    ) -> Any:
        with self._request(request) as answered:
            return answered(handler(request))

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        with self._request(request) as answered:
            return answered(await handler(request))

    @override
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolReply]
    ) -> _ToolReply:
        with self._call(request) as returned:
            return returned(handler(request))

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolReply]]
    ) -> _ToolReply:
        with self._call(request) as returned:
            return returned(await handler(request))

    @contextmanager
    def _request(self, request: ModelRequest[Any]) -> Generator[Callable[[_Reply], _Reply]]:
        """Record the answer that the block passes on, or the failure that ends the block."""
        recording = self._recording_of(request.state)
        prompt = () if request.system_message is None else (request.system_message,)
        sent = () if recording.has_begun else (*prompt, *request.messages)
        model: Any = request.model
        standard = langsmith_params(model)
        settings = settings_of(standard, model.__dict__, request.model_settings)
        facts = ModelRequestFacts(standard.get("ls_model_name"), settings, request.tools)
        recording.begin(messages_in({"messages": list(sent)}), facts)
        with self._ending(request.state, recording):
            began = recording.request()

            def answered(reply: _Reply) -> _Reply:
                response = reply
                if isinstance(response, ExtendedModelResponse):
                    response = response.model_response
                is_one = isinstance(response, AIMessage)
                for message in [response] if is_one else response.result:
                    if isinstance(message, AIMessage):
                        recording.turn(message, began, node_of(get_config().get("metadata")))
                return reply

            try:
                yield answered
            except BaseException:
                recording.request_failed()
                raise

    @contextmanager
    def _call(self, request: ToolCallRequest) -> Generator[Callable[[_ToolReply], _ToolReply]]:
        """Record a call, and the result that the block passes on, or the failure of the block."""
        recording, call = self._recording_of(request.state), request.tool_call
        if not recording.has_begun:
            recording.begin(messages_in(request.state))
        call_id = call["id"] or ""
        node = node_of(get_config().get("metadata"))
        with self._ending(request.state, recording):
            recording.call(call_id, call["name"], arguments_from(call["args"]), node)
            token = _outer.set((self, recording.recorder.run))

            def returned(reply: _ToolReply) -> _ToolReply:
                recording.returned(call_id, reply)
                return reply

            try:
                yield returned
            except BaseException as error:
                recording.call_failed(call_id, error)
                raise
            finally:
                _outer.reset(token)

    @contextmanager
    def _ending(self, state: Any, recording: GraphRecording) -> Generator[None]:
        """End the trace with the error that ends the run; an interrupted run goes on later."""
        try:
            yield
        except GraphBubbleUp:
            raise
        except BaseException as error:
            if state["plait_trace"]["is_own"]:  # else the tool call around the agent may go on
                self._end(recording, error)
            raise

    def _end(self, recording: GraphRecording, error: BaseException | None = None) -> None:
        with self._lock:
            self._runs.pop(recording.recorder.run, None)
        recording.end(error)

    def _recording_of(self, state: Any) -> GraphRecording:
        """Return the trace of a state; a run that another process began has one of its own here."""
        with self._lock:
            recording = self._runs.get(state["plait_trace"]["run"])
        return self._open() if recording is None else recording
