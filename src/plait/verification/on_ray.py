"""Runs a suite on a ray cluster, on asynchronous actors.

Only crashes are retried: a case that failed has an answer, which cost money. Caps and budgets are
those of the driver, so they hold for all workers together.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plait.errors import ConfigError
from plait.verification.plan import PlannedRun, RunOptions
from plait.verification.results import CaseResult
from plait.verification.run_case import CaseRunner, broken_result
from plait.verification.suite import Caps, Suite
from plait.verification.world import server_names

_CRASHES: Final = 3
"""How often a group may lose its worker before it is an error."""
_CLOSING_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The results of a group, the files of its answer, and what its worker used since the last."""

    results: list[dict[str, Any]]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    judgments: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    spent_usd: float = 0.0
    refusals: dict[str, int] = field(default_factory=dict[str, int])
    """How often a provider refused, by model."""


class Worker:
    """Runs groups in a process of the cluster; traces go back with the results."""

    def __init__(
        self, suite: Suite, options: RunOptions, judgments: dict[str, dict[str, Any]]
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="plait-ray-")
        report = Path(self._folder.name)
        # Answers of earlier runs are with the driver, which sends only what is to be made.
        self._cases = CaseRunner(suite, replace(options, report=report, resume=False))
        self._cases.answers.folder.mkdir(parents=True, exist_ok=True)
        self._cases.judgments.add(judgments)
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, group: Sequence[PlannedRun], files: dict[str, bytes]) -> GroupOutcome:
        """Run one group; `files` are those of an answer that is known already."""
        task = asyncio.create_task(self._run(group, files))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await task

    async def _run(self, group: Sequence[PlannedRun], files: dict[str, bytes]) -> GroupOutcome:
        cases, key = self._cases, group[0].answer_key
        for name, content in files.items():
            (cases.answers.folder / name).write_bytes(content)
        results = await cases.run(group, reuse=bool(files))
        made = {path.name: path.read_bytes() for path in cases.answers.files_of(key)}
        cases.answers.forget(key)
        # What other groups used meanwhile goes with this one, and is not counted again.
        spent, cases.spent_usd = cases.spent_usd, 0.0
        refusals = {name: cap.take_refusals() for name, cap in cases.caps.models.items()}
        return GroupOutcome(
            [asdict(result) for result in results],
            made,
            cases.judgments.take_new(),
            spent,
            {name: count for name, count in refusals.items() if count},
        )

    async def close(self) -> None:
        """End what runs, its servers, and the folder."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._cases.aclose()
        self._folder.cleanup()


class RayWorkers:
    """The workers of a suite, as many as the cluster has processors, or fewer."""

    def __init__(self, cases: CaseRunner, options: RunOptions, groups: int) -> None:
        """Start them.

        Raises:
            ConfigError: The extra `ray` is not installed, or there is no cluster.
        """
        self._ray = _ray()
        self._cases = cases
        self._options = options
        total = cases.caps.total.most
        processors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._actor = self._ray.remote(max_concurrency=total + 1)(Worker)
        self._pool = [self._start_worker() for _ in range(min(processors, total, groups))]
        self._load = [0] * len(self._pool)

    def _start_worker(self) -> Any:
        total = self._cases.caps.total.most
        # The driver has the caps: a worker must not wait for places that it has reserved.
        suite = self._cases.suite.model_copy(update={"caps": Caps()})
        options = replace(
            self._options, concurrency=total, per_model=total, per_server=None, max_seconds=None
        )
        known = self._cases.judgments.known if self._options.resume else {}
        return self._actor.remote(suite, options, known)

    async def run(self, group: Sequence[PlannedRun]) -> list[CaseResult]:
        """Run one group on the worker with the least to do.

        Raises:
            NotStartedError: A budget is used up.
        """
        caps, answers, first = self._cases.caps, self._cases.answers, group[0]
        models = {first.model or "", *(run.judge or "" for run in group if run.judge)}
        async with AsyncExitStack() as stack:
            # In one order for all, so that no groups wait for each other.
            names = server_names(first, self._cases.suite.folder)
            await stack.enter_async_context(caps.using(names))
            for model in sorted(models):
                await stack.enter_async_context(caps.of_model(model).place())
            await stack.enter_async_context(caps.total.place())
            self._cases.check_budget()
            crash = ""
            for _ in range(_CRASHES):
                number = self._load.index(min(self._load))
                worker = self._pool[number]
                self._load[number] += 1
                paths = answers.files_of(first.answer_key) if self._options.resume else []
                files = {path.name: path.read_bytes() for path in paths}
                try:
                    return self._keep(await worker.run.remote(list(group), files))
                except self._ray.exceptions.RayActorError as error:
                    crash = str(error)
                    if self._pool[number] is worker:  # else another group has replaced it
                        self._ray.kill(worker)
                        self._pool[number] = self._start_worker()
                finally:
                    self._load[number] -= 1
            text = f"{_CRASHES} workers ended while they ran it: {crash}"
            return [broken_result(run, text, 0.0) for run in group]

    def _keep(self, outcome: GroupOutcome) -> list[CaseResult]:
        """Write the files of an outcome, and count what it used."""
        self._cases.spent_usd += outcome.spent_usd
        self._cases.judgments.add(outcome.judgments, store=True)
        for name, content in outcome.files.items():
            (self._cases.answers.folder / name).write_bytes(content)
        for model, cap in self._cases.caps.models.items():
            refusals = outcome.refusals.get(model, 0)
            for _ in range(refusals):
                cap.refused()
            if not refusals:
                cap.succeeded()
        return [CaseResult.from_dict(result) for result in outcome.results]

    async def aclose(self) -> None:
        """End the workers, and what they run."""
        closing = asyncio.gather(
            *(worker.close.remote() for worker in self._pool), return_exceptions=True
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closing, _CLOSING_SECONDS)
        for worker in self._pool:
            self._ray.kill(worker)


def _ray() -> Any:
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise ConfigError("--on ray needs ray: pip install 'plait[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError as error:
            text = "no ray cluster can be reached: start one with `ray start`, set RAY_ADDRESS, or "
            raise ConfigError(f"{text}if it has a token, RAY_AUTH_TOKEN ({error})") from error
    return ray
