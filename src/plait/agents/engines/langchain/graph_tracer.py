"""A callback handler that traces and limits any graph of LangGraph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphBubbleUp, GraphRecursionError
from typing_extensions import override

from plait._support.redact import Redactor
from plait.agents.call_arguments import arguments_from
from plait.agents.engines.langchain.messages import (
    model_name_of,
    stop_reason_of,
    usage_from_langchain,
)
from plait.agents.prices import CostOf, PriceTable, cost_function
from plait.agents.program_tools import text_from_value
from plait.errors import AgentExecutionError
from plait.traces.events import TraceEvent
from plait.traces.file import TraceFile
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.message import Message
from plait.traces.recorder import Recorder
from plait.traces.trace import Trace

INTERFACE: Final = "langgraph"
"""The engine in traces of graphs."""


class GraphLimitError(AgentExecutionError):
    """A graph has reached the limit of its tracer."""


class GraphTracer(BaseCallbackHandler):
    """Records one run of a graph at a time, with its sub-graphs and parallel branches.

    Pass it as a callback: `graph.invoke(input, {"callbacks": [tracer]})`. At a limit it raises
    `GraphLimitError` before the next request to a model. It needs no agent of plait.
    """

    raise_error = True
    """A limit ends the graph."""
    run_inline = True

    def __init__(
        self,
        trace: str | Path | None = None,
        *,
        max_turns: int | None = None,
        max_tokens_total: int | None = None,
        max_cost_usd: float | None = None,
        prices: PriceTable | CostOf | None = None,
        redact: Redactor | None = None,
        on_event: Callable[[TraceEvent], None] | None = None,
    ) -> None:
        """Take the file of the trace, if there is one, and the limits of each run."""
        self._path = trace
        self._limits = (max_turns, max_tokens_total, max_cost_usd)
        self._prices = prices
        self._redact = redact or Redactor()
        self._listeners = () if on_event is None else (on_event,)
        self._file: TraceFile | None = None
        self._recorder = Recorder()
        self._root: UUID | None = None
        self._began: dict[UUID, float] = {}
        self._calls: dict[UUID, str] = {}
        self._nodes: dict[UUID, str | None] = {}

    @property
    def trace(self) -> Trace:
        """The trace of the run so far, or of the last one."""
        return self._recorder.trace

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
        if parent_run_id is not None or self._root is not None:
            return
        self._root = run_id
        self._file = None if self._path is None else TraceFile(self._path)
        self._recorder = Recorder(self._file, redact=self._redact, listeners=self._listeners)
        self._recorder.cost_of = cost_function(self._prices)
        self._recorder.run_started(
            _messages_in(inputs), interface=INTERFACE, max_turns=self._limits[0]
        )

    @override
    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> None:
        if run_id == self._root:
            self._end("completed")

    @override
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if run_id != self._root:
            return
        if isinstance(error, GraphLimitError | GraphRecursionError):
            self._end("limit")
        elif isinstance(error, GraphBubbleUp):  # an interrupt, which is no failure
            self._end("completed")
        else:
            self._recorder.failed(error)
            self._end("failed" if isinstance(error, Exception) else "cancelled")

    @override
    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        turns, tokens, cost = self._limits
        spent = self.trace.usage_so_far
        if turns is not None and self.trace.turns >= turns:
            raise GraphLimitError(f"the graph has made {turns} turns", limit_reached=True)
        if tokens is not None and spent.total_tokens >= tokens:
            raise GraphLimitError(f"the graph has used {tokens} tokens", limit_reached=True)
        if cost is not None and (spent.cost_usd or 0.0) >= cost:
            raise GraphLimitError(f"the graph has cost ${cost:g}", limit_reached=True)
        self._began[run_id] = time.monotonic()
        self._nodes[run_id] = _node_of(metadata)

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        began = self._began.pop(run_id, None)
        generation = response.generations[0][0] if response.generations else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        if isinstance(message, AIMessage):
            self._recorder.turn(
                replace(message_from_any(message), usage_metadata=None),
                model=model_name_of(message),
                usage=usage_from_langchain(message),
                seconds=None if began is None else round(time.monotonic() - began, 6),
                stop_reason=stop_reason_of(message),
                node=self._nodes.pop(run_id, None),
            )

    @override
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        call_id = str(kwargs.get("tool_call_id") or run_id)
        self._calls[run_id] = call_id
        self._recorder.tool_called(
            call_id,
            str((serialized or {}).get("name") or "tool"),
            arguments_from(inputs if inputs is not None else input_str),
            node=_node_of(metadata),
        )

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        call_id = self._calls.pop(run_id, str(run_id))
        if isinstance(output, ToolMessage):
            text = message_from_any(output).tool_results[0].content
            self._recorder.tool_returned(call_id, text, is_error=output.status == "error")
        else:
            self._recorder.tool_returned(call_id, text_from_value(output))

    @override
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        call_id = self._calls.pop(run_id, str(run_id))
        if not isinstance(error, GraphBubbleUp):
            self._recorder.tool_returned(call_id, f"{type(error).__name__}: {error}", is_error=True)

    def _end(self, status: Any) -> None:
        self._recorder.ended(status)
        self._root = None
        if self._file is not None:
            self._file.close()


def _node_of(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the path of a node: `research/model` is the node `model` of the graph `research`."""
    path = str((metadata or {}).get("langgraph_checkpoint_ns") or "")
    return "/".join(part.partition(":")[0] for part in path.split("|") if part) or None


def _messages_in(inputs: object) -> list[Message]:
    if not isinstance(inputs, Mapping):
        return []
    messages = cast("Mapping[str, Any]", inputs).get("messages")
    if isinstance(messages, str):
        return [Message.user(messages)]
    found: list[Message] = []
    listed = cast("list[object]", messages) if isinstance(messages, list | tuple) else []
    for message in listed:
        try:
            found.append(message_from_any(message))
        except ValueError:  # a kind of message that traces do not have
            continue
    return found
