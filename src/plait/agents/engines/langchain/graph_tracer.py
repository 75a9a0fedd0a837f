"""The traces and limits of graphs, and a callback handler that has them for any LangGraph."""

from __future__ import annotations

import time
import weakref
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, RLock
from typing import Annotated, Any, ClassVar, Final, NotRequired, TypeAlias, TypedDict, Unpack, cast
from uuid import UUID

from cachetools import LRUCache
from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt, GraphRecursionError, ParentCommand
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import override

from plait._support.redact import Redactor
from plait.agents.config import CostOf, PriceTable, cost_function
from plait.agents.engines.langchain.messages import model_name_of, usage_from_langchain
from plait.agents.program_tools import text_from_value
from plait.errors import AgentExecutionError
from plait.langchain.library_internals import langsmith_params
from plait.langchain.tools.written_calls import stop_reason_of
from plait.models.call_arguments import arguments_from
from plait.models.stop_reasons import stop_kind
from plait.telemetry.agent_spans import (
    AGENT_METRIC,
    agent_outcome,
    chat_span,
    describe_answer,
    open_agent_span,
)
from plait.telemetry.spans import OpenSpan, is_traced
from plait.traces.events import Status, TraceEvent
from plait.traces.file import TraceFile
from plait.traces.messages.from_langchain import images_in, message_from_any
from plait.traces.messages.message import Message
from plait.traces.recorder import Recorder, ToolDefinition
from plait.traces.trace import Trace

INTERFACE: Final = "langgraph"
"""The engine in traces of graphs."""


_ENDPOINTS: Final = ("openai_api_base", "anthropic_api_url", "base_url")
"""The attributes of chat models that hold their endpoint."""


class GraphLimitError(AgentExecutionError):
    """A graph has reached a limit; `trace`, `messages` and `usage` are those of the run so far."""


class GraphTraceOptions(TypedDict, total=False):
    """The limits of each run of a graph, and how it is recorded."""

    max_turns: int | None
    """How often models may answer, in all nodes."""
    max_tool_calls: int | None
    max_tokens_total: int | None
    max_cost_usd: float | None
    """A run whose cost is not known ends after its first answer."""
    prices: PriceTable | CostOf | None
    """What models cost; by default as `genai-prices` knows it."""
    redact: Redactor | None
    """Hides secrets in the file; by default what looks like a key."""
    on_event: Callable[[TraceEvent], None] | None
    """Called with each event, without redaction."""


@dataclass(frozen=True, slots=True)
class ModelRequestFacts:
    """The model, the settings and the tools of a request."""

    model: str | None
    settings: Mapping[str, Any]
    tools: Sequence[Any]


class GraphTraces:
    """Begins the traces of a graph; the file is open from the first one on."""

    def __init__(self, path: str | Path | None, options: GraphTraceOptions) -> None:
        self.options = options
        self._path = path
        self._file: TraceFile | None = None
        self._last = Recorder()
        self._lock = Lock()

    @property
    def last(self) -> Trace:
        """The trace that began last, so far."""
        return self._last.trace

    def begin(self, parent: str | None = None) -> GraphRecording:
        """Begin the trace of a run; `parent` is the run of another trace that started it.

        Raises:
            OSError: The file cannot be written.
        """
        with self._lock:
            if self._path is not None and self._file is None:
                self._file = TraceFile(self._path)
                weakref.finalize(self, self._file.close)
        recording = GraphRecording(self._file, self.options, parent)
        self._last = recording.recorder
        return recording


class GraphRecording:
    """Records one run of a graph; its methods may be called from parallel branches."""

    def __init__(
        self, file: TraceFile | None, options: GraphTraceOptions, parent: str | None = None
    ) -> None:
        on_event = options.get("on_event")
        self.recorder = Recorder(
            file,
            redact=options.get("redact") or Redactor(),
            listeners=() if on_event is None else (on_event,),
        )
        self._options, self._parent = options, parent
        self._requests = 0
        self._calls = 0
        self._open: set[str] = set()
        """The calls without a result."""
        self._lock = Lock()
        self._offered: set[str] = set()
        """The names of the tools that are recorded."""
        self.has_begun = False
        self._is_ended = False

    def begin(self, messages: Sequence[Message], request: ModelRequestFacts | None = None) -> None:
        """Record the start of the run, once; tools of later requests are added to it."""
        with self._lock:  # of parallel branches, none records anything before the start
            # Those that no request of the run has offered before.
            tools = () if request is None else request.tools
            new = [tool for tool in tools if _name_of(tool) not in self._offered]
            self._offered.update(map(_name_of, new))
            definitions = dict(map(_definition, new))
            if self.has_begun:
                self.recorder.tools_offered(definitions.values())
                return
            self.has_begun = True
            self.recorder.run_started(
                messages,
                interface=INTERFACE,
                model=None if request is None else request.model,
                tools=definitions,
                max_turns=self._options.get("max_turns"),
                parent_run=self._parent,
                settings={} if request is None else request.settings,
                definitions=definitions,
            )

    def request(self) -> float:
        """Begin a request to a model, and return the time.

        Raises:
            GraphLimitError: The run has reached a limit.
        """
        spent, max_turns = self.recorder.trace.usage_so_far, self._options.get("max_turns")
        max_tokens, max_cost = (
            self._options.get("max_tokens_total"),
            self._options.get("max_cost_usd"),
        )
        if max_tokens is not None and spent.total_tokens >= max_tokens:
            raise self._limit(f"has used {spent.total_tokens} of {max_tokens} tokens")
        if max_cost is not None and self.recorder.trace.turns:
            if spent.cost_usd is None:
                raise self._limit("has an unknown cost, so max_cost_usd cannot hold: set prices")
            if spent.cost_usd >= max_cost:
                raise self._limit(f"has cost ${spent.cost_usd:g} of ${max_cost:g}")
        with self._lock:
            # Requests in other branches count too, before they are answered.
            if max_turns is not None and self._requests >= max_turns:
                raise self._limit(f"has made {max_turns} turns")
            self._requests += 1
        return time.monotonic()

    def request_failed(self) -> None:
        """Take back a request that was not answered."""
        with self._lock:
            self._requests -= 1

    def turn(self, message: AIMessage, began: float | None, node: str | None) -> None:
        """Record an answer, with its cost."""
        model, usage = model_name_of(message), usage_from_langchain(message)
        if usage is not None and model is not None:
            provider = message.response_metadata.get("model_provider")
            cost = cost_function(self._options.get("prices"), provider)(model, usage)
            usage = usage if cost is None else replace(usage, cost_usd=round(cost, 10))
        self.recorder.turn(
            replace(message_from_any(message), usage_metadata=None),
            model=model,
            usage=usage,
            seconds=None if began is None else round(time.monotonic() - began, 6),
            stop_reason=stop_reason_of(message),
            node=node,
        )

    def call(self, call_id: str, name: str, arguments: Mapping[str, Any], node: str | None) -> None:
        """Record a call that is about to be made.

        Raises:
            GraphLimitError: The run has made all the calls that it may make.
        """
        limit = self._options.get("max_tool_calls")
        with self._lock:
            if call_id in self._open:  # the graph resumes after an interrupt
                return
            if limit is not None and self._calls >= limit:
                raise self._limit(f"has made {limit} tool calls")
            self._calls += 1
            self._open.add(call_id)
        self.recorder.tool_called(call_id, name, arguments, node=node)

    def returned(self, call_id: str, output: object) -> None:
        """Record the result of a call, as the model reads it."""
        self._open.discard(call_id)
        # A tool may return a command, or an update of the state, that holds its message.
        update: object = output.update if isinstance(output, Command) else output
        messages: object = [update]
        if isinstance(update, Mapping):
            messages = cast("Mapping[str, Any]", update).get("messages")
        elif isinstance(update, list):
            messages = cast("list[object]", update)
        found = cast("list[object]", messages) if isinstance(messages, list) else []
        answers = [one for one in found if isinstance(one, ToolMessage)]
        own = (one for one in answers if one is output or one.tool_call_id == call_id)
        message = next(own, None)
        if message is None:
            self.recorder.tool_returned(call_id, text_from_value(cast("object", output)))
        else:
            text = message_from_any(message).tool_results[0].content
            is_error = message.status == "error"
            images = images_in(message.content)
            self.recorder.tool_returned(call_id, text, is_error=is_error, images=images)

    def call_failed(self, call_id: str, error: BaseException) -> None:
        """Record the failure of a call; an interrupt is none, as the call is made again."""
        if isinstance(error, ParentCommand):
            self.returned(call_id, cast("tuple[object]", error.args)[0])
        elif not isinstance(error, GraphBubbleUp):
            self._open.discard(call_id)
            text = f"{type(error).__name__}: {error}"
            self.recorder.tool_returned(call_id, text, is_error=True)

    def end(self, error: BaseException | None = None) -> None:
        """Record the end of the run, once; an interrupted run has none."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
        if isinstance(error, GraphBubbleUp):
            return
        status: Status = "failed"
        if error is None:
            kind = stop_kind(self.recorder.trace.stop_reason)
            status = "completed" if kind == "complete" else kind
        elif isinstance(error, GraphLimitError | GraphRecursionError):
            status = "limit"
        elif not isinstance(error, Exception):
            status = "cancelled"
        else:
            self.recorder.failed(error)
        self.recorder.ended(status)

    def _limit(self, what: str) -> GraphLimitError:
        error = GraphLimitError(f"the graph {what}", limit_reached=True)
        trace = self.recorder.trace
        error.trace, error.messages, error.usage = trace, trace.messages, trace.usage
        return error


def settings_of(
    standard: Mapping[str, Any], attributes: Mapping[str, Any], others: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a model for a trace.

    LangChain names the provider, the temperature and the limit of tokens in one way for all chat
    models (`standard`); the endpoint is an attribute of the model, whose name differs.
    """
    found: dict[str, Any] = {
        "provider": standard.get("ls_provider"),
        "endpoint": next((str(attributes[key]) for key in _ENDPOINTS if attributes.get(key)), None),
        "temperature": standard.get("ls_temperature"),
        "max_tokens": standard.get("ls_max_tokens"),
        "extra_kwargs": {key: value for key, value in others.items() if value is not None} or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _name_of(tool: BaseTool | Mapping[str, Any]) -> str:
    if not isinstance(tool, Mapping):
        return tool.name
    function: Mapping[str, Any] = tool.get("function") or tool
    return str(function.get("name") or function.get("type"))


def _definition(tool: BaseTool | Mapping[str, Any]) -> tuple[str, ToolDefinition]:
    name = _name_of(tool)
    if isinstance(tool, Mapping) and "function" not in tool:  # in the form of its provider
        schema = tool.get("input_schema") or tool.get("parameters") or tool
        return name, (name, str(tool.get("description") or ""), schema)
    data: dict[str, Any] = convert_to_openai_tool(cast("Any", tool))["function"]
    return name, (name, data.get("description") or "", data.get("parameters") or {})


def node_of(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the path of a node: `research/model` is the node `model` of the graph `research`."""
    path = str((metadata or {}).get("langgraph_checkpoint_ns") or "")
    return "/".join(part.partition(":")[0] for part in path.split("|") if part) or None


def messages_in(values: object) -> list[Message]:
    """Return the messages of a state, as far as traces have such messages."""
    if not isinstance(values, Mapping):
        return []
    messages = cast("Mapping[str, Any]", values).get("messages")
    listed = cast("list[object]", messages) if isinstance(messages, list | tuple) else [messages]
    found: list[Message] = []
    for one in listed:
        try:
            if not isinstance(one, Message):
                (one,) = convert_to_messages([cast("Any", one)])  # noqa: PLW2901
            found.append(message_from_any(one))
        except (ValueError, NotImplementedError):  # no message, or one that traces do not have
            continue
    return found


_OTHER_SETTINGS = (
    "top_p",
    "top_k",
    "seed",
    "stop",
    "thinking",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "tool_choice",
    "parallel_tool_calls",
)
"""The parameters of a request that are recorded under `extra_kwargs`."""


@dataclass(eq=False, slots=True)
class _Run:
    recording: GraphRecording
    root: UUID
    """The id of the graph."""
    input: list[Message]
    span: OpenSpan | None = None
    interrupt: GraphInterrupt | None = None

    def begin(
        self, sent: Sequence[BaseMessage | str] = (), request: ModelRequestFacts | None = None
    ) -> None:
        """Record the start of the run; the first request has the system prompt, too."""
        if self.recording.has_begun and request is None:
            return
        messages = [] if self.recording.has_begun else messages_in({"messages": list(sent)})
        prompt = [one for one in messages if one.role == "system"]
        others = [one for one in messages if one.role != "system"]
        is_input = not self.input or others == self.input
        self.recording.begin([*prompt, *others] if is_input else self.input, request)

    def end(self, error: BaseException | None) -> None:
        """Record the end of the run, and its start if it has made no request and no call."""
        self.begin()
        self.recording.end(error)
        if self.span is not None:
            trace = self.recording.recorder.trace
            answer = [one for one in trace.messages[-1:] if one.role == "assistant"]
            self.span.details |= agent_outcome(trace.usage_so_far, trace.stop_reason, None, answer)
            self.span.end(AGENT_METRIC, None if isinstance(error, GraphBubbleUp) else error)


@dataclass(eq=False, slots=True)
class _Request:
    recording: GraphRecording
    began: float
    node: str | None
    standard: Mapping[str, Any]
    """What LangChain says of the model."""

    def span(self) -> AbstractContextManager[dict[str, Any] | None]:
        """Return the span of the request, which has ended."""
        if not is_traced():
            return nullcontext()
        provider, model = self.standard.get("ls_provider"), self.standard.get("ls_model_name")
        settings = {name: self.standard.get(f"ls_{name}") for name in ("temperature", "max_tokens")}
        return chat_span(provider, model, self.began, **settings)


class GraphTracer(BaseCallbackHandler):
    """Records the runs of a graph, with their sub-graphs and parallel branches, also as spans.

    Pass it as a callback: `graph.invoke(input, {"callbacks": [tracer]})`. At a limit it raises
    `GraphLimitError` before the next request to a model, or the next call. It needs no agent of
    plait. Runs at the same time, as those of `graph.batch`, have a trace each.
    """

    raise_error = True
    """A limit ends the graph."""
    run_inline = True

    def __init__(
        self, trace: str | Path | None = None, **options: Unpack[GraphTraceOptions]
    ) -> None:
        """Take the file of the traces, if there is one, and the limits of each run."""
        self._traces = GraphTraces(trace, options)
        self._runs: dict[UUID, _Run] = {}
        """The runs of chains and tools that run, by the id of the chain or tool."""
        self._requests: dict[UUID, _Request] = {}
        self._calls: dict[UUID, tuple[GraphRecording, str]] = {}

    @property
    def trace(self) -> Trace:
        """The trace of the run that began last, so far."""
        return self._traces.last

    @override
    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: dict[str, Any],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        if (run := self._run_of(parent_run_id)) is None:
            run = _Run(self._traces.begin(), run_id, messages_in(inputs))
            if is_traced():
                run.span = open_agent_span(kwargs.get("name"), run.input)
        self._runs[run_id] = run

    def _run_of(self, parent: UUID | None) -> _Run | None:
        return None if parent is None else self._runs.get(parent)

    @override
    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None and run_id == run.root:
            run.end(run.interrupt)

    @override
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        if isinstance(error, GraphInterrupt):  # of a node: its graph ends without an error
            run.interrupt = error
        if run_id == run.root:
            run.end(error)

    @override
    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        self._request(run_id, serialized, messages[0], kwargs)

    @override
    def on_llm_start(
        self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self._request(run_id, serialized, prompts[:1], kwargs)

    def _request(
        self,
        run_id: UUID,
        serialized: Mapping[str, Any] | None,
        messages: Sequence[BaseMessage | str],
        facts: Mapping[str, Any],
    ) -> None:
        run = self._run_of(facts.get("parent_run_id"))
        if run is None:
            return
        standard: Mapping[str, Any] = facts.get("metadata") or {}
        parameters: Mapping[str, Any] = facts.get("invocation_params") or {}
        others = {key: parameters.get(key) for key in _OTHER_SETTINGS}
        settings = settings_of(standard, (serialized or {}).get("kwargs") or {}, others)
        tools = parameters.get("tools") or ()
        run.begin(messages, ModelRequestFacts(standard.get("ls_model_name"), settings, tools))
        node = node_of(facts.get("metadata"))
        began = run.recording.request()
        self._requests[run_id] = _Request(run.recording, began, node, standard)

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        request = self._requests.pop(run_id, None)
        if request is None or not response.generations:
            return
        generation = response.generations[0][0]
        message = AIMessage(generation.text)  # of a model for texts
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            message = generation.message
        request.recording.turn(message, request.began, request.node)
        with request.span() as details:
            describe_answer(
                details,
                response_id=message.id,
                model=model_name_of(message),
                stop_reason=stop_reason_of(message),
                usage=usage_from_langchain(message),
            )

    @override
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if (request := self._requests.pop(run_id, None)) is not None:
            request.recording.request_failed()
            with suppress(BaseException), request.span():
                raise error

    @override
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if (run := self._run_of(parent_run_id)) is None:
            return
        run.begin()
        call_id = str(kwargs.get("tool_call_id") or run_id)
        arguments = arguments_from(inputs if inputs is not None else input_str)
        name = str((serialized or {}).get("name") or "tool")
        run.recording.call(call_id, name, arguments, node_of(metadata))
        self._calls[run_id] = (run.recording, call_id)
        self._runs[run_id] = run  # a tool may run a graph

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._runs.pop(run_id, None)
        if (call := self._calls.pop(run_id, None)) is not None:
            run, call_id = call
            run.returned(call_id, output)

    @override
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._runs.pop(run_id, None)
        if (call := self._calls.pop(run_id, None)) is not None:
            run, call_id = call
            run.call_failed(call_id, error)


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
