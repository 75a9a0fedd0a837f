"""The result of one run of a case, and the files of lines that it and others are appended to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from plait._support.files import write_atomically
from plait.errors import ConfigError
from plait.traces.codec import misfits
from plait.traces.file import read_trace
from plait.traces.messages.message import messages_to_dicts

Outcome = Literal["passed", "failed", "error"]
"""An `error` is a failure of the infrastructure, which says nothing about the answer."""

StageOutcome = Literal["passed", "failed", "overruled", "error"]
"""A failure that a later stage takes back is `overruled`."""

_TEMPORARY = re.compile(r"(?<=[/\\])(?:plait-|tmp)[a-z0-9_]{8}\b")
"""The names that Python gives to temporary folders."""

RESULTS_FILE = "results.jsonl"
ANSWER_STAGE = "GenerateAnswer"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What one stage found."""

    name: str
    outcome: StageOutcome
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One run of a case by one model on one engine."""

    key: str
    """Identifies case, model, engine, judge and number of the run; a changed case has another."""
    case: str
    model: str
    """The identity of the model: `interface:model +[servers]`."""
    engine: str
    repeat: int
    """The number of the run, from 1."""
    outcome: Outcome
    case_key: str = ""
    """Identifies the case as it was defined."""
    judge: str = ""
    """The model that judged, if the suite names one."""
    seed: int | None = None
    tags: tuple[str, ...] = ()
    stages: tuple[StageResult, ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    """Each check with its name, `passed` and message."""
    parsed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields that the judge read from the answer."""
    traits: Mapping[str, bool] = field(default_factory=dict[str, bool])
    quotes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """What the judge quoted, by field or trait."""
    verify_result: bool | None = None
    """Whether the template was fulfilled; `None` if it was not looked at."""
    abstention_detected: bool | None = None
    sufficiency_detected: bool | None = None
    embedding_similarity: Mapping[str, float] = field(default_factory=dict[str, float])
    """How similar texts are to the expected ones, by field."""
    answer: str = ""
    status: str = ""
    error: str | None = None
    turns: int = 0
    tokens: int = 0
    judge_tokens: int = 0
    cost_usd: float | None = None
    """What answer and judge cost, as far as prices are known."""
    usage_metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The usage of each stage that called a model, and `total`."""
    seconds: float = 0.0
    recursion_limit_reached: bool = False
    answering_mcp_servers: tuple[str, ...] = ()
    agent_metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    heals: int = 0
    """How often a server was lost and connected again."""
    retries: int = 0
    """How often a call or a request to the model was repeated."""
    trace: str | None = None
    """The file of the trace, relative to the folder of the report."""

    @property
    def failure(self) -> str:
        """What failed first, in one line; names of temporary folders are left out.

        So runs that failed alike have the same text.
        """
        failed = next((one for one in self.stages if one.outcome in {"failed", "error"}), None)
        text = "" if failed is None else f"{failed.name}: {failed.message}"
        return _TEMPORARY.sub("…", text if self.error is None else self.error)

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer that can be judged again."""
        return not any(one.name == ANSWER_STAGE and one.outcome == "error" for one in self.stages)

    @property
    def completed_without_errors(self) -> bool:
        """Whether the run could be decided; a limit that was reached is no error."""
        return self.outcome != "error"

    @property
    def variant(self) -> str:
        """What answered and judged, by which results are grouped."""
        return f"{self.model}, judge {self.judge}" if self.judge else self.model

    def trace_in(self, report: Path) -> Path | None:
        """Return the file of the trace; `None` if there is none, or not in the report."""
        if self.trace is None:
            return None
        path = (report / self.trace).resolve()
        return path if path.is_relative_to(report.resolve()) else None

    def with_trace(self, report: str | Path) -> dict[str, Any]:
        """Return the result as plain data, with the texts and messages of its trace.

        Raises:
            OSError: The report has no such trace.
        """
        data = {**asdict(self), "completed_without_errors": self.completed_without_errors}
        path = self.trace_in(Path(report))
        if path is None:
            return {**data, "raw_llm_response": "", "trace_messages": []}
        trace = read_trace(path)
        messages = trace.messages
        return {
            **data,
            "raw_llm_response": trace.raw_trace_of(messages),
            "trace_messages": messages_to_dicts(messages),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CaseResult:
        """Convert a line of the file back."""
        fields = dict(data)
        fields["stages"] = tuple(StageResult(**stage) for stage in data.get("stages", ()))
        for name in ("tags", "checks", "answering_mcp_servers"):
            fields[name] = tuple(data.get(name, ()))
        return cls(**fields)


class ResultFile:
    """An append-only file of results; each is passed to the system before it is reported.

    So the end of this process loses none. After a failure of power the last ones are run again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS_FILE

    def append(self, result: CaseResult) -> None:
        """Write one result."""
        append_lines(self.path, [asdict(result)])

    def replace(self, results: Iterable[CaseResult]) -> None:
        """Write the file anew, with these results only."""
        replace_lines(self.path, map(asdict, results))

    def read(self) -> dict[str, CaseResult]:
        """Return the results by key, the newest of each; a line that was cut off is left out."""
        found: dict[str, CaseResult] = {}
        for line in read_lines(self.path):
            try:
                result = CaseResult.from_dict(line)
            except (ValueError, TypeError, KeyError):
                continue
            if not misfits(result):
                found[result.key] = result
        return found


def read_results(path: str | Path) -> list[CaseResult]:
    """Read the results of a report folder, or of its results file.

    Raises:
        ConfigError: There are none.
    """
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    results = list(ResultFile(folder).read().values())
    if not results:
        raise ConfigError(f"there are no results in {place}")
    return results


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Append objects to a file, which only its owner may read if it is new."""
    data = _encoded(values)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # the last writer was killed in the middle of a line
                data = b"\n" + data
        file.write(data)


def replace_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Replace the objects of a file; its readers see those before, or the new ones."""
    write_atomically(path, _encoded(values).decode(), mode=0o600)


def _encoded(values: Iterable[Mapping[str, Any]]) -> bytes:
    lines = [json.dumps(value, ensure_ascii=False, default=str) for value in values]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, if it is there; lines that were cut off are left out."""
    if not path.is_file():
        return
    # Not `splitlines`: texts contain what it takes for the end of a line, such as U+2028.
    for line in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)
