"""What reports hold: traces by what decides the answer, replies of judges, and all of it joined."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from plait._support.files import write_private
from plait.errors import TraceFormatError
from plait.traces.file import read_trace
from plait.traces.trace import Trace
from plait.verification.results import (
    CaseResult,
    ResultFile,
    append_lines,
    read_lines,
    read_results,
)
from plait.verification.world import World

TRACES: Final = "traces"
_JUDGMENTS: Final = "judgments.jsonl"
_DONE: Final = ("completed", "truncated", "refused", "limit", "timeout")
"""The statuses of runs that have answered, if only in part."""
_OURS = re.compile(r"[0-9a-f]{20}\.(jsonl|world\.json)")


class AnswerStore:
    """The answers in a report; each is in a trace of its own, named after its key."""

    def __init__(self, report: Path) -> None:
        self.folder = report / TRACES

    def files(self) -> list[Path]:
        """Return the files of all answers; links, which may lead out, are none."""
        return [
            path
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if _OURS.fullmatch(path.name) and path.is_file() and not path.is_symlink()
        ]

    def clear(self) -> None:
        """Remove the answers of an earlier run; other files are left alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.files():
            path.unlink()

    def trace_path(self, key: str) -> Path:
        """Return the path of the trace of an answer."""
        return self.folder / f"{key}.jsonl"

    def world_path(self, key: str) -> Path:
        """Return the path of what was seen of the world of an answer."""
        return self.folder / f"{key}.world.json"

    def files_of(self, key: str) -> list[Path]:
        """Return the files of an answer that are there."""
        return [one for one in (self.trace_path(key), self.world_path(key)) if one.exists()]

    def find(self, key: str) -> tuple[Trace, World] | None:
        """Return an answer that is complete, and its world."""
        try:
            trace = read_trace(self.trace_path(key))
        except (OSError, TraceFormatError):
            return None
        if trace.status not in _DONE:
            return None
        try:
            world = World.from_json(self.world_path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError):
            world = World()
        return trace, world

    def forget(self, key: str) -> None:
        """Remove what an earlier attempt left."""
        self.trace_path(key).unlink(missing_ok=True)
        self.world_path(key).unlink(missing_ok=True)

    def keep_world(self, key: str, world: World) -> None:
        """Write what was seen of a world, if anything was."""
        if world.before or world.after:
            write_private(self.world_path(key), world.to_json())


class JudgmentStore:
    """The replies of judges by question: the same question is not paid twice."""

    def __init__(self, report: Path) -> None:
        self._path = report / _JUDGMENTS
        self._new: dict[str, dict[str, Any]] = {}

    @cached_property
    def known(self) -> dict[str, dict[str, Any]]:
        """All replies, by their keys."""
        lines = read_lines(self._path)
        return {one["key"]: one["reply"] for one in lines if {"key", "reply"} <= one.keys()}

    def clear(self) -> None:
        """Remove the replies of an earlier run."""
        self._path.unlink(missing_ok=True)
        self.known.clear()

    def find(self, judge: str, question: str) -> dict[str, Any] | None:
        """Return the reply of a judge to a question."""
        return self.known.get(_key(judge, question))

    def keep(self, judge: str, question: str, reply: dict[str, Any]) -> None:
        """Append a reply."""
        key = _key(judge, question)
        self._new[key] = reply
        self.add({key: reply}, store=True)

    def add(self, replies: Mapping[str, dict[str, Any]], *, store: bool = False) -> None:
        """Add replies of another store by their keys, and append them if wanted."""
        self.known.update(replies)
        if store and replies:
            lines = [{"key": key, "reply": reply} for key, reply in replies.items()]
            append_lines(self._path, lines)

    def take_new(self) -> dict[str, dict[str, Any]]:
        """Return the replies that were kept since this was called last."""
        new, self._new = self._new, {}
        return new


def _key(judge: str, question: str) -> str:
    return hashlib.sha256(json.dumps([judge, question]).encode()).hexdigest()


def merge_reports(reports: Sequence[Path], target: Path) -> list[CaseResult]:
    """Write the results, traces and judgments of several reports into one folder.

    Of equal keys the last counts. The target may be one of the reports.

    Raises:
        ConfigError: A report has no results.
    """
    found = {result.key: result for report in reports for result in read_results(report)}
    results = sorted(found.values(), key=lambda one: (one.case, one.variant, one.repeat))
    store = AnswerStore(target)
    store.folder.mkdir(parents=True, exist_ok=True)
    for report in reports:
        folder = report if report.is_dir() else report.parent
        if folder.resolve() != target.resolve():
            for path in AnswerStore(folder).files():
                shutil.copy2(path, store.folder / path.name)
            JudgmentStore(target).add(JudgmentStore(folder).known, store=True)
    file = ResultFile(target)
    file.path.unlink(missing_ok=True)
    for result in results:
        file.append(result)
    return results
