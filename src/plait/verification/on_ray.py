"""Runs a suite on a ray cluster: asynchronous actors, whose results are written as they arrive.

Only crashes are retried: a case that failed has an answer, which cost money.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plait.errors import ConfigError
from plait.verification.plan import PlannedRun, RunOptions
from plait.verification.results import CaseResult
from plait.verification.run_case import CaseRunner
from plait.verification.suite import Suite

_CRASHES: Final = 3
"""How often a group may lose its worker before it is an error."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The results of a group, and the files of its answer."""

    results: list[dict[str, Any]]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    spent_usd: float = 0.0


class Worker:
    """Runs groups in a process of the cluster; traces go back with the results."""

    def __init__(self, suite: Suite, options: RunOptions) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="plait-ray-")
        report = Path(self._folder.name)
        # Answers of earlier runs are with the driver, which sends only what is to be made.
        self._cases = CaseRunner(suite, replace(options, report=report, resume=False))
        self._cases.answers.folder.mkdir(parents=True, exist_ok=True)

    async def run(self, group: Sequence[PlannedRun], files: dict[str, bytes]) -> GroupOutcome:
        """Run one group; `files` are those of an answer that is known already."""
        folder = self._cases.answers.folder
        for name, content in files.items():
            (folder / name).write_bytes(content)
        before = self._cases.spent_usd
        results = await self._cases.run(group, reuse=bool(files))
        made = {
            path.name: path.read_bytes()
            for path in self._cases.answers.files_of(group[0].answer_key)
        }
        self._cases.answers.forget(group[0].answer_key)
        return GroupOutcome(
            [asdict(result) for result in results], made, self._cases.spent_usd - before
        )


async def run_on_ray(
    cases: CaseRunner,
    groups: Sequence[Sequence[PlannedRun]],
    options: RunOptions,
    *,
    may_start: Callable[[], bool],
) -> AsyncGenerator[list[CaseResult]]:
    """Run groups on the cluster, and yield the results of each as they arrive.

    Raises:
        ConfigError: The extra `ray` is not installed, or there is no cluster.
    """
    ray = _ray()
    workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
    total = cases.caps.total.most
    workers = min(workers, total, len(groups) or 1)
    share = _shared(options, cases, workers)
    actor = ray.remote(max_concurrency=max(1, total // workers))(Worker)
    pool = [actor.remote(cases.suite, share) for _ in range(workers)]
    queue = list(enumerate(groups))
    queue.reverse()
    crashes: dict[int, int] = {}
    running: dict[asyncio.Task[GroupOutcome], tuple[int, int]] = {}
    free = [number for number in range(workers) for _ in range(max(1, total // workers))]
    try:
        while queue or running:
            while queue and free and may_start():
                index, group = queue.pop()
                number = free.pop(0)
                known = {
                    path.name: path.read_bytes()
                    for path in cases.answers.files_of(group[0].answer_key)
                    if options.resume
                }
                reference = pool[number].run.remote(list(group), known)
                running[asyncio.ensure_future(_result(reference))] = (index, number)
            if not running:
                return  # a budget is used up
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index, number = running.pop(task)
                free.append(number)
                try:
                    outcome = task.result()
                except ray.exceptions.RayActorError as error:
                    crashes[index] = crashes.get(index, 0) + 1
                    if crashes[index] >= _CRASHES:
                        raise ConfigError(f"workers of the cluster end: {error}") from error
                    pool[number] = _alive(pool[number], actor, cases, share, ray)
                    queue.append((index, groups[index]))
                    continue
                cases.spent_usd += outcome.spent_usd
                for name, content in outcome.files.items():
                    (cases.answers.folder / name).write_bytes(content)
                yield [CaseResult.from_dict(result) for result in outcome.results]
    finally:
        for task in running:
            task.cancel()
        for worker in pool:
            ray.kill(worker)


async def _result(reference: Any) -> GroupOutcome:
    return await reference


def _alive(worker: Any, actor: Any, cases: CaseRunner, share: RunOptions, ray: Any) -> Any:
    """Return a worker that is alive: several groups find out that theirs has ended."""
    try:
        ray.get(worker.__ray_ready__.remote(), timeout=10)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return actor.remote(cases.suite, share)
    return worker


def _shared(options: RunOptions, cases: CaseRunner, workers: int) -> RunOptions:
    """Divide the caps among the workers."""
    caps = cases.suite.caps
    per_model = options.per_model or caps.per_model
    per_server = options.per_server or caps.per_server
    return replace(
        options,
        concurrency=max(1, cases.caps.total.most // workers),
        per_model=None if per_model is None else max(1, per_model // workers),
        per_server=None if per_server is None else max(1, per_server // workers),
    )


def _ray() -> Any:
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise ConfigError("--on ray needs ray: pip install 'plait[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError as error:
            raise ConfigError("there is no ray cluster: start one with `ray start`") from error
    return ray
