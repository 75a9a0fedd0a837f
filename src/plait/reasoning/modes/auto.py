"""Chooses a mode by keywords, a model or the size of the task, and takes its first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from plait.reasoning.arguments import AnyText, Id, Number, Params, Text, clamped
from plait.reasoning.call_context import CallContext, Outcome
from plait.reasoning.model_replies import RouterReply
from plait.reasoning.modes.divergent import DivergentParams, divergent
from plait.reasoning.modes.got_graph import InitParams, got_init
from plait.reasoning.modes.linear import LinearParams, linear
from plait.reasoning.modes.reflection import ReflectionParams, reflection
from plait.reasoning.modes.tree import TreeParams, tree
from plait.reasoning.results import Move, Result, ResultPart, move, result_data
from plait.reasoning.values import Changes

MODES: Final = ("linear", "tree", "divergent", "reflection", "got")
"""The modes that can be recommended."""

_SHORT_BYTES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A recommended mode."""

    mode: str
    confidence: float
    rationale: str
    complexity: float
    alternatives: tuple[tuple[str, float, str], ...] = ()


_KEYWORDS: Final = (
    (
        ("evaluate", "assess", "review quality", "critique"),
        Route(
            mode="reflection",
            confidence=0.85,
            rationale="The task is to judge something that exists.",
            complexity=0.5,
            alternatives=(("linear", 0.6, "A judgement can be worked out step by step."),),
        ),
    ),
    (
        ("creative", "brainstorm", "novel", "unconventional"),
        Route(
            mode="divergent",
            confidence=0.85,
            rationale="The task asks for new ideas.",
            complexity=0.6,
            alternatives=(("tree", 0.5, "Ideas can be explored as branches."),),
        ),
    ),
    (
        ("options", "alternatives", "compare", "trade-offs"),
        Route(
            mode="tree",
            confidence=0.8,
            rationale="The task weighs options against each other.",
            complexity=0.5,
            alternatives=(("divergent", 0.4, "There may be options nobody has named."),),
        ),
    ),
    (
        ("complex system", "interconnected", "multi-step", "graph"),
        Route(
            mode="got",
            confidence=0.75,
            rationale="The task has many parts that depend on each other.",
            complexity=0.8,
            alternatives=(("tree", 0.6, "The parts may be taken one by one."),),
        ),
    ),
)

TOOLS = {
    "linear": "reasoning_linear",
    "tree": "reasoning_tree",
    "divergent": "reasoning_divergent",
    "reflection": "reasoning_reflection",
    "got": "reasoning_got_init",
}
"""The first tool of each mode."""

_WITHOUT_MODEL = frozenset({"linear", "got"})
"""Modes whose first step needs no model."""


class AutoParams(Params):
    """Arguments of `reasoning_auto`."""

    content: Text = Field(description="The task.")
    hints: list[AnyText] = Field(
        default_factory=list[AnyText], description="What may help with the choice."
    )
    session_id: Id | None = Field(default=None, description="The session it is for.")
    execute: bool = Field(default=False, description="Take the first step of the mode, too.")
    complexity: Number | None = clamped(
        0, 1, "Your own estimate; used where there is no model to ask.", default=None
    )


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

    OMIT_IF_NONE = frozenset({"original_invalid_mode", "executed"})

    recommended_mode: str
    confidence: float
    rationale: str
    complexity: float
    alternative_modes: list[AlternativeMode]
    fallback_used: bool
    original_invalid_mode: str | None = None
    executed: Executed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    route: Route
    unknown: str | None = None
    """The unknown mode that the model named."""


async def auto(params: AutoParams, call: CallContext) -> Outcome[AutoResult]:
    """Recommend a mode, and with `execute` take its first step."""
    choice = await _choose(params, call)
    route = choice.route
    executed, changes = await _begin(params, call, route.mode)
    if changes is None and params.session_id is not None:
        session = await call.new_or_open_session(params.session_id, "auto")
        changes = Changes(session=session) if session.version == 0 else None
    result = AutoResult(
        recommended_mode=route.mode,
        confidence=route.confidence,
        rationale=route.rationale,
        complexity=route.complexity,
        alternative_modes=[
            AlternativeMode(mode=mode, confidence=confidence, rationale=rationale)
            for mode, confidence, rationale in route.alternatives
        ],
        fallback_used=choice.unknown is not None,
        original_invalid_mode=choice.unknown,
        executed=executed,
        next=_next(params, route.mode) if executed is None else [],
    )
    return Outcome(result=result, changes=changes)


def _next(params: AutoParams, mode: str) -> list[Move]:
    arguments: dict[str, Any] = {"content": params.content}
    if params.session_id is not None:
        arguments["session_id"] = params.session_id
    return [move(TOOLS[mode], f"begin with the mode {mode}", **arguments)]


async def _choose(params: AutoParams, call: CallContext) -> _Choice:
    if (route := route_by_keywords(params.content)) is not None:
        return _Choice(route=route)
    if params.complexity is not None and call.is_host:
        return _Choice(route=route_by_complexity(params.complexity, "By the complexity you gave."))
    if call.is_host:
        guess = estimated_complexity(params.content)
        why = "No model can be asked: the complexity is estimated from the length and the parts."
        return _Choice(route=route_by_complexity(guess, why))
    hints = "".join(f"\n- {hint}" for hint in params.hints)
    user = params.content + (f"\n\nHints:{hints}" if hints else "")
    reply = await call.ask("auto", user, RouterReply)
    named = reply.recommended_mode.strip().lower()
    mode = named if named in MODES else "linear"
    route = Route(
        mode=mode,
        confidence=reply.confidence,
        rationale=reply.rationale,
        complexity=reply.complexity,
        alternatives=alternatives_for(mode, reply.complexity),
    )
    return _Choice(route=route, unknown=None if named in MODES else reply.recommended_mode)


async def _begin(
    params: AutoParams, call: CallContext, mode: str
) -> tuple[Executed | None, Changes | None]:
    """Take the first step, unless it is not requested or the caller has to write it."""
    if not params.execute or (call.is_host and mode not in _WITHOUT_MODEL):
        return None, None
    content, session = params.content, params.session_id
    outcome: Outcome[Result]
    match mode:
        case "tree":
            outcome = await tree(TreeParams(content=content, session_id=session), call)
        case "divergent":
            outcome = await divergent(DivergentParams(content=content, session_id=session), call)
        case "reflection":
            outcome = await reflection(ReflectionParams(content=content, session_id=session), call)
        case "got":
            outcome = await got_init(InitParams(content=content, session_id=session), call)
        case _:
            outcome = await linear(LinearParams(content=content, session_id=session), call)
    result = outcome.result.model_copy(update={"backend": call.completer.name})
    return Executed(tool=TOOLS[mode], result=result_data(result)), outcome.changes


def route_by_keywords(content: str) -> Route | None:
    """Return the mode that the length or a keyword of the task implies."""
    if len(content.encode()) < _SHORT_BYTES:
        return Route(
            mode="linear",
            confidence=0.9,
            rationale="The task is short: one step after the other suffices.",
            complexity=0.2,
        )
    lowered = content.lower()
    for words, route in _KEYWORDS:
        if any(word in lowered for word in words):
            return route
    return None


def route_by_complexity(complexity: float, rationale: str) -> Route:
    """Return the mode for a complexity."""
    mode = "linear" if complexity < 0.3 else "got" if complexity > 0.7 else "tree"
    return Route(
        mode=mode,
        confidence=0.6,
        rationale=rationale,
        complexity=complexity,
        alternatives=alternatives_for(mode, complexity),
    )


def estimated_complexity(content: str) -> float:
    """Estimate the complexity of a task from its length, questions and list items."""
    words = len(content.split())
    questions = content.count("?")
    parts = sum(line.lstrip()[:1] in {"-", "*"} for line in content.splitlines())
    return min(1.0, words / 200 + questions * 0.1 + parts * 0.05)


def alternatives_for(mode: str, complexity: float) -> tuple[tuple[str, float, str], ...]:
    """Return other modes that fit a complexity."""
    if complexity < 0.3:
        alternatives = (("linear", 0.7, "The task is simple."),)
    elif complexity > 0.7:
        alternatives = (
            ("got", 0.6, "The task is complex."),
            ("tree", 0.5, "The parts may be taken one by one."),
        )
    else:
        alternatives = (("tree", 0.5, "There may be more than one way."),)
    return tuple(alternative for alternative in alternatives if alternative[0] != mode)
