"""Recorded answers, by the hash of a question, the name of a task, or the id of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast

from plait.agents.port import AgentResult, result_from_trace
from plait.errors import ManualTraceError, ManualTraceNotFoundError
from plait.traces.file import read_traces
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.lists import without_prompts
from plait.traces.messages.message import Message
from plait.traces.messages.usage import UsageMetadata
from plait.traces.metrics import extract_agent_metrics
from plait.traces.raw import extract_final_ai_message, messages_to_raw_trace
from plait.traces.recorder import hash_question
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
                traces = cls()
                traces.register_run(source)
                return traces
            case _:
                kind = type(source).__name__
                raise ManualTraceError(f"manual_traces cannot be a {kind}")

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a `.jsonl` trace file, or a JSON object of recordings by question hash.

        Raises:
            ManualTraceError: A recording is invalid.
            TraceFormatError: It is not a trace file.
            OSError: It cannot be read.
        """
        if Path(path).suffix == ".jsonl":
            traces = cls()
            for trace in read_traces(path):
                traces.register_run(trace)
            return traces
        try:
            data: object = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise ManualTraceError(f"{path} is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ManualTraceError(f"{path} is not a JSON object of recordings")
        return cls._from_mapping(cast("dict[str, Any]", data), str(path))

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
            return _result_of_messages(cast("Sequence[object]", recorded), key)
        case _:
            raise ManualTraceError(f"the recording of {key!r} is empty, or not a text or a list")


def _result_of_messages(recorded: Sequence[object], key: str) -> AgentResult:
    try:
        messages = without_prompts([message_from_any(message) for message in recorded])
    except ValueError as error:
        raise ManualTraceError(f"the recording of {key!r} cannot be read: {error}") from error
    raw_trace = messages_to_raw_trace(messages)
    text, _ = extract_final_ai_message(messages)
    return _manual_result(raw_trace if text is None else text, raw_trace, messages)


def _manual_result(response: str, raw_trace: str, messages: list[Message]) -> AgentResult:
    return AgentResult(
        final_response=response,
        raw_trace=raw_trace,
        trace_messages=messages,
        usage=_usage(messages),
        turns=extract_agent_metrics(messages).iterations or 1,
        limit_reached=False,
        actual_model=MANUAL,
    )


def _usage(messages: Sequence[Message]) -> UsageMetadata:
    usages = [
        UsageMetadata.from_dict(message.usage_metadata)
        for message in messages
        if message.usage_metadata
    ]
    return replace(reduce(add, usages, UsageMetadata()), model=MANUAL)
