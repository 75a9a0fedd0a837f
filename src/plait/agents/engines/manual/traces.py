"""Recorded answers, found by the hash of a question, by the name of a task, or by a run."""

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

from plait.agents.result import AgentResult, result_from_trace
from plait.errors import ManualTraceError, ManualTraceNotFoundError
from plait.traces.final_message import extract_final_ai_message
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.lists import without_prompts
from plait.traces.messages.message import Message
from plait.traces.messages.usage import UsageMetadata
from plait.traces.metrics import extract_agent_metrics
from plait.traces.raw import messages_to_raw_trace
from plait.traces.read import read_traces
from plait.traces.recorder import hash_question
from plait.traces.trace import Trace

MANUAL = "manual"
"""The model of an answer that no model is known of."""

_HASH = re.compile(r"[0-9a-f]{32}")

Recorded = str | Sequence[Any] | Trace
"""A text, a list of messages (ours or LangChain's), or a trace."""


class ManualTraces:
    """Holds recorded answers; safe to use from several threads."""

    def __init__(self) -> None:
        self._results: dict[str, AgentResult] = {}
        self._lock = Lock()

    @classmethod
    def of(cls, given: object) -> ManualTraces:
        """Make them of a file, of `{hash: recording}`, or of a trace; they may also be there.

        Raises:
            ManualTraceError: It is none of these, or something in it cannot be used.
            TraceFormatError: A file of events cannot be read.
            OSError: The file cannot be read.
        """
        match given:
            case ManualTraces():
                return given
            case str() | Path():
                return cls.from_file(given)
            case Mapping():
                return cls._from_mapping(cast("Mapping[str, Any]", given), "manual_traces")
            case Trace():
                traces = cls()
                traces.register_run(given)
                return traces
            case _:
                kind = type(given).__name__
                raise ManualTraceError(f"manual_traces cannot be of the type {kind}")

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a `.jsonl` file of traces, or a JSON object of recordings by the hash of a question.

        Raises:
            ManualTraceError: Something in it cannot be used.
            TraceFormatError: It is no file of traces.
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
    def _from_mapping(cls, given: Mapping[str, Any], name: str) -> Self:
        traces = cls()
        for key, recorded in given.items():
            if _HASH.fullmatch(key) is None:
                raise ManualTraceError(
                    f"{name}: {key!r} is not the hash of a question: 32 digits from 0 to f"
                )
            traces.register_trace(key, recorded)
        return traces

    def register_trace(self, question: str, trace: Recorded, map_to_id: bool = False) -> None:
        """Add a recording; `question` is a hash or the name of a task, or a text to be hashed.

        Raises:
            ManualTraceError: The recording is empty, or cannot be read.
        """
        key = hash_question(question) if map_to_id else question
        result = _result(trace, key)
        with self._lock:
            self._results[key] = result

    def register_traces(self, traces: Mapping[str, Recorded], map_to_id: bool = False) -> None:
        """Add several recordings.

        Raises:
            ManualTraceError: One of them is empty, or cannot be read.
        """
        for question, trace in traces.items():
            self.register_trace(question, trace, map_to_id)

    def register_run(self, trace: Trace) -> None:
        """Add a recorded run, under the hash of its question, the name of its task, and its id."""
        started = trace.started
        keys = (trace.run, *((started.question_hash, started.task_id) if started else ()))
        result = result_from_trace(trace)
        with self._lock:
            self._results.update({key: result for key in keys if key})

    def find(self, *keys: str | None) -> AgentResult:
        """Return the recording under the first of these keys that has one.

        Raises:
            ManualTraceNotFoundError: There is none.
        """
        with self._lock:
            found = next((self._results[key] for key in keys if key in self._results), None)
        if found is None:
            asked = " or ".join(repr(key) for key in keys if key)
            count = len(self)
            raise ManualTraceNotFoundError(
                f"nothing is recorded under {asked}; {count} recordings are loaded",
                next((key for key in keys if key), None),
                count,
            )
        # A list of its own, so that nobody changes the recording.
        return replace(found, trace_messages=list(found.trace_messages))

    def __len__(self) -> int:
        return len({id(result) for result in self._results.values()})


def _result(recorded: object, key: str) -> AgentResult:
    match recorded:
        case Trace():
            return result_from_trace(recorded)
        case str() if recorded.strip():
            return AgentResult(
                final_response=recorded,
                raw_trace=recorded,
                trace_messages=[],
                usage=UsageMetadata(model=MANUAL),
                turns=1,
                limit_reached=False,
                actual_model=MANUAL,
            )
        case list() | tuple() if recorded:
            return _result_of_messages(cast("Sequence[object]", recorded), key)
        case _:
            raise ManualTraceError(f"the recording of {key!r} is empty, or not a text or a list")


def _result_of_messages(given: Sequence[object], key: str) -> AgentResult:
    try:
        messages = without_prompts([message_from_any(one) for one in given])
    except ValueError as error:
        raise ManualTraceError(f"the recording of {key!r} cannot be read: {error}") from error
    raw_trace = messages_to_raw_trace(messages)
    text, _ = extract_final_ai_message(messages)
    return AgentResult(
        final_response=raw_trace if text is None else text,
        raw_trace=raw_trace,
        trace_messages=messages,
        usage=_usage(messages),
        turns=extract_agent_metrics(messages).iterations or 1,
        limit_reached=False,
        actual_model=MANUAL,
    )


def _usage(messages: Sequence[Message]) -> UsageMetadata:
    usages = [UsageMetadata.from_dict(one.usage_metadata) for one in messages if one.usage_metadata]
    return replace(reduce(add, usages, UsageMetadata()), model=MANUAL)
