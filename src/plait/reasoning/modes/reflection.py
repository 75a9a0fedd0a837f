"""Reflection: analyse and improve a thought in rounds, and evaluate a whole session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from pydantic import Field

from plait.errors import ThoughtNotFoundError
from plait.reasoning.arguments import SessionParams, invalid_argument, session_error, unknown_id
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.model_replies import ReflectionReply
from plait.reasoning.paths import Place, current_place, place_on
from plait.reasoning.prompts import PROMPTS, truncated
from plait.reasoning.results import Move, ResultPart, SessionResult, move
from plait.reasoning.values import LOW_CONFIDENCE, Changes, Session, Thought

_MAX_ANCESTORS = 10


class ReflectionParam(Params):
    """What the caller found out by itself."""

    analysis: Text
    strengths: list[AnyText] = Field(default_factory=list[AnyText])
    weaknesses: list[AnyText] = Field(default_factory=list[AnyText])
    recommendations: list[AnyText] = Field(default_factory=list[AnyText])
    quality_score: Number = clamped(0, 1, "How good the reasoning is.")
    improved_thought: AnyText | None = None


class ReflectionParams(Params):
    """Arguments of `reasoning_reflection`."""

    thought_id: Id | None = optional("The thought to examine.")
    content: Text | None = optional("A text to examine instead.")
    session_id: Id | None = optional("The session to go on with.")
    branch_id: Id | None = optional("The branch to put the thoughts on.")
    max_iterations: Integer = clamped(1, 5, "How often to examine and improve.", default=3)
    quality_threshold: Number = clamped(0, 1, "The quality at which to stop.", default=0.8)
    include_chain: bool = Field(default=False, description="Show what the thought came from.")
    reflection: ReflectionParam | None = optional("Your own examination; then no model is asked.")


class ImprovedThought(ResultPart):
    """The better text, as a thought."""

    thought_id: str
    content: str
    confidence: float


class ReflectionResult(SessionResult):
    """The findings about a thought, and its improved version."""

    OMIT_IF_NONE = frozenset({"branch_id"})

    reflection_thought_id: str
    original_thought_id: str | None
    analysis: str
    strengths: list[str]
    weaknesses: list[str]
    recommendations: list[str]
    quality_score: float
    improved_thought: ImprovedThought | None
    iterations_performed: int
    quality_improved: bool
    branch_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    reply: ReflectionReply
    best: float
    improved: str | None
    rounds: int


async def reflection(params: ReflectionParams, call: CallContext) -> Outcome[ReflectionResult]:
    """Examine a thought or a text, name strengths and weaknesses, and improve it until it is
    good enough.
    """  # noqa: D205 - a model reads the sentence as it is
    if params.thought_id is None and params.content is None:
        raise invalid_argument(
            "thought_id or content", "Either thought_id or content must be provided"
        )
    original = await _original(params, call)
    key = params.session_id or (original.session_id if original else None)
    session = await call.new_or_open_session(key, "reflection")
    if original is not None and original.session_id != session.id:
        text = "Thought does not belong to this session"
        raise unknown_id(ThoughtNotFoundError, text, original.id, "thought_id")
    place = await _place(params, call, session, original)
    text = original.content if original else params.content or ""
    finding = await _examine(params, call, session, original, text)
    reply = finding.reply
    lists = reply.model_dump(include={"strengths", "weaknesses", "recommendations"})
    original_id = original.id if original else None
    new = partial(
        Thought,
        session_id=session.id,
        confidence=reply.confidence,
        mode="reflection",
        branch_id=place.branch_id,
    )
    examined = {"examined": text} if original is None else {}
    analysis = new(
        content=reply.analysis,
        parent_id=original_id or place.tip_id,
        metadata={
            **lists,
            "quality_score": reply.quality,
            "iterations": finding.rounds,
            **examined,
        },
    )
    improved = None
    if finding.improved is not None:
        improved = new(
            content=finding.improved,
            parent_id=analysis.id,
            metadata={"is_improved_version": True, "original_thought_id": original_id},
        )
    result = ReflectionResult.of(
        reply,
        session_id=session.id,
        reflection_thought_id=analysis.id,
        original_thought_id=original_id,
        quality_score=reply.quality,
        improved_thought=ImprovedThought.of(improved, thought_id=improved.id) if improved else None,
        iterations_performed=finding.rounds,
        quality_improved=finding.best > (original.confidence if original else 0.5),
        branch_id=place.branch_id,
        next=_next_moves(session, reply, improved, params.quality_threshold),
    )
    thoughts = (analysis, improved) if improved else (analysis,)
    return Outcome(result, Changes(session=touched(session), thoughts=thoughts))


async def _place(
    params: ReflectionParams, call: CallContext, session: Session, original: Thought | None
) -> Place:
    """Return where the findings go: the branch that is named, else that of the thought."""
    if params.branch_id is not None:
        branch = await call.branch_of(session, params.branch_id)
        return await place_on(call.store, session, branch)
    if original is None:
        return await current_place(call.store, session)
    branch = await call.store.get_branch(original.branch_id) if original.branch_id else None
    return Place(branch=branch, tip=original)


async def _original(params: ReflectionParams, call: CallContext) -> Thought | None:
    if params.thought_id is None:
        return None
    thought = await call.store.get_thought(params.thought_id)
    if thought is None:
        key = params.thought_id
        raise unknown_id(ThoughtNotFoundError, f"Thought not found: {key}", key, "thought_id")
    return thought


async def _examine(
    params: ReflectionParams,
    call: CallContext,
    session: Session,
    original: Thought | None,
    text: str,
) -> _Finding:
    if params.reflection is not None:
        reply = ReflectionReply(
            **params.reflection.model_dump(), confidence=params.reflection.quality_score
        )
        improved = reply.improvement if reply.improvement != text else None
        return _Finding(reply=reply, best=reply.quality, improved=improved, rounds=1)
    chain = await _chain(call, original) if params.include_chain and original else ""
    return await _rounds(params, call, session, text, chain)


async def _rounds(
    params: ReflectionParams, call: CallContext, session: Session, text: str, chain: str
) -> _Finding:
    """Analyse and improve until the quality is sufficient or the rounds are used up."""
    history = f"It came from:\n{chain}\n\n" if chain else ""
    current, best, number, most = text, -1.0, 0, params.max_iterations
    while True:
        number += 1
        rule = f"\n- This is iteration {number} of {most}: look at what is still weak."
        reply = await call.ask(
            "reflection",
            f"{history}Examine this reasoning:\n{truncated(current)}",
            ReflectionReply,
            session=session,
            system=PROMPTS["reflection"] + (rule if number > 1 else ""),
            parameter="reflection",
            shape='{"analysis": "…", "strengths": ["…"], "weaknesses": ["…"], '
            '"recommendations": ["…"], "quality_score": 0.0–1.0, '
            '"improved_thought": "a better text, or left out"}',
        )
        beaten = reply.quality > best
        best = max(best, reply.quality)
        done = reply.quality >= params.quality_threshold or number == most
        if reply.improvement and (beaten or done):
            current = reply.improvement
        if done:
            improved = current if current != text else None
            return _Finding(reply=reply, best=best, improved=improved, rounds=number)


async def _chain(call: CallContext, thought: Thought) -> str:
    ancestors = await call.store.get_thought_chain(thought, _MAX_ANCESTORS)
    return "\n".join(
        f"- [{step.mode}] (confidence: {step.confidence:.2f}) {truncated(step.content, 400)}"
        for step in (*ancestors, thought)
    )


def _next_moves(
    session: Session, reply: ReflectionReply, improved: Thought | None, threshold: float
) -> list[Move]:
    if reply.quality < threshold and improved is not None:
        why = f"the quality, {reply.quality:.2f}, is below {threshold:g}: examine the better text"
        return [
            move("reflection", why, session.id, thought_id=improved.id),
            move("tree", "look for another way", session.id),
        ]
    return [
        move("linear", "go on from here", session.id),
        move("session_conclude", "if the question is answered", session.id),
    ]


class EvaluateResult(SessionResult):
    """The evaluation of a session."""

    total_thoughts: int
    average_confidence: float
    mode_distribution: dict[str, int]
    coherence_score: float
    recommendation: str


async def reflection_evaluate(params: SessionParams, call: CallContext) -> Outcome[EvaluateResult]:
    """Measure a whole session: confidence, modes and coherence.

    No model is asked.
    """
    session = await call.existing_session(params.session_id)
    thoughts = await call.store.get_session_thoughts(session.id)
    if not thoughts:
        raise session_error("Session has no thoughts to evaluate")
    average = sum(thought.confidence for thought in thoughts) / len(thoughts)
    coherence = coherence_of(thoughts)
    weakest = min(thoughts, key=lambda thought: thought.confidence)
    text, step = _advice(average, coherence, weakest)
    if session.status == "concluded":
        step = move("session_reopen", "to go on with it", session.id)
    result = EvaluateResult(
        session_id=session.id,
        total_thoughts=len(thoughts),
        average_confidence=average,
        mode_distribution=dict(Counter(thought.mode for thought in thoughts)),
        coherence_score=coherence,
        recommendation=text,
        next=[step],
    )
    return Outcome(result)


def coherence_of(thoughts: Sequence[Thought]) -> float:
    """Return how coherent thoughts are, from 0 to 1."""
    if len(thoughts) < 2:
        return 1.0
    linked = sum(thought.parent_id is not None for thought in thoughts[1:]) / (len(thoughts) - 1)
    steps = [1 - abs(left.confidence - right.confidence) for left, right in pairwise(thoughts)]
    return (linked + sum(steps) / len(steps)) / 2


def _advice(average: float, coherence: float, weakest: Thought) -> tuple[str, Move]:
    session = weakest.session_id
    why = f"the weakest thought has a confidence of {weakest.confidence:.2f}"
    look = move("reflection", why, session, thought_id=weakest.id)
    if average < LOW_CONFIDENCE:
        return "Review the thoughts of low confidence, and strengthen or drop them.", look
    if coherence < 0.5:
        return "There may be logical gaps between thoughts: use reflection to close them.", look
    done = move("session_conclude", "if the question is answered", session)
    return "The quality of the reasoning is acceptable.", done
