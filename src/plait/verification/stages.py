"""The stages of one run of a case: each has a name, a condition and a result."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from plait.agents.port import AgentResult
from plait.traces.messages.message import Role, UsageMetadata
from plait.traces.trace import Trace
from plait.verification.checks import CheckResult, Evidence, run_check
from plait.verification.results import ANSWER_STAGE, StageOutcome, StageResult
from plait.verification.suite import Case
from plait.verification.templates import has_type, is_expected


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """The JSON object that a judge replied with, and what it used."""

    value: dict[str, Any]
    usage: UsageMetadata = field(default_factory=UsageMetadata)


Judge = Callable[[str, type[BaseModel]], Awaitable[JudgeReply]]
"""Answers a question in the form of a schema."""


class StageError(Exception):
    """A stage could not decide: the infrastructure failed, not the answer."""


@dataclass(slots=True)
class CaseRun:
    """What the stages of one run know, and find."""

    case: Case
    generate: Callable[[], Awaitable[tuple[AgentResult, Trace]]]
    """Runs the agent."""
    judge: Judge
    evidence_for: Callable[[CaseRun], Evidence]
    uses_servers: bool
    is_recorded: bool = False
    """Whether the answers are recordings, whose traces are not validated."""
    result: AgentResult | None = None
    trace: Trace | None = None
    stages: list[StageResult] = field(default_factory=list[StageResult])
    parsed: dict[str, Any] = field(default_factory=dict[str, Any])
    wrong: dict[str, str] = field(default_factory=dict[str, str])
    """The fields of the template that are not as expected, and why."""
    quotes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """What the judge quoted for fields and traits, as far as it is there."""
    checks: list[CheckResult] = field(default_factory=list[CheckResult])
    traits: dict[str, bool] = field(default_factory=dict[str, bool])
    abstained: bool | None = None
    sufficient: bool | None = None
    similarity: dict[str, float] = field(default_factory=dict[str, float])
    usage: dict[str, UsageMetadata] = field(default_factory=dict[str, UsageMetadata])
    """What each stage used."""
    current: str = ""
    """The name of the stage that runs."""

    @property
    def answer(self) -> str:
        """The final response."""
        return "" if self.result is None else self.result.final_response

    @property
    def uses_template(self) -> bool:
        """Whether the answer is compared with a template."""
        return bool(self.case.template) and self.case.evaluation_mode != "rubric_only"

    @property
    def uses_rubric(self) -> bool:
        """Whether traits of the answer are judged."""
        return bool(self.case.rubric) and self.case.evaluation_mode != "template_only"

    async def ask_judge(self, question: str, schema: type[BaseModel]) -> dict[str, Any]:
        """Return the reply of the judge, and count what it used for the stage."""
        reply = await self.judge(question, schema)
        self.usage[self.current] = self.usage.get(self.current, UsageMetadata()) + reply.usage
        return reply.value

    def text_for(self, *, full_trace: bool) -> str:
        """Return what a judge reads."""
        whole = "" if self.result is None else self.result.raw_trace
        return whole if full_trace else self.answer

    def outcome_of(self, stage: str) -> StageOutcome | None:
        """Return how an earlier stage ended."""
        return next((one.outcome for one in self.stages if one.name == stage), None)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a run."""

    name: str
    applies: Callable[[CaseRun], bool]
    """Whether it has anything to do."""
    decide: Callable[[CaseRun], Awaitable[str | None]]
    """Returns what is wrong with the answer, if anything; raises `StageError` if it cannot say."""
    ends: bool = False
    """Whether nothing else is asked after its failure: the answer is not one."""


async def run_stages(run: CaseRun, stages: tuple[Stage, ...]) -> None:
    """Run the stages that apply, and note their results; the last one always runs."""
    *others, last = stages
    for stage in others:
        if not stage.applies(run):
            continue
        outcome = await _run_stage(run, stage)
        if outcome == "error" or (outcome == "failed" and stage.ends):
            break
    await _run_stage(run, last)


async def _run_stage(run: CaseRun, stage: Stage) -> StageOutcome:
    began = time.monotonic()
    run.current = stage.name
    try:
        problem = await stage.decide(run)
        outcome: StageOutcome = "passed" if problem is None else "failed"
    except StageError as error:
        problem, outcome = str(error), "error"
    seconds = time.monotonic() - began
    run.stages.append(
        StageResult(name=stage.name, outcome=outcome, message=problem or "", seconds=seconds)
    )
    return outcome


async def validate_template(run: CaseRun) -> str | None:
    """Check that the expected values of a template have the types of its fields."""
    for entry in run.case.template:
        if not has_type(entry.expected, entry):
            raise StageError(f"the expected value of {entry.name} is not a {entry.type}")
        try:
            re.compile(entry.regex or "")
        except re.error as error:
            raise StageError(f"the regex of {entry.name} is wrong: {error}") from None
    return None


async def generate_answer(run: CaseRun) -> str | None:
    """Run the agent, with the servers of the case."""
    run.result, run.trace = await run.generate()
    run.usage[ANSWER_STAGE] = run.trace.usage
    return None


async def recursion_limit_auto_fail(run: CaseRun) -> str | None:
    """Fail runs that ended at a limit, or with a cut or refused answer; the trace is kept."""
    status = "unknown" if run.result is None else run.result.status
    reasons = {
        "limit": "the turn limit was reached",
        "timeout": "the timeout was reached",
        "truncated": "the answer was cut",
        "refused": "the model refused to answer",
    }
    return reasons.get(status, f"the run ended as {status}")


async def trace_validation_auto_fail(run: CaseRun) -> str | None:
    """Fail runs whose trace does not end in an answer with text."""
    messages = [] if run.result is None else run.result.trace_messages
    last = messages[-1] if messages else None
    if last is None or last.role is not Role.ASSISTANT or not last.text.strip():
        return "the trace does not end in an answer"
    return None


async def verify_template(run: CaseRun) -> str | None:
    """Compare the fields of the template with what is expected."""
    missed: list[str] = []
    for entry in run.case.template:
        value = run.parsed.get(entry.name)
        if not is_expected(value, entry):
            run.wrong[entry.name] = f"{entry.name} is {value!r}, expected {entry.expected!r}"
        if entry.regex is not None and re.search(entry.regex, run.answer) is None:
            missed.append(f"{entry.name}: the answer has no match of {entry.regex!r}")
    return next(iter([*run.wrong.values(), *missed]), None)


async def checks(run: CaseRun) -> str | None:
    """Run the checks that need no judge; all of them, so that each can be counted."""
    evidence = run.evidence_for(run)
    run.checks = [await run_check(check, evidence) for check in run.case.checks]
    failed = [check for check in run.checks if not check.passed]
    return f"{failed[0].name}: {failed[0].message}" if failed else None


async def finalize_result(run: CaseRun) -> str | None:
    """Sum up the stages: one that failed fails the run, one that could not decide is an error."""
    run.usage = {name: usage for name, usage in run.usage.items() if usage.total_tokens}
    return None


def overrule(run: CaseRun, stage: str) -> None:
    """Take back the failure of an earlier stage."""
    run.stages = [
        replace(one, outcome="overruled") if one.name == stage else one for one in run.stages
    ]
