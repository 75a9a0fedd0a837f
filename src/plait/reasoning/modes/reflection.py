"""Reflection: examine a thought, improve it, and look at the improvement again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from plait.reasoning.arguments import (
    Key,
    Number,
    Params,
    Text,
    Whole,
    Words,
    invalid,
    ranged,
    supply,
)
from plait.reasoning.call_context import Outcome, Work, session_for, touched
from plait.reasoning.context import shortened
from plait.reasoning.modes.tree import branch_of
from plait.reasoning.replies import ReflectionReply
from plait.reasoning.results import Move, Result, Shown, move
from plait.reasoning.values import Changes, Session, Thought

_MOST_ANCESTORS = 10


class ReflectionParam(Params):
    """What the caller found out by itself."""

    analysis: Text
    strengths: list[Words] = Field(default_factory=list[Words])
    weaknesses: list[Words] = Field(default_factory=list[Words])
    recommendations: list[Words] = Field(default_factory=list[Words])
    quality_score: Number = ranged(0, 1, "How good the reasoning is.")
    improved_thought: Words | None = None


class ReflectionParams(Params):
    """Arguments of `reasoning_reflection`."""

    thought_id: Key | None = Field(default=None, description="The thought to examine.")
    content: Text | None = Field(default=None, description="A text to examine instead.")
    session_id: Key | None = Field(default=None, description="The session to go on with.")
    branch_id: Key | None = Field(default=None, description="The branch to put the thoughts on.")
    max_iterations: Whole = ranged(1, 5, "How often to examine and improve.", default=3)
    quality_threshold: Number = ranged(0, 1, "The quality at which to stop.", default=0.8)
    include_chain: bool = Field(default=False, description="Show what the thought came from.")
    reflection: ReflectionParam | None = Field(
        default=None, description="Your own examination; then no model is asked."
    )


class ImprovedThought(Shown):
    """The better text, as a thought."""

    thought_id: str
    content: str
    confidence: float


class ReflectionResult(Result):
    """What was found."""

    OMITTED = frozenset({"branch_id"})

    session_id: str
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
    """What the rounds came to."""

    reply: ReflectionReply
    best: float
    improved: str | None
    rounds: int


async def reflection(params: ReflectionParams, work: Work) -> Outcome[ReflectionResult]:
    """Examine a thought or a text."""
    if params.thought_id is None and params.content is None:
        raise invalid("thought_id or content", "Either thought_id or content must be provided")
    original = await _original(params, work)
    key = params.session_id or (original.session_id if original else None)
    session = await session_for(work, key, "reflection")
    if original is not None and original.session_id != session.id:
        raise invalid("thought_id", "Thought does not belong to this session")
    if params.branch_id is not None:
        await branch_of(work, session, params.branch_id)
    text = original.content if original else params.content or ""
    found = await _examine(params, work, session, original, text)
    reply = found.reply
    noted = Thought(
        session_id=session.id,
        content=reply.analysis,
        confidence=reply.confidence,
        mode="reflection",
        parent_id=original.id if original else None,
        branch_id=params.branch_id,
        metadata={
            "strengths": reply.strengths,
            "weaknesses": reply.weaknesses,
            "recommendations": reply.recommendations,
            "quality_score": reply.quality,
            "iterations": found.rounds,
        },
    )
    better = _better(params, session, original, noted, found)
    result = ReflectionResult(
        session_id=session.id,
        reflection_thought_id=noted.id,
        original_thought_id=original.id if original else None,
        analysis=reply.analysis,
        strengths=reply.strengths,
        weaknesses=reply.weaknesses,
        recommendations=reply.recommendations,
        quality_score=reply.quality,
        improved_thought=ImprovedThought(
            thought_id=better.id, content=better.content, confidence=better.confidence
        )
        if better
        else None,
        iterations_performed=found.rounds,
        quality_improved=found.best > (original.confidence if original else 0.5),
        branch_id=params.branch_id,
        next=_after(session, reply, better, params.quality_threshold),
    )
    thoughts = (noted, better) if better else (noted,)
    return Outcome(result=result, changes=Changes(session=touched(session), thoughts=thoughts))


async def _original(params: ReflectionParams, work: Work) -> Thought | None:
    if params.thought_id is None:
        return None
    found = await work.store.get_thought(params.thought_id)
    if found is None:
        raise invalid("thought_id", f"Thought not found: {params.thought_id}")
    return found


def _better(
    params: ReflectionParams,
    session: Session,
    original: Thought | None,
    noted: Thought,
    found: _Finding,
) -> Thought | None:
    if found.improved is None:
        return None
    source = original.id if original else None
    return Thought(
        session_id=session.id,
        content=found.improved,
        confidence=found.reply.confidence,
        mode="reflection",
        parent_id=noted.id,
        branch_id=params.branch_id,
        metadata={"is_improved_version": True, "original_thought_id": source},
    )


async def _examine(
    params: ReflectionParams, work: Work, session: Session, original: Thought | None, text: str
) -> _Finding:
    if params.reflection is not None:
        reply = ReflectionReply(
            **params.reflection.model_dump(), confidence=params.reflection.quality_score
        )
        improved = reply.improvement if reply.improvement != text else None
        return _Finding(reply=reply, best=reply.quality, improved=improved, rounds=1)
    if work.hosted:
        shape = (
            '{"analysis": "…", "strengths": ["…"], "weaknesses": ["…"], "recommendations": ["…"], '
            '"quality_score": 0.0–1.0, "improved_thought": "a better text, or left out"}'
        )
        raise supply("reflection", shape)
    chain = await _chain(work, original) if params.include_chain and original else ""
    return await _rounds(params, work, session, text, chain)


async def _rounds(
    params: ReflectionParams, work: Work, session: Session, text: str, chain: str
) -> _Finding:
    """Examine, improve, and examine again, until it is good or the rounds are used up."""
    current, best, number = text, -1.0, 0
    while True:
        number += 1
        reply = await _ask(work, session, current, chain, number, params.max_iterations)
        beaten = reply.quality > best
        best = max(best, reply.quality)
        done = reply.quality >= params.quality_threshold or number == params.max_iterations
        if reply.improvement and (beaten or done):
            current = reply.improvement
        if done:
            improved = current if current != text else None
            return _Finding(reply=reply, best=best, improved=improved, rounds=number)


async def _ask(
    work: Work, session: Session, text: str, chain: str, number: int, most: int
) -> ReflectionReply:
    past = f"It came from:\n{chain}\n\n" if chain else ""
    user = f"{past}Examine this reasoning:\n{shortened(text)}"

    def numbered(system: str) -> str:
        if number == 1:
            return system
        return f"{system}\n- This is iteration {number} of {most}: look at what is still weak."

    return await work.ask("reflection", user, ReflectionReply, session=session, system=numbered)


async def _chain(work: Work, thought: Thought) -> str:
    ancestors = await work.store.get_thought_chain(thought, _MOST_ANCESTORS)
    shown: Sequence[Thought] = (*ancestors, thought)
    return "\n".join(
        f"- [{one.mode}] (confidence: {one.confidence:.2f}) {shortened(one.content, 400)}"
        for one in shown
    )


def _after(
    session: Session, reply: ReflectionReply, better: Thought | None, threshold: float
) -> list[Move]:
    if reply.quality < threshold and better is not None:
        why = f"the quality, {reply.quality:.2f}, is below {threshold:g}: examine the better text"
        return [
            move("reasoning_reflection", why, session_id=session.id, thought_id=better.id),
            move("reasoning_tree", "look for another way", session_id=session.id),
        ]
    return [
        move("reasoning_linear", "go on from here", session_id=session.id),
        move("reasoning_session_conclude", "if the question is answered", session_id=session.id),
    ]
