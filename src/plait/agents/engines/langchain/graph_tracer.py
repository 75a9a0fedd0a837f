"""A callback handler that traces and limits any graph of LangGraph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphInterrupt
from typing_extensions import override

from plait.agents.call_arguments import arguments_from
from plait.agents.engines.langchain.graph_recording import (
    INTERFACE,
    GraphRecording,
    GraphTraceOptions,
    GraphTraces,
    messages_in,
    node_of,
)
from plait.traces.trace import Trace


class GraphTracer(BaseCallbackHandler):
    """Records the runs of a graph, with their sub-graphs and parallel branches.

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
        self._runs: dict[UUID, GraphRecording] = {}
        """The recordings of chains that run, by the id of the chain."""
        self._roots: set[UUID] = set()
        self._interrupts: dict[GraphRecording, GraphInterrupt] = {}
        self._requests: dict[UUID, tuple[GraphRecording, float, str | None]] = {}
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
            run = self._begin(inputs)
            self._roots.add(run_id)
        self._runs[run_id] = run

    def _run_of(self, parent: UUID | None) -> GraphRecording | None:
        return None if parent is None else self._runs.get(parent)

    def _begin(self, inputs: object) -> GraphRecording:
        run = self._traces.begin()
        limit = self._traces.options.get("max_turns")
        run.recorder.run_started(messages_in(inputs), interface=INTERFACE, max_turns=limit)
        return run

    @override
    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None and run_id in self._roots:
            self._roots.discard(run_id)
            run.end(self._interrupts.pop(run, None))

    @override
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        if isinstance(error, GraphInterrupt):  # of a node: its graph ends without an error
            self._interrupts[run] = error
        if run_id in self._roots:
            self._roots.discard(run_id)
            self._interrupts.pop(run, None)
            run.end(error)

    @override
    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **kwargs: Any
    ) -> None:
        self._request(run_id, kwargs)

    @override
    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._request(run_id, kwargs)

    def _request(self, run_id: UUID, facts: Mapping[str, Any]) -> None:
        if (run := self._run_of(facts.get("parent_run_id"))) is not None:
            self._requests[run_id] = (run, run.request(), node_of(facts.get("metadata")))

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        request = self._requests.pop(run_id, None)
        if request is None or not response.generations:
            return
        run, began, node = request
        generation = response.generations[0][0]
        message = AIMessage(generation.text)  # of a model for texts
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            message = generation.message
        run.turn(message, began, node)

    @override
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if (request := self._requests.pop(run_id, None)) is not None:
            request[0].request_failed()

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
        call_id = str(kwargs.get("tool_call_id") or run_id)
        arguments = arguments_from(inputs if inputs is not None else input_str)
        name = str((serialized or {}).get("name") or "tool")
        run.call(call_id, name, arguments, node_of(metadata))
        self._calls[run_id] = (run, call_id)
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
