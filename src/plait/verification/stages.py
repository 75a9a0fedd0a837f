"""The stages of one run of a case: each has a name, a condition and a result."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from plait.agents.port import AgentResult
from plait.traces.messages.message import Role
from plait.traces.trace import Trace
from plait.verification.checks import CheckResult, Evidence, run_check
from plait.verification.results import StageResult
from plait.verification.suite import Case, TemplateField

Judge = Callable[[str], Awaitable[tuple[dict[str, Any], int]]]
"""Answers a question with JSON, and says how many tokens that took."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
}


class StageError(Exception):
    """A stage could not decide: the infrastructure failed, not the answer."""


@dataclass(slots=True)
class CaseRun:
    """What the stages of one run know, and find."""

    case: Case
    generate: Callable[[], Awaitable[tuple[AgentResult, Trace]]]
    """Runs the agent."""
    judge: Judge | None
    evidence_for: Callable[[str, Trace], Evidence]
    uses_servers: bool
    is_recorded: bool = False
    """Whether the answers are recordings, whose traces are not validated."""
    result: AgentResult | None = None
    trace: Trace | None = None
    parsed: dict[str, Any] = field(default_factory=dict[str, Any])
    checks: list[CheckResult] = field(default_factory=list[CheckResult])
    traits: dict[str, bool] = field(default_factory=dict[str, bool])
    judge_tokens: int = 0
    failed: bool = False
    """Whether a stage has failed the answer."""

    @property
    def answer(self) -> str:
        """The final response."""
        return "" if self.result is None else self.result.final_response

    async def ask_judge(self, question: str) -> dict[str, Any]:
        """Ask the judge, and count its tokens."""
        if self.judge is None:
            raise StageError("the case needs a judge: set `judge` or `model`")
        reply, tokens = await self.judge(question)
        self.judge_tokens += tokens
        return reply

    def text_for(self, *, full_trace: bool) -> str:
        """Return what a judge reads."""
        whole = "" if self.result is None else self.result.raw_trace
        return whole if full_trace else self.answer


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a run."""

    name: str
    applies: Callable[[CaseRun], bool]
    """Whether it has anything to do."""
    decide: Callable[[CaseRun], Awaitable[str | None]]
    """Returns what is wrong with the answer, if anything; raises `StageError` if it cannot say."""


async def run_stages(run: CaseRun) -> list[StageResult]:
    """Run the stages that apply, until one fails; `failed` and `error` end the run."""
    results: list[StageResult] = []
    for stage in STAGES:
        if not stage.applies(run):
            continue
        began = time.monotonic()
        try:
            problem = await stage.decide(run)
        except StageError as error:
            seconds = time.monotonic() - began
            results.append(
                StageResult(name=stage.name, outcome="error", message=str(error), seconds=seconds)
            )
            return results
        seconds = time.monotonic() - began
        outcome = "passed" if problem is None else "failed"
        results.append(
            StageResult(name=stage.name, outcome=outcome, message=problem or "", seconds=seconds)
        )
        if problem is not None:
            run.failed = True
            if stage.name in _ENDING:
                break
    return results


_ENDING = frozenset({"RecursionLimitAutoFail", "TraceValidationAutoFail", "AbstentionCheck"})
"""Stages after whose failure nothing else is asked: the answer is not one."""


async def _validate_template(run: CaseRun) -> str | None:
    """Check that the expected values of a template have the types of its fields."""
    for entry in run.case.template:
        if not _has_type(entry.expected, entry):
            raise StageError(f"the expected value of {entry.name} is not a {entry.type}")
        try:
            re.compile(entry.regex or "")
        except re.error as error:
            raise StageError(f"the regex of {entry.name} is wrong: {error}") from None
    return None


async def _generate_answer(run: CaseRun) -> str | None:
    """Run the agent, with the servers of the case."""
    run.result, run.trace = await run.generate()
    return None


async def _recursion_limit_auto_fail(run: CaseRun) -> str | None:
    """Fail runs that ended at a limit, or with a cut or refused answer; the trace is kept."""
    status = "unknown" if run.result is None else run.result.status
    reasons = {
        "limit": "the turn limit was reached",
        "timeout": "the timeout was reached",
        "truncated": "the answer was cut",
        "refused": "the model refused to answer",
    }
    return reasons.get(status, f"the run ended as {status}")


async def _trace_validation_auto_fail(run: CaseRun) -> str | None:
    """Fail runs whose trace does not end in an answer with text."""
    messages = [] if run.result is None else run.result.trace_messages
    last = messages[-1] if messages else None
    if last is None or last.role is not Role.ASSISTANT or not last.text.strip():
        return "the trace does not end in an answer"
    return None


async def _abstention_check(run: CaseRun) -> str | None:
    """Fail answers that decline to answer."""
    reply = await run.ask_judge(
        "Does this answer decline to answer the question? Reply with JSON: "
        f'{{"declines": true}} or {{"declines": false}}.\n\n{_question_and_answer(run)}'
    )
    return "the agent declined to answer" if reply.get("declines") is True else None


async def _parse_template(run: CaseRun) -> str | None:
    """Let the judge read the fields of the template from the answer."""
    fields = "\n".join(
        f"- {entry.name} ({entry.type}): {entry.description or entry.name}"
        for entry in run.case.template
    )
    text = run.text_for(full_trace=run.case.use_full_trace_for_template)
    reply = await run.ask_judge(
        "Read these fields from the answer below. Report what the answer says, not what is "
        "right; use null for what it does not say. Reply with one JSON object that has "
        f"exactly these keys.\n\n{fields}\n\nThe answer:\n<answer>\n{text}\n</answer>"
    )
    run.parsed = {entry.name: reply.get(entry.name) for entry in run.case.template}
    return None


async def _verify_template(run: CaseRun) -> str | None:
    """Compare the fields of the template with what is expected."""
    for entry in run.case.template:
        value = run.parsed.get(entry.name)
        if not _is_expected(value, entry):
            return f"{entry.name} is {value!r}, expected {entry.expected!r}"
        if entry.regex is not None and re.search(entry.regex, run.answer) is None:
            return f"{entry.name}: the answer has no match of {entry.regex!r}"
    return None


async def _checks(run: CaseRun) -> str | None:
    """Run the checks that need no judge; all of them, so that each can be counted."""
    trace = run.trace
    if trace is None:
        return None
    evidence = run.evidence_for(run.answer, trace)
    run.checks = [await run_check(check, evidence) for check in run.case.checks]
    failed = [check for check in run.checks if not check.passed]
    return f"{failed[0].name}: {failed[0].message}" if failed else None


async def _rubric_evaluation(run: CaseRun) -> str | None:
    """Decide about each trait, by its regular expression or by the judge."""
    judged = [trait for trait in run.case.rubric if trait.regex is None]
    for trait in run.case.rubric:
        if trait.regex is not None:
            run.traits[trait.name] = re.search(trait.regex, run.answer) is not None
    if judged:
        text = run.text_for(full_trace=run.case.use_full_trace_for_rubric)
        questions = "\n".join(f"- {trait.name}: {trait.description}" for trait in judged)
        reply = await run.ask_judge(
            "Decide for each of these whether it holds for the text below. Reply with one "
            f"JSON object that maps each name to true or false.\n\n{questions}\n\n"
            f"The text:\n<text>\n{text}\n</text>"
        )
        for trait in judged:
            if not isinstance(reply.get(trait.name), bool):
                raise StageError(f"the judge did not decide about {trait.name}")
            run.traits[trait.name] = reply[trait.name]
    wrong = [one.name for one in run.case.rubric if run.traits[one.name] != one.wanted]
    return f"not as wanted: {', '.join(wrong)}" if wrong else None


STAGES = (
    Stage("ValidateTemplate", lambda run: bool(run.case.template), _validate_template),
    Stage("GenerateAnswer", lambda _: True, _generate_answer),
    Stage(
        "RecursionLimitAutoFail",
        lambda run: run.result is not None and run.result.status != "completed",
        _recursion_limit_auto_fail,
    ),
    Stage(
        "TraceValidationAutoFail",
        lambda run: run.uses_servers and not run.is_recorded,
        _trace_validation_auto_fail,
    ),
    Stage("AbstentionCheck", lambda run: run.case.abstention_enabled, _abstention_check),
    Stage(
        "ParseTemplate",
        lambda run: bool(run.case.template) and run.case.evaluation_mode != "rubric_only",
        _parse_template,
    ),
    Stage("VerifyTemplate", lambda run: bool(run.parsed), _verify_template),
    Stage("Checks", lambda run: bool(run.case.checks) and run.trace is not None, _checks),
    Stage(
        "RubricEvaluation",
        lambda run: bool(run.case.rubric) and run.case.evaluation_mode != "template_only",
        _rubric_evaluation,
    ),
)
"""The stages, in their order."""


def json_in(text: str) -> dict[str, Any] | None:
    """Find the JSON object in a judge's reply, which may have words around it."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            start = text.find("{", start + 1)
            continue
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        start = text.find("{", start + 1)
    return None


def _question_and_answer(run: CaseRun) -> str:
    question = next((one.text for one in reversed(run.case.messages) if one.role is Role.USER), "")
    return f"The question:\n{question}\n\nThe answer:\n<answer>\n{run.answer}\n</answer>"


def _has_type(value: object, entry: TemplateField) -> bool:
    if isinstance(value, bool) and entry.type != "boolean":
        return False
    return isinstance(value, _PYTHON_TYPES[entry.type])


def _is_expected(value: Any, entry: TemplateField) -> bool:
    if not _has_type(value, entry):
        return False
    expected = entry.expected
    if entry.type == "text":
        return str(value).strip().casefold() == str(expected).strip().casefold()
    if entry.type == "number" and entry.tolerance is not None:
        return abs(value - expected) <= entry.tolerance
    if entry.type == "list":
        return _as_set(cast("list[Any]", value)) == _as_set(cast("list[Any]", expected))
    return bool(value == expected)


def _as_set(values: list[Any]) -> set[str]:
    """Return what a list holds, whatever its order and case."""
    return {json.dumps(value, sort_keys=True).casefold() for value in values}
