"""Runs the cases of a suite: within caps, resumable, each in a world of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plait.agents.choose_model import ModelRequest, choose_here
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.factory import get_agent
from plait.agents.port import AgentPort, AgentResult
from plait.client.config.read import ClientConfig, read_config
from plait.client.toolbox import Toolbox
from plait.errors import ConfigError, PlaitError
from plait.traces.file import read_traces
from plait.traces.messages.message import Message
from plait.traces.metrics import extract_agent_metrics
from plait.traces.recorder import hash_question
from plait.traces.trace import Trace
from plait.verification.checks import CallTool, Evidence
from plait.verification.results import CaseResult, ResultFile, StageResult, result_key
from plait.verification.stages import CaseRun, Judge, StageError, json_in, run_stages
from plait.verification.suite import Case, Suite

WORKDIR = "{workdir}"
"""Replaced by the folder of the run, in every text of the servers."""
_TRACES = "traces"
_JUDGE_SECONDS = 120.0
_REPLY_ATTEMPTS = 2
"""How often a judge is asked for JSON before the stage is an error."""

OnResult = Callable[[CaseResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a suite is run."""

    report: Path
    """The folder of results and traces."""
    models: Sequence[str] = ()
    """Used in place of the models of the cases."""
    engines: Sequence[str] = ()
    repeat: int | None = None
    concurrency: int = 8
    """Runs at once, in all."""
    per_model: int = 4
    """Runs at once of one model."""
    resume: bool = False
    """Whether finished runs of the report are kept."""
    shard: tuple[int, int] = (1, 1)
    """Which part of the runs, of how many."""
    max_seconds: float | None = None
    """No run is started after this time."""
    cases: Sequence[str] = ()
    """Only these cases."""
    tags: Sequence[str] = ()
    """Only cases with one of these tags."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run that is to be made."""

    case: Case
    model: str | None
    engine: str | None
    repeat: int

    @property
    def key(self) -> str:
        """Identifies the run and everything that decides its outcome."""
        settings = self.case.model_dump(mode="json", exclude={"model", "engine", "repeat", "tags"})
        return result_key(settings, self.model or "", self.engine or "", self.repeat)


@dataclass(slots=True)
class _Caps:
    """The limits of what runs at once."""

    total: asyncio.Semaphore
    per_model: int
    models: dict[str, asyncio.Semaphore] = field(default_factory=dict[str, asyncio.Semaphore])

    @asynccontextmanager
    async def slot(self, model: str) -> AsyncGenerator[None]:
        """Wait for a place."""
        limit = self.models.setdefault(model, asyncio.Semaphore(self.per_model))
        async with limit, self.total:
            yield


def plan_runs(suite: Suite, options: RunOptions) -> list[PlannedRun]:
    """Return the runs of a suite, or of its shard, in the order they are started.

    Raises:
        ConfigError: A case that was named is not there.
    """
    unknown = set(options.cases) - {case.name for case in suite.cases}
    if unknown:
        raise ConfigError(f"there is no case {sorted(unknown)[0]!r} in {suite.name}")
    runs = [
        PlannedRun(case, model, engine, repeat)
        for case in suite.cases
        if not options.cases or case.name in options.cases
        if not options.tags or set(options.tags) & set(case.tags)
        for model in options.models or case.model or [None]
        for engine in options.engines or case.engine or [None]
        for repeat in range(1, (options.repeat or case.repeat) + 1)
    ]
    part, parts = options.shard
    return runs[part - 1 :: parts]


class SuiteRunner:
    """Runs a suite; every result is on disk before it is reported."""

    def __init__(
        self, suite: Suite, options: RunOptions, *, on_result: OnResult | None = None
    ) -> None:
        self._suite = suite
        self._options = options
        self._on_result = on_result
        self._file = ResultFile(options.report)
        self._agents: dict[str, tuple[ModelConfig, AgentPort]] = {}
        self._choosing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._caps = _Caps(asyncio.Semaphore(options.concurrency), options.per_model)

    async def run(self) -> list[CaseResult]:
        """Run what is not finished; returns all results, in the order of the plan."""
        (self._options.report / _TRACES).mkdir(parents=True, exist_ok=True)
        planned = plan_runs(self._suite, self._options)
        known = self._file.read() if self._options.resume else {}
        if not self._options.resume:
            self._file.path.unlink(missing_ok=True)
        finished = {
            run.key: known[run.key]
            for run in planned
            if run.key in known and known[run.key].outcome != "error"
        }
        ends_at = None
        if self._options.max_seconds is not None:
            ends_at = time.monotonic() + self._options.max_seconds
        try:
            async with asyncio.TaskGroup() as tasks:
                for run in planned:
                    if run.key not in finished:
                        tasks.create_task(self._run_one(run, finished, ends_at))
        finally:
            for _, agent in self._agents.values():
                await agent.aclose()
        return [finished[run.key] for run in planned if run.key in finished]

    async def _run_one(
        self, run: PlannedRun, finished: dict[str, CaseResult], ends_at: float | None
    ) -> None:
        async with self._caps.slot(run.model or ""):
            if ends_at is not None and time.monotonic() > ends_at:
                return
            result = await self._result(run)
        self._file.append(result)
        finished[run.key] = result
        if self._on_result is not None:
            self._on_result(result)

    async def _result(self, run: PlannedRun) -> CaseResult:
        began = time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plait-")))
                await asyncio.to_thread(_copy_files, run.case, self._suite.folder, folder)
                servers = _servers_of(run.case, self._suite.folder, folder)
                config, agent = await self._agent(run.model, run.engine)
                world = _World(servers)
                stack.push_async_callback(world.close)
                case_run = CaseRun(
                    case=run.case,
                    generate=lambda: self._generate(run, agent, servers),
                    judge=self._judge(run),
                    evidence_for=lambda answer, trace: Evidence(
                        answer=answer,
                        trace=trace,
                        seconds=trace.seconds,
                        call_tool=world.call_tool if servers.servers else None,
                    ),
                    uses_servers=bool(servers.servers),
                    is_recorded=config.interface == "manual",
                )
                stages = await run_stages(case_run)
                return self._finalized(run, config, case_run, stages, began, servers)
        except PlaitError as error:
            return self._broken(run, f"{type(error).__name__}: {error}", began)
        except OSError as error:
            return self._broken(run, f"{type(error).__name__}: {error}", began)

    async def _agent(self, model: str | None, engine: str | None) -> tuple[ModelConfig, AgentPort]:
        """Return the agent of a model, which all runs share: its graph is built once."""
        key = f"{engine}|{model}"
        async with self._choosing[key]:
            if key not in self._agents:
                set_model = os.environ.get("PLAIT_MODEL", "").strip() or None
                request = ModelRequest(model=model or set_model, engine=engine, reason="requested")
                choice = await choose_here(request, os.environ)
                self._agents[key] = choice.config, get_agent(choice.config)
            return self._agents[key]

    async def _generate(
        self, run: PlannedRun, agent: AgentPort, servers: ClientConfig
    ) -> tuple[AgentResult, Trace]:
        case = run.case
        path = self._options.report / _TRACES / f"{run.key}.jsonl"
        path.unlink(missing_ok=True)
        settings = AgentConfig(
            max_turns=case.limits.turns,
            timeout=case.limits.seconds,
            system_prompt=case.system,
            question_hash=hash_question(case.question or ""),
            trace=path,
        )
        try:
            result = await agent.arun(
                case.messages, mcp_servers=servers if servers.servers else None, config=settings
            )
        except PlaitError as error:
            raise StageError(f"{type(error).__name__}: {error}") from error
        trace = (await asyncio.to_thread(read_traces, path))[-1]
        return result, trace

    def _judge(self, run: PlannedRun) -> Judge:
        async def judge(question: str) -> tuple[dict[str, Any], int]:
            _, agent = await self._agent(run.case.judge or run.model, None)
            tokens = 0
            for _ in range(_REPLY_ATTEMPTS):
                try:
                    result = await agent.arun(
                        [Message.user(question)],
                        config=AgentConfig(max_turns=1, timeout=_JUDGE_SECONDS),
                    )
                except PlaitError as error:
                    raise StageError(f"the judge failed: {error}") from error
                tokens += result.usage.total_tokens
                reply = json_in(result.final_response)
                if reply is not None:
                    return reply, tokens
            raise StageError("the judge did not reply with JSON")

        return judge

    def _finalized(
        self,
        run: PlannedRun,
        config: ModelConfig,
        case_run: CaseRun,
        stages: list[StageResult],
        began: float,
        servers: ClientConfig,
    ) -> CaseResult:
        broken = next((stage for stage in stages if stage.outcome == "error"), None)
        result, trace = case_run.result, case_run.trace
        outcome = "error" if broken else "failed" if case_run.failed else "passed"
        limit = result is not None and result.limit_reached
        metrics = extract_agent_metrics(
            result.trace_messages if result else (), limit_reached=limit
        )
        name = f"{config.interface}:{config.model_name or run.model or ''}"
        names = tuple(servers.servers)
        return CaseResult(
            key=run.key,
            case=run.case.name,
            model=f"{name} +[{', '.join(names)}]" if names else name,
            engine=config.interface,
            repeat=run.repeat,
            outcome=outcome,
            tags=tuple(run.case.tags),
            stages=tuple(stages),
            checks=tuple(asdict(check) for check in case_run.checks),
            parsed=case_run.parsed,
            traits=case_run.traits,
            answer=case_run.answer,
            status="" if result is None else result.status,
            error=None if broken is None else f"{broken.name}: {broken.message}",
            turns=0 if result is None else result.turns,
            tokens=0 if trace is None else trace.usage.total_tokens,
            judge_tokens=case_run.judge_tokens,
            seconds=time.monotonic() - began,
            recursion_limit_reached=limit,
            answering_mcp_servers=names,
            agent_metrics=metrics.to_dict(),
            trace=f"{_TRACES}/{run.key}.jsonl",
        )

    def _broken(self, run: PlannedRun, error: str, began: float) -> CaseResult:
        return CaseResult(
            key=run.key,
            case=run.case.name,
            model=run.model or "",
            engine=run.engine or "",
            repeat=run.repeat,
            outcome="error",
            tags=tuple(run.case.tags),
            error=error,
            seconds=time.monotonic() - began,
        )


class _World:
    """The servers of a case after its run, opened when a check wants to look."""

    def __init__(self, servers: ClientConfig) -> None:
        self._servers = servers
        self._box: Toolbox | None = None
        self.call_tool: CallTool = self._call

    async def _call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> str:
        if self._box is None:
            self._box = Toolbox(self._servers, follow_tools=False)
            await self._box.__aenter__()
        return (await self._box.call(server, tool, arguments)).text

    async def close(self) -> None:
        """Close what was opened."""
        if self._box is not None:
            await self._box.aclose()


def _copy_files(case: Case, source: Path, target: Path) -> None:
    for name, origin in case.files.items():
        place = (target / name).resolve()
        if not place.is_relative_to(target.resolve()):
            raise ConfigError(f"{case.name}: the file {name!r} is outside of the working folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / origin, place)


def _servers_of(case: Case, base: Path, folder: Path) -> ClientConfig:
    """Read the servers of a case, with its working folder filled in."""
    source = case.servers
    if source is None:
        return ClientConfig(servers={})
    if isinstance(source, str):
        source = json.loads((base / source).read_text(encoding="utf-8"))
    filled = json.loads(json.dumps(source).replace(WORKDIR, json.dumps(str(folder))[1:-1]))
    return read_config(filled, base=base)
