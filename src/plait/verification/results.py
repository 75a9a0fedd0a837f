"""The result of one run of a case, and the file that results are appended to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from plait.errors import ConfigError

Outcome = Literal["passed", "failed", "error"]
"""An `error` is a failure of the infrastructure, which says nothing about the answer."""

RESULTS_FILE = "results.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What one stage found."""

    name: str
    outcome: Literal["passed", "failed", "error"]
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One run of a case by one model on one engine."""

    key: str
    """Identifies case, model, engine and number of the run; a changed case has another."""
    case: str
    model: str
    """The identity of the model: `interface:model +[servers]`."""
    engine: str
    repeat: int
    """The number of the run, from 1."""
    outcome: Outcome
    tags: tuple[str, ...] = ()
    stages: tuple[StageResult, ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    """Each check with its name, `passed` and message."""
    parsed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields that the judge read from the answer."""
    traits: Mapping[str, bool] = field(default_factory=dict[str, bool])
    answer: str = ""
    status: str = ""
    error: str | None = None
    turns: int = 0
    tokens: int = 0
    judge_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    recursion_limit_reached: bool = False
    answering_mcp_servers: tuple[str, ...] = ()
    agent_metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    trace: str | None = None
    """The file of the trace, relative to the folder of the report."""

    @property
    def failure(self) -> str:
        """What failed first, in one line."""
        if self.error is not None:
            return self.error
        failed = next((stage for stage in self.stages if stage.outcome != "passed"), None)
        return "" if failed is None else f"{failed.name}: {failed.message}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CaseResult:
        """Convert a line of the file back."""
        fields = dict(data)
        fields["stages"] = tuple(StageResult(**stage) for stage in data.get("stages", ()))
        for name in ("tags", "checks", "answering_mcp_servers"):
            fields[name] = tuple(data.get(name, ()))
        return cls(**fields)


def result_key(case: Mapping[str, Any], model: str, engine: str, repeat: int) -> str:
    """Return the key of a run; it changes with anything that decides its outcome."""
    parts = json.dumps([case, model, engine, repeat], sort_keys=True, default=str)
    return hashlib.sha256(parts.encode()).hexdigest()[:20]


class ResultFile:
    """An append-only file of results; each is on disk before the next case is started."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS_FILE

    def append(self, result: CaseResult) -> None:
        """Write one result."""
        line = json.dumps(asdict(result), ensure_ascii=False, default=str)
        data = line.encode("utf-8", "replace") + b"\n"
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_with_newline():
                file.write(b"\n")  # the last writer was killed in the middle of a line
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def read(self) -> dict[str, CaseResult]:
        """Return the results by key, the newest of each; a line that was cut off is left out."""
        if not self.path.exists():
            return {}
        found: dict[str, CaseResult] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                result = CaseResult.from_dict(cast("dict[str, Any]", json.loads(line)))
            except (ValueError, TypeError, KeyError):
                continue
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


def merged(runs: Iterable[Iterable[CaseResult]]) -> list[CaseResult]:
    """Merge the results of several runners; of equal keys the last counts."""
    found = {result.key: result for run in runs for result in run}
    return sorted(found.values(), key=lambda result: (result.case, result.model, result.repeat))
