"""A callback handler that traces and limits any graph of LangGraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphInterrupt
from typing_extensions import override

from plait.agents.engines.langchain.graph_recording import (
    GraphRecording,
    GraphTraceOptions,
    GraphTraces,
    ModelRequestFacts,
    messages_in,
    node_of,
    settings_of,
)
from plait.models.call_arguments import arguments_from
from plait.traces.messages.message import Message
from plait.traces.trace import Trace

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
        self._runs: dict[UUID, _Run] = {}
        """The runs of chains and tools that run, by the id of the chain or tool."""
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
            run = _Run(self._traces.begin(), run_id, messages_in(inputs))
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
        run.begin(messages, _request_facts(serialized or {}, facts))
        node = node_of(facts.get("metadata"))
        self._requests[run_id] = (run.recording, run.recording.request(), node)

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


def _request_facts(serialized: Mapping[str, Any], facts: Mapping[str, Any]) -> ModelRequestFacts:
    standard: Mapping[str, Any] = facts.get("metadata") or {}
    parameters: Mapping[str, Any] = facts.get("invocation_params") or {}
    others = {key: parameters.get(key) for key in _OTHER_SETTINGS}
    return ModelRequestFacts(
        standard.get("ls_model_name"),
        settings_of(standard, serialized.get("kwargs") or {}, others),
        parameters.get("tools") or (),
    )
