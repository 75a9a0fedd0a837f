"""Runs a suite: within caps and budgets, resumable, with a valid report whenever it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from plait.verification.plan import PlannedRun, RunOptions, groups_by_answer, plan_runs
from plait.verification.results import CaseResult, ResultFile
from plait.verification.run_case import CaseRunner, NotStartedError, OnEvent
from plait.verification.suite import Suite

StopReason = Literal["cost", "time", "interrupt"]
"""Why runs were not made: a budget was used up, or someone pressed Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a suite is."""

    done: int
    """Runs with a result, those of an earlier run included."""
    total: int
    seconds_left: float | None
    """An estimate; `None` before the first run has ended."""
    cost_usd: float
    """What this run of the suite cost so far, as far as prices are known."""


OnResult = Callable[[CaseResult, Progress], None]

RunGroup = Callable[[Sequence[PlannedRun]], Awaitable[list[CaseResult]]]
"""Runs all judges of one answer."""


class SuiteRunner:
    """Runs a suite; every result is on disk before it is reported."""

    def __init__(
        self,
        suite: Suite,
        options: RunOptions,
        *,
        on_result: OnResult | None = None,
        on_event: OnEvent | None = None,
        stream: bool = False,
        on_ray: bool = False,
    ) -> None:
        self._on_ray = on_ray
        self._suite = suite
        self._options = options
        self._on_result = on_result
        self._file = ResultFile(options.report)
        self.cases = CaseRunner(
            suite, options, on_event=on_event, stream=stream, may_start=self._may_start
        )
        self.stopped: StopReason | None = None
        """Why runs were not made, if some were not."""
        self.missing = 0
        """How many runs were not made."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = 0.0
        self._made = 0
        self._finished: dict[str, CaseResult] = {}
        self._planned: list[PlannedRun] = []

    def stop(self) -> None:
        """End what runs, and start nothing else; `run` returns what there is."""
        self.stopped = "interrupt"
        for task in self._tasks:
            task.cancel()

    async def run(self) -> list[CaseResult]:
        """Run what is not finished.

        Returns the results in the order of the plan. When an earlier run is resumed, its results
        by other models, judges and repeats of the same cases follow.
        """
        self._planned = plan_runs(self._suite, self._options)
        self.cases.answers.folder.mkdir(parents=True, exist_ok=True)
        known: dict[str, CaseResult] = {}
        if self._options.resume:
            known = self._file.read()
            for result in known.values():
                if result.trace is not None and not result.has_answer:
                    self.cases.answers.forget(Path(result.trace).stem)
        else:
            self._file.path.unlink(missing_ok=True)
            self.cases.answers.clear()
            self.cases.judgments.clear()
        self._finished = {
            run.key: known[run.key]
            for run in self._planned
            if run.key in known and known[run.key].outcome != "error"
        }
        self._began = time.monotonic()
        open_runs = [run for run in self._planned if run.key not in self._finished]
        groups = groups_by_answer(open_runs)
        try:
            await self._run_groups(groups)
        finally:
            await self.cases.aclose()
        results = [self._finished[run.key] for run in self._planned if run.key in self._finished]
        self.missing = len(self._planned) - len(results)
        # Earlier results that no run of now replaces are kept, of cases that have not changed.
        whole = replace(self._options, cases=(), tags=(), shard=(1, 1))
        unchanged = {run.case.name: run.case_key for run in plan_runs(self._suite, whole)}
        planned = {run.key for run in self._planned}
        made = {_identity(result) for result in results}
        kept = [
            result
            for key, result in known.items()
            if key not in planned
            and result.outcome != "error"
            and unchanged.get(result.case) == result.case_key
            and _identity(result) not in made
        ]
        if known:
            self._file.replace([*results, *kept])
        if self._options.shard != (1, 1):
            return results
        cases = {run.case.name for run in self._planned}
        return results + [result for result in kept if result.case in cases]

    async def _run_groups(self, groups: Sequence[Sequence[PlannedRun]]) -> None:
        """Run groups of judges that share an answer: here, or on the workers of a cluster."""
        async with contextlib.AsyncExitStack() as stack:
            run_group: RunGroup = self.cases.run
            if self._on_ray and groups:
                from plait.verification.on_ray import RayWorkers  # noqa: PLC0415  # an extra

                workers = RayWorkers(self.cases, self._options, len(groups))
                run_group = (await stack.enter_async_context(contextlib.aclosing(workers))).run
            left = iter(groups)

            async def work() -> None:
                for group in left:
                    with contextlib.suppress(NotStartedError):
                        for result in await run_group(group):
                            self._keep(result)

            # A few tasks for all groups: a task keeps what its run has put into its context.
            count = min(len(groups), self.cases.caps.worlds.most)
            self._tasks = tasks = {asyncio.create_task(work()) for _ in range(count)}
            try:
                for task in tasks:
                    try:
                        await task
                    except asyncio.CancelledError:
                        if not task.cancelled():
                            raise  # it is this task that is cancelled, not by `stop`
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _may_start(self) -> bool:
        """Check the budgets before a run is made."""
        options = self._options
        if self.stopped is None and options.max_seconds is not None:
            late = time.monotonic() - self._began > options.max_seconds
            self.stopped = "time" if late else None
        if self.stopped is None and options.max_cost_usd is not None:
            self.stopped = "cost" if self.cases.spent_usd >= options.max_cost_usd else None
        return self.stopped is None

    def _keep(self, result: CaseResult) -> None:
        self._file.append(result)
        self._finished[result.key] = result
        self._made += 1
        if self._on_result is not None:
            self._on_result(result, self.progress())

    def progress(self) -> Progress:
        """Return how far the suite is."""
        done, total = len(self._finished), len(self._planned)
        left = None
        if self._made:
            left = (time.monotonic() - self._began) / self._made * (total - done)
        return Progress(done=done, total=total, seconds_left=left, cost_usd=self.cases.spent_usd)


def _identity(result: CaseResult) -> tuple[str, str, str, int]:
    """Return what a reader takes for the same run, also where the file of its model changed."""
    return result.case, result.variant, result.engine, result.repeat
