"""The engine `manual`: answers with recordings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast

from plait._support.redact import Redactor
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.live_agent import invocation, recorder_for
from plait.agents.port import (
    AgentCapabilities,
    AgentResult,
    BaseAgent,
    Conversation,
    Settings,
    read_messages,
    result_from_trace,
)
from plait.agents.program_tools import ToolLike
from plait.agents.servers import AgentServers
from plait.errors import ManualEngineError, ManualTraceError, ManualTraceNotFoundError
from plait.traces.file import read_traces
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.message import Message, Role, UsageMetadata, without_prompts
from plait.traces.metrics import extract_agent_metrics
from plait.traces.raw import extract_final_ai_message, messages_to_raw_trace
from plait.traces.recorder import Recorder, hash_question
from plait.traces.trace import Trace

MANUAL = "manual"
"""The model name of a recording without one."""

_HASH = re.compile(r"[0-9a-f]{32}")

Recorded = str | Sequence[Any] | Trace
"""A text, a list of messages (ours or LangChain's), or a trace."""


class ManualTraces:
    """Recorded answers; safe to use from several threads."""

    def __init__(self) -> None:
        self._results: dict[str, AgentResult] = {}
        self._lock = Lock()

    @classmethod
    def of(cls, source: object) -> ManualTraces:
        """Read recordings from a file, `{hash: recording}`, a trace or a `ManualTraces`.

        Raises:
            ManualTraceError: It is none of these, or a recording is invalid.
            TraceFormatError: The file is not a trace file.
            OSError: The file cannot be read.
        """
        match source:
            case ManualTraces():
                return source
            case str() | Path():
                return cls.from_file(source)
            case Mapping():
                return cls._from_mapping(cast("Mapping[str, Any]", source), "manual_traces")
            case Trace():
                return cls._from_runs([source])
            case _:
                raise ManualTraceError(f"manual_traces cannot be a {type(source).__name__}")

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a `.jsonl` trace file, or a JSON object of recordings by question hash.

        Raises:
            ManualTraceError: A recording is invalid.
            TraceFormatError: It is not a trace file.
            OSError: It cannot be read.
        """
        if Path(path).suffix == ".jsonl":
            return cls._from_runs(read_traces(path))
        try:
            data: object = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise ManualTraceError(f"{path} is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ManualTraceError(f"{path} is not a JSON object of recordings")
        return cls._from_mapping(cast("dict[str, Any]", data), str(path))

    @classmethod
    def _from_runs(cls, runs: Iterable[Trace]) -> Self:
        traces = cls()
        for trace in runs:
            traces.register_run(trace)
        return traces

    @classmethod
    def _from_mapping(cls, recordings: Mapping[str, Any], name: str) -> Self:
        traces = cls()
        for key, recorded in recordings.items():
            if _HASH.fullmatch(key) is None:
                raise ManualTraceError(
                    f"{name}: {key!r} is not the hash of a question: 32 digits from 0 to f"
                )
            traces.register_trace(key, recorded)
        return traces

    def register_trace(self, question: str, trace: Recorded, map_to_id: bool = False) -> None:
        """Add a recording; `question` is a hash, the name of a task, or a text to hash.

        Raises:
            ManualTraceError: The recording is empty or invalid.
        """
        key = hash_question(question) if map_to_id else question
        result = _result(trace, key)
        with self._lock:
            self._results[key] = result

    def register_traces(self, traces: Mapping[str, Recorded], map_to_id: bool = False) -> None:
        """Add several recordings.

        Raises:
            ManualTraceError: One of them is empty or invalid.
        """
        for question, trace in traces.items():
            self.register_trace(question, trace, map_to_id)

    def register_run(self, trace: Trace) -> None:
        """Add a run by its question hash, the name of its task, and its id."""
        started = trace.started
        keys = (trace.run, *((started.question_hash, started.task_id) if started else ()))
        result = result_from_trace(trace)
        with self._lock:
            self._results.update({key: result for key in keys if key})

    def find(self, *keys: str | None) -> AgentResult:
        """Return the recording of the first key that has one.

        Raises:
            ManualTraceNotFoundError: There is none.
        """
        with self._lock:
            result = next((self._results[key] for key in keys if key in self._results), None)
        if result is None:
            names = " or ".join(repr(key) for key in keys if key)
            count = len(self)
            raise ManualTraceNotFoundError(
                f"nothing is recorded under {names}; {count} recordings are loaded",
                next((key for key in keys if key), None),
                count,
            )
        # A copy of the list, so that callers cannot change the recording.
        return replace(result, trace_messages=list(result.trace_messages))

    def __len__(self) -> int:
        return len({id(result) for result in self._results.values()})


def _result(recorded: object, key: str) -> AgentResult:
    match recorded:
        case Trace():
            return result_from_trace(recorded)
        case str() if recorded.strip():
            return _manual_result(recorded, recorded, [])
        case list() | tuple() if recorded:
            items = cast("Sequence[object]", recorded)
            try:
                messages = without_prompts([message_from_any(item) for item in items])
            except ValueError as error:
                text = f"the recording of {key!r} cannot be read: {error}"
                raise ManualTraceError(text) from error
            raw_trace = messages_to_raw_trace(messages)
            text, _ = extract_final_ai_message(messages)
            return _manual_result(raw_trace if text is None else text, raw_trace, messages)
        case _:
            raise ManualTraceError(f"the recording of {key!r} is empty, or not a text or a list")


def _manual_result(response: str, raw_trace: str, messages: list[Message]) -> AgentResult:
    usage = UsageMetadata(model=MANUAL)
    for reported in filter(None, (message.usage_metadata for message in messages)):
        usage += UsageMetadata.from_dict(reported)
    return AgentResult(
        final_response=response,
        raw_trace=raw_trace,
        trace_messages=messages,
        usage=replace(usage, model=MANUAL),
        turns=extract_agent_metrics(messages).iterations or 1,
        limit_reached=False,
        actual_model=MANUAL,
    )


class ManualAgent(BaseAgent):
    """Returns recorded answers, by the hash of the question or the name of the task."""

    def __init__(self, model_config: ModelConfig) -> None:
        self._model_config = model_config
        self._traces = ManualTraces.of(model_config.manual_traces)

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the engine supports."""
        return AgentCapabilities(supports_system_prompt=False)

    async def arun(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
    ) -> AgentResult:
        """Return the recording of `config.question_hash`, or of `config.extra["task_id"]`."""
        messages, settings = read_messages(messages), AgentConfig.of(config, output_type)
        if settings.output_type is not None:
            text = "output_type needs a model to ask: the manual engine returns recorded answers"
            raise ManualEngineError(text, "output_type")
        if mcp_servers or tools:
            raise ManualEngineError(
                "MCP tools are not supported with manual interface: recordings call no tools",
                "tools" if tools else "mcp_servers",
            )
        if settings.question_hash is None and settings.task_id is None:
            raise ManualEngineError(
                "the manual engine needs AgentConfig.question_hash (the MD5 of the question), "
                'or extra["task_id"]',
                "arun",
            )
        with invocation(self._model_config, messages) as describe:
            result = describe(self._traces.find(settings.question_hash, settings.task_id))
            if settings.trace is not None or settings.on_event is not None:
                with recorder_for(settings, Redactor()) as recorder:
                    _record(recorder, messages, settings, result)
        return result


def _record(
    recorder: Recorder, messages: Sequence[Message], settings: AgentConfig, result: AgentResult
) -> None:
    """Write the trace of a replay, with the times of the replay."""
    recorder.run_started(
        messages,
        interface="manual",
        model=result.actual_model,
        question_hash=settings.question_hash,
        task_id=settings.task_id,
    )
    for message in result.trace_messages:
        if message.role is Role.ASSISTANT:
            recorder.turn(message)
            for call in message.tool_calls:
                recorder.tool_called(call.id, call.name, call.input)
        for answer in message.tool_results:
            recorder.tool_returned(answer.tool_use_id, answer.content, is_error=answer.is_error)
    recorder.ended(
        "failed" if result.status == "unfinished" else result.status,
        final_response=result.final_response,
        usage=result.usage,
        turns=result.turns,
        session_id=result.session_id,
        actual_model=result.actual_model,
    )
