"""Runs one case: a fresh world, the agent, the stages, and the results of all its judges."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Final

import anyio
from pydantic import BaseModel

from plait.agents.choose_model import ModelRequest, choose_here
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.live_agent import LiveAgent
from plait.agents.parser import ParserPort, get_parser
from plait.agents.port import AgentResult, result_from_trace
from plait.agents.registry import get_agent
from plait.client.toolbox import Toolbox
from plait.errors import PlaitError
from plait.traces.events import Healed, ModelRetried, Retried, ToolReturned, TraceEvent
from plait.traces.file import read_trace
from plait.traces.messages.message import Message, UsageMetadata
from plait.traces.metrics import extract_agent_metrics
from plait.traces.recorder import hash_question
from plait.traces.trace import Trace
from plait.verification.answers import TRACES, AnswerStore, JudgmentStore
from plait.verification.plan import PlannedRun, RunOptions, located_model
from plait.verification.results import ANSWER_STAGE, CaseResult, Outcome
from plait.verification.stages import STAGES, CaseRun, Judge, JudgeReply, StageError, run_stages
from plait.verification.suite import Caps, Suite
from plait.verification.world import (
    Open,
    SetupError,
    SharedWorlds,
    World,
    WorldGoneError,
    call_setup_tools,
    prepare_folder,
    server_names,
    servers_of,
    shared_servers,
)

REFUSED: Final = (429, 529)
"""The statuses with which a provider refuses for now."""
_TOTAL: Final = 8
_PER_MODEL: Final = 4


class AdaptiveCap:
    """A number of places, which is halved by a refusal and grows again with success.

    The rule is that of TCP: a refusal halves, and as many successes as there are places add one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._size = float(most)
        self._places = anyio.CapacityLimiter(most)
        self._under_way = 0
        self._refusals = 0

    @property
    def size(self) -> int:
        """The number of places now."""
        return int(self._size)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Wait for a place, and keep it for the block."""
        holder = object()  # not the task, which may hold several
        await self._places.acquire_on_behalf_of(holder)
        try:
            yield
        finally:
            self._places.release_on_behalf_of(holder)

    def refused(self) -> None:
        """Halve the places; refusals of requests that were already under way count once."""
        self._refusals += 1
        if self._under_way:
            self._under_way -= 1
            return
        self._resize(max(1.0, self._size / 2))
        self._under_way = max(0, self._places.borrowed_tokens - 1)

    def watch(self, event: TraceEvent) -> None:
        """Count the refusals among the events of a run."""
        if isinstance(event, ModelRetried) and event.status in REFUSED:
            self.refused()

    def take_refusals(self) -> int:
        """Return how often it was refused since this was called last."""
        count, self._refusals = self._refusals, 0
        return count

    def succeeded(self) -> None:
        """Grow towards the full number of places."""
        self._under_way = max(0, self._under_way - 1)
        self._resize(min(float(self.most), self._size + 1 / self._size))

    def _resize(self, size: float) -> None:
        self._size = size
        self._places.total_tokens = self.size


class RunCaps:
    """The caps of a suite.

    Places are taken in one order (world, servers, model, all), so that no runs wait for each other.
    A run that waits for its judge keeps its world and servers, and frees the rest.
    """

    def __init__(self, options: RunOptions, caps: Caps) -> None:
        self._caps = caps
        self._per_model = options.per_model or caps.per_model or _PER_MODEL
        self._per_server = options.per_server or caps.per_server
        self.total = AdaptiveCap(options.concurrency or caps.total or _TOTAL)
        self.worlds = AdaptiveCap(2 * self.total.most)
        """Runs whose servers are open, or about to be."""
        self.models: dict[str, AdaptiveCap] = {}
        self.servers: dict[str, AdaptiveCap] = {}

    def of_model(self, model: str | None) -> AdaptiveCap:
        """Return the cap of a model."""
        name = model or ""
        if name not in self.models:
            self.models[name] = AdaptiveCap(self._caps.models.get(name, self._per_model))
        return self.models[name]

    @asynccontextmanager
    async def request(self, model: str | None) -> AsyncGenerator[AdaptiveCap]:
        """Wait until a model may be called."""
        cap = self.of_model(model)
        async with cap.place(), self.total.place():
            yield cap

    @asynccontextmanager
    async def using(self, servers: Iterable[str]) -> AsyncGenerator[None]:
        """Wait until servers may be used."""
        async with AsyncExitStack() as stack:
            for name in sorted(servers):
                most = self._caps.servers.get(name, self._per_server)
                if most is not None:
                    cap = self.servers.setdefault(name, AdaptiveCap(most))
                    await stack.enter_async_context(cap.place())
            yield


_JUDGE_SECONDS: Final = 120.0
_JUDGE_RETRIES: Final = 1
"""How often a reply of a judge that does not fit is requested again."""
_REFUSAL_ATTEMPTS: Final = 4
MAX_PAUSE_SECONDS: Final = 60.0
"""A provider may want hours; its limits are usually per minute."""
_TAKES_SEED: Final = frozenset(
    {"openai", "ollama", "openrouter", "openai_endpoint", "groq", "together"}
)

OnEvent = Callable[[PlannedRun, TraceEvent], None]


class NotStartedError(Exception):
    """A budget is used up: the run was not made."""


class CaseRunner:
    """Runs cases of a suite, and writes their traces."""

    def __init__(
        self,
        suite: Suite,
        options: RunOptions,
        *,
        on_event: OnEvent | None = None,
        stream: bool = False,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self.suite = suite
        if (folder := str(suite.folder.resolve())) not in sys.path:
            sys.path.append(folder)  # functions of checks and traits may be beside the suite
        self._may_start = may_start
        self._options = options
        self._on_event = on_event
        self._stream = stream
        self.answers = AnswerStore(options.report)
        self.judgments = JudgmentStore(options.report)
        self.caps = RunCaps(options, suite.caps)
        self._models: dict[tuple[str | None, str | None, int | None], ModelConfig] = {}
        self._choosing: dict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._judges: dict[str | None, ParserPort] = {}
        self._shared = SharedWorlds()
        self.spent_usd = 0.0
        """What answers and judges cost so far, as far as prices are known."""

    def check_budget(self) -> None:
        """Raise `NotStartedError` if a budget is used up."""
        if not self._may_start():
            raise NotStartedError

    async def aclose(self) -> None:
        """End the worlds that runs share, and close the models of the judges."""
        await self._shared.aclose()
        for judge in self._judges.values():
            await judge.aclose()

    async def run(
        self, group: Sequence[PlannedRun], *, reuse: bool | None = None
    ) -> list[CaseResult]:
        """Make one answer, or take that of an earlier run, and let every judge of it decide."""
        try:
            return await self._run(group, reuse=self._options.resume if reuse is None else reuse)
        except WorldGoneError:
            return await self._run(group, reuse=False)

    async def _run(self, group: Sequence[PlannedRun], *, reuse: bool) -> list[CaseResult]:
        first = group[0]
        world, made = World(), None
        if reuse and (found := self.answers.find(first.answer_key)) is not None:
            trace, world = found
            made = result_from_trace(trace), trace
        results: list[CaseResult] = []
        began = time.monotonic()
        try:
            async with self.caps.worlds.place(), AsyncExitStack() as stack:
                config = await self._model(first.model, first.engine, first.seed)
                names = server_names(first, self.suite.folder)

                async def generate() -> tuple[AgentResult, Trace]:
                    """Return the answer that all judges share, made when a stage wants it."""
                    nonlocal made
                    if made is None:
                        await stack.enter_async_context(self.caps.using(names))
                        made = await self._answer(first, config, world, stack)
                    return made

                for run in group:
                    started = time.monotonic()
                    case_run = CaseRun(
                        case=run.case,
                        generate=generate,
                        judge=self._judge(run),
                        world=world,
                        servers=names,
                        is_recorded=config.interface == "manual",
                    )
                    await run_stages(case_run, STAGES)
                    seconds = time.monotonic() - started
                    # A run that failed has a trace, too.
                    has_trace = self.answers.trace_path(first.answer_key).exists()
                    trace_file = f"{TRACES}/{run.answer_key}.jsonl" if has_trace else None
                    results.append(_case_result(run, case_run, config, seconds, trace_file))
                self.answers.keep_world(first.answer_key, world)
        except (PlaitError, OSError) as error:
            text = f"{type(error).__name__}: {error}"
            seconds = time.monotonic() - began
            results += [broken_result(run, text, seconds) for run in group[len(results) :]]
        return results

    async def _model(
        self, model: str | None, engine: str | None, seed: int | None = None
    ) -> ModelConfig:
        key = (model, engine, seed)
        async with self._choosing[key]:
            if key not in self._models:
                set_model = os.environ.get("PLAIT_MODEL", "").strip() or None
                located = located_model(model or set_model, self.suite.folder)
                request = ModelRequest(model=located, engine=engine, reason="requested")
                config = (await choose_here(request, os.environ)).config
                if seed is not None and _takes_seed(config):
                    settings = {**(config.extra_kwargs or {}), "seed": seed}
                    config = config.model_copy(update={"extra_kwargs": settings})
                self._models[key] = config
            return self._models[key]

    async def _open_world(
        self, run: PlannedRun, config: ModelConfig, stack: AsyncExitStack
    ) -> Open:
        """Return the agent of a run and its servers: its own, which the stack ends, or shared."""
        if run.case.scope == "case":
            return await self._new_world(run, config, stack)
        seed = run.seed if _takes_seed(config) else None
        key = (run.model, run.engine, seed, shared_servers(run, self.suite.folder))
        return await self._shared.get(key, lambda kept: self._new_world(run, config, kept))

    async def _new_world(self, run: PlannedRun, config: ModelConfig, stack: AsyncExitStack) -> Open:
        """Start the servers of a run in a new folder, and its agent; the stack ends them."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plait-")))
        await prepare_folder(run, self.suite.folder, folder)
        servers = servers_of(run, self.suite.folder, folder)
        agent = get_agent(config, auto_fallback=False)  # another engine is another measurement
        stack.push_async_callback(agent.aclose)
        toolbox = None
        if servers.servers and isinstance(agent, LiveAgent):
            toolbox = await stack.enter_async_context(agent.keep_servers(servers))
        elif servers.servers:
            toolbox = await stack.enter_async_context(Toolbox(servers, follow_tools=False))
        await call_setup_tools(run, toolbox, folder)
        return Open(agent, servers, toolbox)

    async def _answer(
        self, run: PlannedRun, config: ModelConfig, world: World, stack: AsyncExitStack
    ) -> tuple[AgentResult, Trace]:
        """Run the agent in its world; while the provider refuses, with fewer runs at once.

        Raises:
            NotStartedError: A budget is used up.
            StageError: The infrastructure failed.
        """
        pause = 1.0
        opened: Open | None = None
        for attempt in range(1, _REFUSAL_ATTEMPTS + 1):
            async with self.caps.request(run.model) as cap:
                if opened is None:
                    self.check_budget()
                try:
                    if opened is None:
                        opened = await self._open_world(run, config, stack)
                        world.toolbox = opened.toolbox
                        await world.take_snapshot(run.case)
                    result, trace = await self._attempt(run, opened, cap)
                except SetupError as error:
                    raise StageError(f"the setup failed: {error}") from error
                except PlaitError as error:
                    self._spend(error.usage)
                    if error.status not in REFUSED or attempt == _REFUSAL_ATTEMPTS:
                        raise StageError(f"{type(error).__name__}: {error}") from error
                    cap.refused()
                    wanted = pause if error.retry_after is None else error.retry_after
                else:
                    cap.succeeded()
                    self._spend(trace.usage)
                    return result, trace
            # Outside of the place: others may be served meanwhile.
            await asyncio.sleep(min(wanted, MAX_PAUSE_SECONDS))
            pause *= 2
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(
        self, run: PlannedRun, opened: Open, cap: AdaptiveCap
    ) -> tuple[AgentResult, Trace]:
        case, servers = run.case, opened.servers
        path = self.answers.trace_path(run.answer_key)
        self.answers.forget(run.answer_key)

        def on_event(event: TraceEvent) -> None:
            cap.watch(event)
            if self._on_event is not None:
                self._on_event(run, event)

        settings = AgentConfig(
            max_turns=case.limits.turns,
            timeout=case.limits.seconds,
            system_prompt=case.system,
            question_hash=hash_question(case.question or ""),
            trace=path,
            prices=case.prices or None,
            on_event=on_event,
            stream=self._stream,
            # A person who looks at a viewer would change what is measured.
            tool_options={"on_approval": None, "on_elicitation": None},
        )
        result = await opened.agent.arun(
            case.messages, mcp_servers=servers if servers.servers else None, config=settings
        )
        trace = await asyncio.to_thread(read_trace, path)
        _check_servers(opened, trace)
        return result, trace

    def _spend(self, usage: UsageMetadata | None) -> None:
        self.spent_usd += (usage and usage.cost_usd) or 0.0

    def _judge(self, run: PlannedRun) -> Judge:
        """Return what asks the judge of a run; it raises `StageError` if it cannot be asked."""
        name = run.judge or run.model
        cap = self.caps.of_model(name)

        async def judge(question: str, schema: type[BaseModel]) -> JudgeReply:
            known = self.judgments.find(name or "", question)
            if known is not None:
                return JudgeReply(known)
            try:
                config = await self._model(name, None)
                if name not in self._judges:
                    self._judges[name] = get_parser(
                        config, max_retries=_JUDGE_RETRIES, auto_fallback=False
                    )
                settings = AgentConfig(
                    max_turns=1,
                    timeout=_JUDGE_SECONDS,
                    prices=run.case.prices or None,
                    on_event=cap.watch,
                )
                messages = [Message.user(question)]
                async with self.caps.request(name):
                    parser = self._judges[name]
                    result = await parser.aparse_to_pydantic(messages, schema, settings)
            except PlaitError as error:
                self._spend(error.usage)
                if error.status in REFUSED:
                    cap.refused()
                raise StageError(f"the judge failed: {error}") from error
            cap.succeeded()
            self._spend(result.usage)
            reply: dict[str, Any] = result.parsed.model_dump(mode="json", by_alias=True)
            self.judgments.keep(name or "", question, reply)
            return JudgeReply(reply, result.usage)

        return judge


def _check_servers(opened: Open, trace: Trace) -> None:
    """Check that required servers were there: without them, an answer says nothing.

    Raises:
        StageError: One was not reached, or was lost and did not return.
    """
    servers = opened.servers.servers
    gone = {} if trace.started is None else dict(trace.started.unreached)
    if opened.toolbox is not None:
        status = opened.toolbox.status()
        returned = [event for event in trace.events if isinstance(event, ToolReturned)]
        last = {event.server: event for event in returned if event.server in servers}
        gone |= {
            name: event.content
            for name, event in last.items()
            if name is not None and event.is_error and status[name].state != "ready"
        }
    for name, why in gone.items():
        if servers[name].required:
            raise StageError(f"the server {name} could not be used: {why}")


def _takes_seed(config: ModelConfig) -> bool:
    return bool({config.model_provider, config.interface} & _TAKES_SEED)


def _case_result(
    run: PlannedRun, case_run: CaseRun, config: ModelConfig, seconds: float, trace_file: str | None
) -> CaseResult:
    result, trace = case_run.result, case_run.trace
    model = run.model or config.model_name or ""
    if config.model_provider not in {"scripted", None}:
        model = config.model_name or model
    outcomes = [stage.outcome for stage in case_run.stages]
    outcome: Outcome = "failed" if "failed" in outcomes else "passed"
    if "error" in outcomes:
        outcome = "error"
    broken = next((stage for stage in case_run.stages if stage.outcome == "error"), None)
    limit = result is not None and result.limit_reached
    metrics = extract_agent_metrics(result.trace_messages if result else (), limit_reached=limit)
    events = () if trace is None else trace.events
    usage = case_run.usage
    costs = [one.cost_usd for one in usage.values() if one.cost_usd is not None]
    reported = {**usage, "total": reduce(add, usage.values(), UsageMetadata())} if usage else {}
    verified = case_run.outcome_of("VerifyTemplate")
    named = f" +[{', '.join(case_run.servers)}]" if case_run.servers else ""
    return replace(
        broken_result(run, "", seconds),
        model=f"{config.interface}:{model}{named}",
        engine=config.interface,
        outcome=outcome,
        stages=tuple(case_run.stages),
        checks=tuple(asdict(check) for check in case_run.checks),
        parsed=case_run.parsed,
        traits=case_run.traits,
        quotes=case_run.quotes,
        verify_result=None if verified is None else verified in {"passed", "overruled"},
        abstention_detected=case_run.abstained,
        sufficiency_detected=case_run.sufficient,
        embedding_similarity=case_run.similarity,
        answer=case_run.answer,
        status="" if result is None else result.status,
        error=None if broken is None else f"{broken.name}: {broken.message}",
        turns=0 if result is None else result.turns,
        tokens=0 if trace is None else trace.usage.total_tokens,
        judge_tokens=sum(one.total_tokens for name, one in usage.items() if name != ANSWER_STAGE),
        cost_usd=sum(costs) if costs else None,
        usage_metadata={name: one.to_dict() for name, one in reported.items()},
        recursion_limit_reached=limit,
        answering_mcp_servers=case_run.servers,
        agent_metrics=metrics.to_dict(),
        heals=sum(isinstance(event, Healed) for event in events),
        retries=sum(isinstance(event, Retried | ModelRetried) for event in events),
        trace=trace_file,
    )


def broken_result(run: PlannedRun, error: str, seconds: float) -> CaseResult:
    """Return the result of a run that the infrastructure has ended."""
    return CaseResult(
        key=run.key,
        case=run.case.name,
        case_key=run.case_key,
        model=run.model or "",
        engine=run.engine or "",
        repeat=run.repeat,
        outcome="error",
        judge=run.judge or "",
        seed=run.seed,
        tags=tuple(run.case.tags),
        error=error,
        seconds=seconds,
    )
