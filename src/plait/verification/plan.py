"""The runs of a suite: which there are, in which order, and what identifies each."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

from plait._support.durations import check_counts, check_durations, is_finite_number
from plait.errors import ConfigError
from plait.verification.suite import Case, Suite

_FILE_MODELS: Final = ("scripted", "manual")
"""Providers whose models are files."""

_ANSWERING: Final = frozenset(
    {"name", "question", "conversation", "system", "servers", "files", "setup", "limits", "scope"}
    | {"seed"}
)
"""The settings that decide the answer; those that judge it are the others."""

_PLANNING: Final = frozenset({"model", "engine", "judge", "repeat", "tags", "prices"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a suite is run."""

    report: Path
    """The folder of results and traces."""
    models: Sequence[str] = ()
    """Used in place of the models of the cases."""
    engines: Sequence[str] = ()
    judges: Sequence[str] = ()
    repeat: int | None = None
    concurrency: int | None = None
    """Runs at once, in all; by default that of the suite, or 8."""
    per_model: int | None = None
    """Runs at once of one model; by default that of the suite, or 4."""
    per_server: int | None = None
    """Runs at once that use one server; by default that of the suite, or any number."""
    resume: bool = False
    """Whether finished runs and answers of the report are kept."""
    shard: tuple[int, int] = (1, 1)
    """Which part of the runs, of how many."""
    max_seconds: float | None = None
    """No run is started after this time."""
    max_cost_usd: float | None = None
    """No run is started after this cost, as far as prices are known."""
    cases: Sequence[str] = ()
    """Only these cases."""
    tags: Sequence[str] = ()
    """Only cases with one of these tags."""

    def __post_init__(self) -> None:
        check_durations(self, "max_seconds")
        check_counts(self, "repeat", "concurrency", "per_model", "per_server")
        cost = self.max_cost_usd
        if cost is not None and (not is_finite_number(cost) or cost <= 0):
            raise ConfigError(f"max_cost_usd: expected a number of more than 0, found {cost!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run that is to be made, and judged by one judge."""

    case: Case
    model: str | None
    engine: str | None
    judge: str | None
    repeat: int
    """From 1."""
    case_key: str
    """Identifies the case as it is defined, whatever runs and judges it."""
    answer_key: str
    """Identifies everything that decides the answer: several judges share it."""
    key: str
    """Identifies the run and everything that decides its outcome."""

    @property
    def seed(self) -> int | None:
        """The seed of the run, if the case has one."""
        return None if self.case.seed is None else self.case.seed + self.repeat - 1


def plan_runs(suite: Suite, options: RunOptions) -> list[PlannedRun]:
    """Return the runs of a suite, or of its shard, in the order they are started.

    Raises:
        ConfigError: A case that was named is not there, or a file of a case cannot be read.
    """
    unknown = set(options.cases) - {case.name for case in suite.cases}
    if unknown:
        raise ConfigError(f"there is no case {sorted(unknown)[0]!r} in {suite.name}")
    answers = [
        run
        for case in suite.cases
        if not options.cases or case.name in options.cases
        if not options.tags or set(options.tags) & set(case.tags)
        for run in _runs_of(case, suite.folder, options)
    ]
    part, parts = options.shard
    # Judges of one answer stay together, so that it is made once.
    return [run for group in answers[part - 1 :: parts] for run in group]


def groups_by_answer(runs: Iterable[PlannedRun]) -> list[list[PlannedRun]]:
    """Return the runs that share an answer, in the order of their first ones."""
    groups: dict[str, list[PlannedRun]] = defaultdict(list)
    for run in runs:
        groups[run.answer_key].append(run)
    return list(groups.values())


def located_model(model: str | None, folder: Path) -> str | None:
    """Return a model with the path of its file, which may be beside the suite."""
    provider, _, path = (model or "").partition(":")
    if provider in _FILE_MODELS and path and (folder / path).is_file():
        return f"{provider}:{folder / path}"
    return model


def _runs_of(case: Case, folder: Path, options: RunOptions) -> list[list[PlannedRun]]:
    """Return the runs of a case, grouped by answer."""
    settings = case.model_dump(mode="json", exclude=set(_PLANNING))
    asked = {name: settings[name] for name in _ANSWERING}
    asked["servers"] = servers_as_written(case, folder)
    asked["files"] = {name: _digest(folder / path) for name, path in case.files.items()}
    judged = {name: value for name, value in settings.items() if name not in _ANSWERING}
    asked_key, judged_key = _key(asked), _key(judged)
    case_key = _key([asked_key, judged_key])
    groups: list[list[PlannedRun]] = []
    engines = options.engines or case.engine or [None]
    for model, engine in product(options.models or case.model or [None], engines):
        identity = _model_identity(model, folder)
        for repeat in range(1, (options.repeat or case.repeat) + 1):
            answer_key = _key([asked_key, identity, engine or "", repeat])
            groups.append(
                [
                    PlannedRun(
                        case=case,
                        model=model,
                        engine=engine,
                        judge=judge,
                        repeat=repeat,
                        case_key=case_key,
                        answer_key=answer_key,
                        key=_key([answer_key, judged_key, _model_identity(judge, folder)]),
                    )
                    for judge in options.judges or case.judge or [None]
                ]
            )
    return groups


def servers_as_written(case: Case, folder: Path) -> Mapping[str, Any] | None:
    """Return the servers of a case, those of a file too.

    Raises:
        ConfigError: The file cannot be read.
    """
    if not isinstance(case.servers, str):
        return case.servers
    path = folder / case.servers
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{case.name}: the servers in {path} cannot be read: {error}") from error


def _model_identity(model: str | None, folder: Path) -> str:
    """Return the name of a model; one that is a file counts by its content, too."""
    located = located_model(model, folder)
    provider, _, path = (located or "").partition(":")
    if provider in _FILE_MODELS and Path(path).is_file():
        return f"{provider}:{Path(path).name}:{_digest(Path(path))}"
    return model or ""


def _digest(path: Path) -> str:
    try:
        return _digest_of(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


@cache
def _digest_of(path: Path, modified: int) -> str:
    del modified
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _key(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
