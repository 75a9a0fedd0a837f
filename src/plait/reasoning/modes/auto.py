"""Choosing a mode: by the words of the task, by a model, or by its size; and running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from plait.reasoning.arguments import Key, Number, Params, Text, Words, ranged
from plait.reasoning.call_context import Outcome, Work, session_for
from plait.reasoning.modes.divergent import DivergentParams, divergent
from plait.reasoning.modes.got_graph import InitParams, got_init
from plait.reasoning.modes.linear import LinearParams, linear
from plait.reasoning.modes.reflection import ReflectionParams, reflection
from plait.reasoning.modes.routing import (
    MODES,
    Route,
    alternatives_for,
    estimated_complexity,
    route_by_complexity,
    route_by_words,
)
from plait.reasoning.modes.tree import TreeParams, tree
from plait.reasoning.replies import RouterReply
from plait.reasoning.results import Move, Result, Shown, data_of, move
from plait.reasoning.values import Changes

TOOLS = {
    "linear": "reasoning_linear",
    "tree": "reasoning_tree",
    "divergent": "reasoning_divergent",
    "reflection": "reasoning_reflection",
    "got": "reasoning_got_init",
}
"""The tool with which each mode begins."""

_WITHOUT_MODEL = frozenset({"linear", "got"})
"""Modes whose first step needs nobody but the caller."""


class AutoParams(Params):
    """Arguments of `reasoning_auto`."""

    content: Text = Field(description="The task.")
    hints: list[Words] = Field(
        default_factory=list[Words], description="What may help with the choice."
    )
    session_id: Key | None = Field(default=None, description="The session it is for.")
    execute: bool = Field(default=False, description="Take the first step of the mode, too.")
    complexity: Number | None = ranged(
        0, 1, "Your own estimate; used where there is no model to ask.", default=None
    )


class AlternativeMode(Shown):
    """A mode that may do as well."""

    mode: str
    confidence: float
    rationale: str


class Executed(Shown):
    """The first step that was taken."""

    tool: str
    result: dict[str, Any]


class AutoResult(Result):
    """The mode to use."""

    OMITTED = frozenset({"original_invalid_mode", "executed"})

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
    """The name the model gave, where it is of no mode."""


async def auto(params: AutoParams, work: Work) -> Outcome[AutoResult]:
    """Recommend a mode, and take its first step if that is wanted."""
    choice = await _choose(params, work)
    route = choice.route
    executed, changes = await _begin(params, work, route.mode)
    if changes is None and params.session_id is not None:
        session = await session_for(work, params.session_id, "auto")
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


async def _choose(params: AutoParams, work: Work) -> _Choice:
    if (found := route_by_words(params.content)) is not None:
        return _Choice(route=found)
    if params.complexity is not None and work.hosted:
        return _Choice(route=route_by_complexity(params.complexity, "By the complexity you gave."))
    if work.hosted:
        guess = estimated_complexity(params.content)
        why = "No model can be asked: the complexity is estimated from the length and the parts."
        return _Choice(route=route_by_complexity(guess, why))
    hints = "".join(f"\n- {hint}" for hint in params.hints)
    user = params.content + (f"\n\nHints:{hints}" if hints else "")
    reply = await work.ask("auto", user, RouterReply)
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
    params: AutoParams, work: Work, mode: str
) -> tuple[Executed | None, Changes | None]:
    """Take the first step, unless the caller has to write it."""
    if not params.execute or (work.hosted and mode not in _WITHOUT_MODEL):
        return None, None
    content, session = params.content, params.session_id
    outcome: Outcome[Result]
    match mode:
        case "tree":
            outcome = await tree(TreeParams(content=content, session_id=session), work)
        case "divergent":
            outcome = await divergent(DivergentParams(content=content, session_id=session), work)
        case "reflection":
            outcome = await reflection(ReflectionParams(content=content, session_id=session), work)
        case "got":
            outcome = await got_init(InitParams(content=content, session_id=session), work)
        case _:
            outcome = await linear(LinearParams(content=content, session_id=session), work)
    shown = outcome.result.model_copy(update={"backend": work.completer.name})
    return Executed(tool=TOOLS[mode], result=data_of(shown)), outcome.changes
