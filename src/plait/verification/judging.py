"""The stages that a judge decides, and the order of all stages."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final, cast

from plait._support.gather import resolve
from plait.errors import ConfigError
from plait.traces.messages.message import Role
from plait.verification import stages
from plait.verification.results import ANSWER_STAGE
from plait.verification.stages import CaseRun, Stage, StageError
from plait.verification.suite import Trait
from plait.verification.templates import template_schema, traits_schema


async def _abstention_check(run: CaseRun) -> str | None:
    """Fail answers that decline to answer."""
    reply = await run.ask_judge(
        "Does this answer decline to answer the question? Reply with JSON: "
        f'{{"declines": true}} or {{"declines": false}}.\n\n{_question_and_answer(run)}',
        traits_schema(["declines"], quoted=False),
    )
    run.abstained = _decided(reply, "declines")
    return "the agent declined to answer" if run.abstained else None


async def _sufficiency_check(run: CaseRun) -> str | None:
    """Fail answers that cannot fill the template."""
    reply = await run.ask_judge(
        "Does this answer contain the information to fill each of the fields below, be it right "
        'or wrong? Reply with JSON: {"sufficient": true} or {"sufficient": false}.\n\n'
        f"{_fields(run)}\n\n{_question_and_answer(run)}",
        traits_schema(["sufficient"], quoted=False),
    )
    run.sufficient = _decided(reply, "sufficient")
    return None if run.sufficient else "the answer lacks information for the template"


async def _parse_template(run: CaseRun) -> str | None:
    """Let the judge read the fields of the template from the answer, with quotes if wanted."""
    text = _template_text(run)
    deep = run.case.deep_judgment_enabled
    quoted = (
        'Add the key "quotes": an object that maps each field that is not null to a list of the '
        "passages that say it, copied word by word. "
        if deep
        else ""
    )
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
    from plait.verification.embeddings import similarity  # noqa: PLC0415  # an extra

    wrong = [entry for entry in run.case.template if entry.name in run.wrong]
    try:
        for entry in wrong:
            run.similarity[entry.name] = await similarity(
                str(run.parsed[entry.name]), str(entry.expected)
            )
    except ConfigError as error:
        raise StageError(str(error)) from error
    least = run.case.embedding_check_threshold
    if all(run.similarity[entry.name] >= least for entry in wrong):
        stages.overrule(run, "VerifyTemplate")
    return None


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
    text = run.text_for(full_trace=run.case.use_full_trace_for_rubric)
    for trait in run.case.rubric:
        if trait.regex is not None:
            run.traits[trait.name] = re.search(trait.regex, run.answer) is not None
        elif trait.call is not None:
            run.traits[trait.name] = await _called(trait, run.answer)
    if judged := [trait for trait in run.case.rubric if trait.name not in run.traits]:
        run.traits |= await _judged(run, judged, text)
    wrong = [one.name for one in run.case.rubric if run.traits[one.name] != one.wanted]
    return f"not as wanted: {', '.join(wrong)}" if wrong else None


async def _called(trait: Trait, text: str) -> bool:
    module, _, name = (trait.call or "").partition(":")
    try:
        return bool(await resolve(getattr(import_module(module), name)(text)))
    except Exception as error:
        raise StageError(f"{trait.call} raised {type(error).__name__}: {error}") from error


async def _judged(run: CaseRun, traits: list[Trait], text: str) -> dict[str, bool]:
    questions = "\n".join(f"- {trait.name}: {trait.description or trait.name}" for trait in traits)
    deep = run.case.deep_judgment_rubric_enabled
    quoted = (
        'Add the key "quotes": an object that maps each name that is true to a list of the '
        "passages that show it, copied word by word. "
        if deep
        else ""
    )
    reply = await run.ask_judge(
        "Decide for each of these whether it holds for the text below. Reply with one "
        f"JSON object that maps each name to true or false. {quoted}\n\n{questions}\n\n"
        f"The text:\n{_fenced('text', text)}",
        traits_schema([trait.name for trait in traits], quoted=deep),
    )
    if deep:
        run.quotes |= _found_quotes(reply, text, [trait.name for trait in traits])
    return {trait.name: _decided(reply, trait.name) for trait in traits}


async def _deep_judgment_rubric_auto_fail(run: CaseRun) -> str | None:
    """Fail traits that the judge found, but could not quote."""
    judged = [one.name for one in run.case.rubric if one.regex is None and one.call is None]
    missing = [name for name in judged if run.traits.get(name) and not run.quotes.get(name)]
    return f"no passage of the text shows {missing[0]}" if missing else None


def _decided(reply: dict[str, Any], name: str) -> bool:
    value = reply.get(name)
    if not isinstance(value, bool):
        raise StageError(f"the judge did not decide about {name}")
    return value


def _found_quotes(reply: dict[str, Any], text: str, names: list[str]) -> dict[str, list[str]]:
    """Return the quotes that are in the text, whatever their spaces and case."""
    found: Any = reply.get("quotes")
    quotes = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    whole = _folded(text)
    return {
        name: [quote for quote in _listed(quotes.get(name)) if _folded(quote) in whole]
        for name in names
    }


def _listed(value: Any) -> list[str]:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str) and one.strip()]


def _folded(text: str) -> str:
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


STAGES: Final = (
    Stage("ValidateTemplate", lambda run: run.uses_template, stages.validate_template),
    Stage(ANSWER_STAGE, lambda _: True, stages.generate_answer),
    Stage(
        "RecursionLimitAutoFail",
        lambda run: run.result is not None and run.result.status != "completed",
        stages.recursion_limit_auto_fail,
        ends=True,
    ),
    Stage(
        "TraceValidationAutoFail",
        lambda run: run.uses_servers and not run.is_recorded,
        stages.trace_validation_auto_fail,
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
    Stage("VerifyTemplate", lambda run: run.uses_template, stages.verify_template),
    Stage("EmbeddingCheck", _embedding_applies, _embedding_check),
    Stage(
        "DeepJudgmentAutoFail",
        lambda run: run.case.deep_judgment_enabled and run.uses_template,
        _deep_judgment_auto_fail,
    ),
    Stage("Checks", lambda run: bool(run.case.checks), stages.checks),
    Stage("RubricEvaluation", lambda run: run.uses_rubric, _rubric_evaluation),
    Stage(
        "DeepJudgmentRubricAutoFail",
        lambda run: run.case.deep_judgment_rubric_enabled and run.uses_rubric,
        _deep_judgment_rubric_auto_fail,
    ),
    Stage("FinalizeResult", lambda _: True, stages.finalize_result),
)
"""The stages, in their order; the last one always runs."""
