"""Chooses a mode by keywords, a model or the size of the task, and takes its first step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import Field

from plait.reasoning.call_context import CallContext, Outcome, Run
from plait.reasoning.fields import AnyText, Id, Number, Params, Text, clamped, optional
from plait.reasoning.modes.divergent import DivergentParams, divergent
from plait.reasoning.modes.got import InitParams, got_init
from plait.reasoning.modes.linear import LinearParams, linear
from plait.reasoning.modes.reflection import ReflectionParams, reflection
from plait.reasoning.modes.solve import SolveParams, solve
from plait.reasoning.modes.tree import TreeParams, tree
from plait.reasoning.results import Result, ResultPart, move, result_data, unless_none
from plait.reasoning.values import Changes

MAX_SHORT_BYTES = 50
"""A task of fewer bytes has no parts that could be taken apart."""

Alternative: TypeAlias = tuple[str, float, str]
"""Another mode, with its confidence and rationale."""

_KEYWORDS: Final = (
    (
        ("evaluate", "assess", "review quality", "critique"),
        ("reflection", 0.85, 0.5, "The task is to judge something that exists."),
        ("linear", 0.6, "A judgement can be worked out step by step."),
    ),
    (
        ("creative", "brainstorm", "novel", "unconventional"),
        ("divergent", 0.85, 0.6, "The task asks for new ideas."),
        ("tree", 0.5, "Ideas can be explored as branches."),
    ),
    (
        ("options", "alternatives", "compare", "trade-offs"),
        ("tree", 0.8, 0.5, "The task weighs options against each other."),
        ("divergent", 0.4, "There may be options nobody has named."),
    ),
    (
        ("complex system", "interconnected", "multi-step", "graph"),
        ("got", 0.75, 0.8, "The task has many parts that depend on each other."),
        ("tree", 0.6, "The parts may be taken one by one."),
    ),
)
"""Keywords; the mode with its confidence, complexity and rationale; and the alternative."""

_FIRST_STEPS: Mapping[str, tuple[Run, type[Params]]] = {
    "linear": (linear, LinearParams),
    "tree": (tree, TreeParams),
    "divergent": (divergent, DivergentParams),
    "reflection": (reflection, ReflectionParams),
    "got": (got_init, InitParams),
    "solve": (solve, SolveParams),
}
"""The first tool of each mode that can be recommended."""

_MODES = tuple(mode for mode in _FIRST_STEPS if mode != "solve")
"""Modes that keywords, a hint or a model may choose."""

_TASKS: Final = re.compile(
    r"\b(?:rotas?|rosters?|schedul\w+|timetables?|assign\w*|allocat\w+|seat(?:s|ed|ing)?|sits?"
    r"|routes?|path|arrang\w+|order|budgets?|versions?|compatible|configur\w+|deliver\w*"
    r"|who (?:has|owns|works|lives)|follows? from|true of)\b",
    re.IGNORECASE,
)
_LIMITS: Final = re.compile(
    r"\b(?:at most|at least|exactly|no more than|not more than|no two|nobody|no one|must not"
    r"|cannot|can't|only if|unless|before|after|next to|opposite|different|within|same as"
    r"|each|either|whoever|if|does not|limit)\b",
    re.IGNORECASE,
)
_GOALS: Final = re.compile(
    r"\b(?:shortest|cheapest|fastest|fewest|lowest|minimi[sz]e|maximi[sz]e|optimal|best mix"
    r"|as (?:few|many|little|much|cheap\w*) as possible)\b",
    re.IGNORECASE,
)
MIN_LIMITS: Final = 2
"""One limit alone is in many questions that are none for a solver."""

_WITHOUT_MODEL = frozenset({"linear", "got"})
"""Modes whose first step needs no model."""


class AutoParams(Params):
    """Arguments of `reasoning_auto`."""

    content: Text = Field(description="The task.")
    hints: list[AnyText] = Field(
        default_factory=list[AnyText], description="What may help with the choice."
    )
    session_id: Id | None = optional("The session it is for.")
    execute: bool = Field(default=False, description="Take the first step of the mode, too.")
    complexity: Number | None = clamped(
        0, 1, "Your own estimate; used where there is no model to ask.", default=None
    )


class RouterReply(Params):
    """The mode that fits, as a model sees it."""

    recommended_mode: Text
    confidence: Number = clamped(0, 1, "How sure it is.", default=0.8)
    rationale: AnyText = ""
    complexity: Number = clamped(0, 1, "How complex the task is.", default=0.5)


class AlternativeMode(ResultPart):
    """A mode that may do as well."""

    mode: str
    confidence: float
    rationale: str


class Executed(ResultPart):
    """The first step that was taken."""

    tool: str
    result: dict[str, Any]


class AutoResult(Result):
    """The mode to use."""

    recommended_mode: str
    confidence: float
    rationale: str
    complexity: float
    alternative_modes: list[AlternativeMode]
    fallback_used: bool
    original_invalid_mode: str | None = unless_none()
    executed: Executed | None = unless_none()


async def auto(params: AutoParams, call: CallContext) -> Outcome[AutoResult]:
    """Recommend the mode of reasoning that fits a task, and with execute=true take its first step.

    Not needed for questions with a plain answer.
    """
    result = await _recommendation(params, call)
    mode = result.recommended_mode
    run, kind = _FIRST_STEPS[mode]
    arguments = params.model_dump(include={"content", "session_id"}, exclude_none=True)
    changes: Changes | None = None
    # Without a model, the caller has to write most first steps.
    if params.execute and (not call.is_host or mode in _WITHOUT_MODEL):
        outcome = await run(kind.model_validate(arguments), call)
        step = outcome.result.model_copy(update={"backend": call.completer.name})
        executed = Executed(tool=f"reasoning_{run.__name__}", result=result_data(step))
        result, changes = result.model_copy(update={"executed": executed}), outcome.changes
    else:
        begin = move(run.__name__, f"begin with the mode {mode}", **arguments)
        result = result.model_copy(update={"next": [begin]})
    if changes is None and params.session_id is not None:
        session = await call.new_or_open_session(params.session_id, "auto")
        changes = Changes(session=session) if session.version == 0 else None
    return Outcome(result, changes)


async def _recommendation(params: AutoParams, call: CallContext) -> AutoResult:
    """Choose by the hints of a caller without a model, by keywords, or by complexity."""
    content, hints = params.content, " ".join(params.hints)
    # The full profile chooses among the modes of the original server.
    if call.is_compact and (why := _why_solve(content)) is not None:
        other = ("linear", 0.4, "It can be worked out step by step, without a guarantee.")
        return _result("solve", 0.85, 0.5, why, [other])
    if call.is_host:
        for word in (*_MODES, "graph"):
            if _has_word(hints, (word,)):
                mode = "got" if word == "graph" else word
                return _result(mode, 0.9, 0.5, f"Your hint names {word}.", [])
        for words, route, alternative in _KEYWORDS:
            if _has_word(hints, words):
                return _result(*route, [alternative])
    if len(content.encode()) < MAX_SHORT_BYTES:
        why = "The task is short: one step after the other suffices."
        return _result("linear", 0.9, 0.2, why, [])
    for words, route, alternative in _KEYWORDS:
        if _has_word(content, words):
            return _result(*route, [alternative])
    if not call.is_host:
        listed = "".join(f"\n- {hint}" for hint in params.hints)
        user = content + (f"\n\nHints:{listed}" if listed else "")
        reply = await call.ask("auto", user, RouterReply)
        fitting = _fitting(reply.complexity)
        mode = reply.recommended_mode.strip().lower()
        if mode in _MODES:
            return _result(mode, reply.confidence, reply.complexity, reply.rationale, fitting)
        result = _result("linear", reply.confidence, reply.complexity, reply.rationale, fitting)
        invalid = {"fallback_used": True, "original_invalid_mode": reply.recommended_mode}
        return result.model_copy(update=invalid)
    complexity, why = params.complexity, "By the complexity you gave."
    if complexity is None:
        questions = content.count("?")
        parts = sum(line.lstrip()[:1] in {"-", "*"} for line in content.splitlines())
        complexity = min(1.0, len(content.split()) / 200 + questions * 0.1 + parts * 0.05)
        why = "No model can be asked: the complexity is estimated from the length and the parts."
    fitting = _fitting(complexity)
    return _result(fitting[0][0], 0.6, complexity, why, fitting)


def _why_solve(content: str) -> str | None:
    """Return why a question has the shape of a problem for a solver; `None` if it has not."""
    task = _TASKS.search(content)
    limits = [*dict.fromkeys(match[0].lower() for match in _LIMITS.finditer(content))]
    goal = _GOALS.search(content)
    if task is None or (goal is None and len(limits) < MIN_LIMITS):
        return None
    named = [goal[0].lower()] if goal else limits[:3]
    quoted = ", ".join(f"'{word}'" for word in named)
    return (
        f"It speaks of '{task[0].lower()}' under conditions ({quoted}): a solver finds the answer "
        "exactly, or says which conditions contradict each other."
    )


def _has_word(text: str, words: Sequence[str]) -> bool:
    """Return whether a text has one of the words, also as a plural or in the past."""
    pattern = "|".join(map(re.escape, words))
    return re.search(rf"\b(?:{pattern})(?:s|d|ed|es)?\b", text, re.IGNORECASE) is not None


def _result(
    mode: str,
    confidence: float,
    complexity: float,
    rationale: str,
    alternatives: Sequence[Alternative],
) -> AutoResult:
    """Return a recommendation; the mode itself is no alternative."""
    return AutoResult(
        recommended_mode=mode,
        confidence=confidence,
        rationale=rationale,
        complexity=complexity,
        alternative_modes=[
            AlternativeMode(mode=other, confidence=share, rationale=why)
            for other, share, why in alternatives
            if other != mode
        ],
        fallback_used=False,
    )


def _fitting(complexity: float) -> list[Alternative]:
    """Return the modes that fit a complexity, the best first."""
    if complexity < 0.3:
        return [("linear", 0.7, "The task is simple.")]
    if complexity > 0.7:
        partwise = ("tree", 0.5, "The parts may be taken one by one.")
        return [("got", 0.6, "The task is complex."), partwise]
    return [("tree", 0.5, "There may be more than one way.")]
