"""Suites over real servers, and how the tests run them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from plait.cli import main
from plait.traces.events import RunEnded, RunStarted, TraceEvent
from plait.verification import CaseResult, Progress, RunOptions, SuiteRunner, read_suite
from plait.verification.plan import PlannedRun
from tests import servers
from tests.nursery import entry

ADD: dict[str, Any] = {"calls": [{"name": "add_numbers", "arguments": {"a": 20, "b": 22}}]}
NOTES = Path(servers.__file__).parent / "notes.py"


def sums() -> dict[str, object]:
    return entry("-m", "plait.testing.server", "--transport", "stdio")


def suite_in(
    folder: Path, cases: list[dict[str, Any]], script: list[Any], caps: Any = None, **defaults: Any
) -> Path:
    """Write a suite beside a script for its model."""
    (folder / "script.json").write_text(json.dumps(script))
    suite = {
        "name": "sums",
        "caps": caps or {},
        "defaults": {"model": "scripted:script.json", "servers": {"sums": sums()}, **defaults},
        "cases": [
            case if "conversation" in case else {"question": "What is 20 + 22?", **case}
            for case in cases
        ],
    }
    path = folder / "suite.yaml"
    path.write_text(json.dumps(suite))
    return path


def some_cases(count: int) -> list[dict[str, Any]]:
    return [{"name": f"case-{n}", "checks": [{"contains": "42"}]} for n in range(count)]


class Watched:
    """Runs a suite in this process, and notes what happened."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.results: list[CaseResult] = []
        self.progress: list[Progress] = []
        self.asked: list[str] = []
        """The cases whose agents ran."""
        self.most = 0
        """The most agents that ran at once."""
        self._running = 0
        report = options.pop("report", path.parent / "plait-report")
        on_ray = options.pop("on_ray", False)
        self.runner = SuiteRunner(
            read_suite(path),
            RunOptions(report=report, **options),
            on_result=self._on_result,
            on_event=self._on_event,
            on_ray=on_ray,
        )

    async def run(self) -> Watched:
        self.results = await self.runner.run()
        return self

    def _on_result(self, result: CaseResult, progress: Progress) -> None:
        self.progress.append(progress)
        self.on_result(result)

    def on_result(self, result: CaseResult) -> None:
        """Replaced by tests that act on a result."""

    def _on_event(self, run: PlannedRun, event: TraceEvent) -> None:
        if isinstance(event, RunStarted):
            self.asked.append(run.case.name)
            self._running += 1
            self.most = max(self.most, self._running)
        elif isinstance(event, RunEnded):
            self._running -= 1

    @property
    def outcomes(self) -> dict[str, str]:
        return {result.case: result.outcome for result in self.results}


def comparable(results: list[CaseResult]) -> list[CaseResult]:
    """Return results without what differs from run to run: durations."""
    still = [
        replace(
            result, seconds=0.0, stages=tuple(replace(one, seconds=0.0) for one in result.stages)
        )
        for result in results
    ]
    return sorted(still, key=lambda result: result.key)


def verify(*arguments: str | Path, cwd: Path) -> Result:
    """Run `plait verify` in this process."""
    with contextlib.chdir(cwd):
        return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def started(*arguments: str | Path, cwd: Path) -> subprocess.Popen[bytes]:
    """Start `plait verify`; a signal reaches it directly."""
    command = [sys.executable, "-m", "plait.cli", "verify", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
