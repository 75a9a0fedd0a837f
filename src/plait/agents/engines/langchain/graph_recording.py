"""The trace and the limits of one run of a graph, for its callback handler and its middleware."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypedDict, cast

from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp, GraphRecursionError, ParentCommand
from langgraph.types import Command

from plait._support.redact import Redactor
from plait.agents.engines.langchain.messages import (
    model_name_of,
    usage_from_langchain,
)
from plait.agents.prices import CostOf, PriceTable, cost_function
from plait.agents.program_tools import text_from_value
from plait.errors import AgentExecutionError
from plait.langchain.tools.written_calls import stop_reason_of
from plait.models.stop_reasons import stop_kind
from plait.traces.events import Status, TraceEvent
from plait.traces.file import TraceFile
from plait.traces.messages.from_langchain import images_in, message_from_any
from plait.traces.messages.message import Message, UsageMetadata
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


@dataclass(frozen=True, slots=True)
class _Limits:
    turns: int | None
    calls: int | None
    tokens: int | None
    cost: float | None


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

    def begin(self) -> GraphRecording:
        """Begin the trace of a run.

        Raises:
            OSError: The file cannot be written.
        """
        with self._lock:
            if self._path is not None and self._file is None:
                self._file = TraceFile(self._path)
                weakref.finalize(self, self._file.close)
        recording = GraphRecording(self._file, self.options)
        self._last = recording.recorder
        return recording


class GraphRecording:
    """Records one run of a graph; its methods may be called from parallel branches."""

    def __init__(self, file: TraceFile | None, options: GraphTraceOptions) -> None:
        on_event = options.get("on_event")
        self.recorder = Recorder(
            file,
            redact=options.get("redact") or Redactor(),
            listeners=() if on_event is None else (on_event,),
        )
        self._prices = options.get("prices")
        self._limits = _Limits(
            options.get("max_turns"),
            options.get("max_tool_calls"),
            options.get("max_tokens_total"),
            options.get("max_cost_usd"),
        )
        self._requests = 0
        self._calls = 0
        self._open: set[str] = set()
        """The calls without a result."""
        self._lock = Lock()
        self._offered: set[str] = set()
        """The names of the tools that are recorded."""
        self.has_begun = False
        self._is_ended = False

    def begin(
        self,
        messages: Sequence[Message],
        request: ModelRequestFacts | None = None,
        *,
        parent: str | None = None,
    ) -> None:
        """Record the start of the run, once; tools of later requests are added to it."""
        with self._lock:  # of parallel branches, none records anything before the start
            definitions = self._new_definitions(() if request is None else request.tools)
            if self.has_begun:
                self.recorder.tools_offered(definitions.values())
                return
            self.has_begun = True
            self.recorder.run_started(
                messages,
                interface=INTERFACE,
                model=None if request is None else request.model,
                tools=definitions,
                max_turns=self._limits.turns,
                parent_run=parent,
                settings={} if request is None else request.settings,
                definitions=definitions,
            )

    def _new_definitions(self, tools: Sequence[Any]) -> dict[str, ToolDefinition]:
        """Describe the tools that no request of the run has offered before."""
        new = [tool for tool in tools if _name_of(tool) not in self._offered]
        self._offered.update(map(_name_of, new))
        return dict(map(_definition, new))

    def request(self) -> float:
        """Begin a request to a model, and return the time.

        Raises:
            GraphLimitError: The run has reached a limit.
        """
        limits, spent = self._limits, self.recorder.trace.usage_so_far
        if limits.tokens is not None and spent.total_tokens >= limits.tokens:
            raise self._limit(f"has used {spent.total_tokens} of {limits.tokens} tokens")
        if limits.cost is not None and self.recorder.trace.turns:
            if spent.cost_usd is None:
                raise self._limit("has an unknown cost, so max_cost_usd cannot hold: set prices")
            if spent.cost_usd >= limits.cost:
                raise self._limit(f"has cost ${spent.cost_usd:g} of ${limits.cost:g}")
        with self._lock:
            # Requests in other branches count too, before they are answered.
            if limits.turns is not None and self._requests >= limits.turns:
                raise self._limit(f"has made {limits.turns} turns")
            self._requests += 1
        return time.monotonic()

    def request_failed(self) -> None:
        """Take back a request that was not answered."""
        with self._lock:
            self._requests -= 1

    def turn(self, message: AIMessage, began: float | None, node: str | None) -> None:
        """Record an answer, with its cost."""
        model, usage = model_name_of(message), usage_from_langchain(message)
        self.recorder.turn(
            replace(message_from_any(message), usage_metadata=None),
            model=model,
            usage=self._with_cost(message, model, usage),
            seconds=None if began is None else round(time.monotonic() - began, 6),
            stop_reason=stop_reason_of(message),
            node=node,
        )

    def _with_cost(
        self, message: AIMessage, model: str | None, usage: UsageMetadata | None
    ) -> UsageMetadata | None:
        if usage is None or model is None:
            return usage
        provider = message.response_metadata.get("model_provider")
        cost = cost_function(self._prices, provider)(model, usage)
        return usage if cost is None else replace(usage, cost_usd=round(cost, 10))

    def call(self, call_id: str, name: str, arguments: Mapping[str, Any], node: str | None) -> None:
        """Record a call that is about to be made.

        Raises:
            GraphLimitError: The run has made all the calls that it may make.
        """
        limit = self._limits.calls
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
        message = _tool_message(output, call_id)
        if message is None:
            self.recorder.tool_returned(call_id, text_from_value(output))
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
        if not isinstance(error, GraphBubbleUp):
            self.recorder.ended(self._status(error))

    def _status(self, error: BaseException | None) -> Status:
        if error is None:
            kind = stop_kind(self.recorder.trace.stop_reason)
            return "completed" if kind == "complete" else kind
        if isinstance(error, GraphLimitError | GraphRecursionError):
            return "limit"
        if not isinstance(error, Exception):
            return "cancelled"
        self.recorder.failed(error)
        return "failed"

    def _limit(self, what: str) -> GraphLimitError:
        error = GraphLimitError(f"the graph {what}", limit_reached=True)
        trace = self.recorder.trace
        error.trace, error.messages, error.usage = trace, trace.messages, trace.usage
        return error


def _tool_message(output: object, call_id: str) -> ToolMessage | None:
    """Return the message that answers a call; a tool may return a command that holds it."""
    if isinstance(output, ToolMessage):
        return output
    update = output.update if isinstance(output, Command) else output
    if isinstance(update, Mapping):
        update = cast("Mapping[str, Any]", update).get("messages")
    messages = cast("list[object]", update) if isinstance(update, list) else []
    answers = [one for one in messages if isinstance(one, ToolMessage)]
    return next((one for one in answers if one.tool_call_id == call_id), None)


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
    return [found for one in listed if (found := _message(one)) is not None]


def _message(value: object) -> Message | None:
    try:
        if not isinstance(value, Message):
            (value,) = convert_to_messages([cast("Any", value)])
        return message_from_any(value)
    except (ValueError, NotImplementedError):  # no message, or one that traces do not have
        return None
