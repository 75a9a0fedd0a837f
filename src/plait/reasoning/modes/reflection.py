"""Reflection: analyse and improve a thought in rounds, and evaluate a whole session."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise

from pydantic import Field

from plait.errors import ThoughtNotFoundError
from plait.reasoning.arguments import SessionParams, invalid_argument, session_error, unknown_id
from plait.reasoning.call_context import CallContext, Outcome, Place, touched
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.prompts import PROMPTS, truncated
from plait.reasoning.results import ResultPart, SessionResult, move, unless_none
from plait.reasoning.values import LOW_CONFIDENCE, Changes, Session, Thought

MAX_ANCESTORS = 10
"""How many steps a prompt shows of those a thought came from."""


class ReflectionParam(Params):
    """What the caller found out by itself."""

    analysis: Text
    strengths: list[AnyText] = Field(default_factory=list[AnyText])
    weaknesses: list[AnyText] = Field(default_factory=list[AnyText])
    recommendations: list[AnyText] = Field(default_factory=list[AnyText])
    quality_score: Number = clamped(0, 1, "How good the reasoning is.")
    improved_thought: AnyText | None = None


class ReflectionReply(Params):
    """What a model found out."""

    analysis: Text
    strengths: list[AnyText] = Field(default_factory=list[AnyText])
    weaknesses: list[AnyText] = Field(default_factory=list[AnyText])
    recommendations: list[AnyText] = Field(default_factory=list[AnyText])
    improved_thought: AnyText | None = None
    confidence: Number = clamped(0, 1, "How sure it is.", default=0.8)
    quality_score: Number | None = clamped(0, 1, "How good the reasoning is.", default=None)

    @property
    def quality(self) -> float:
        """How good the reasoning was."""
        return self.confidence if self.quality_score is None else self.quality_score

    @property
    def improvement(self) -> str | None:
        """The better text, if there is one."""
        return (self.improved_thought or "").strip() or None


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
    branch_id: str | None = unless_none()


async def reflection(params: ReflectionParams, call: CallContext) -> Outcome[ReflectionResult]:
    """Examine a thought or a text, name strengths and weaknesses, and improve it until it is
    good enough.
    """  # noqa: D205 - a model reads the sentence as it is
    if params.thought_id is None and params.content is None:
        raise invalid_argument(
            "thought_id or content", "Either thought_id or content must be provided"
        )
    original = None
    if (key := params.thought_id) is not None:
        original = await call.store.get_thought(key)
        if original is None:
            raise unknown_id(ThoughtNotFoundError, f"Thought not found: {key}", key, "thought_id")
    session = await call.new_or_open_session(
        params.session_id or (original.session_id if original else None), "reflection"
    )
    if original is not None and original.session_id != session.id:
        text = "Thought does not belong to this session"
        raise unknown_id(ThoughtNotFoundError, text, original.id, "thought_id")
    if original is None or params.branch_id is not None:
        place = await call.place(session, params.branch_id)
    else:
        branch = await call.store.get_branch(original.branch_id) if original.branch_id else None
        place = Place(branch=branch, tip=original)
    text = original.content if original else params.content or ""
    reply, best, improvement, rounds = await _examine(params, call, session, original, text)
    original_id = original.id if original else None
    new = partial(
        Thought,
        session_id=session.id,
        confidence=reply.confidence,
        is_judged=not reply.model_fields_set.isdisjoint({"confidence", "quality_score"}),
        mode="reflection",
        branch_id=place.branch_id,
    )
    analysis = new(
        content=reply.analysis,
        parent_id=original_id or place.tip_id,
        metadata={
            **reply.model_dump(include={"strengths", "weaknesses", "recommendations"}),
            "quality_score": reply.quality,
            "iterations": rounds,
            **({"examined": text} if original is None else {}),
        },
    )
    improved = None
    if improvement is not None:
        improved = new(
            content=improvement,
            parent_id=analysis.id,
            metadata={"is_improved_version": True, "original_thought_id": original_id},
        )
    if reply.quality < params.quality_threshold and improved is not None:
        bound = f"{params.quality_threshold:g}"
        why = f"the quality, {reply.quality:.2f}, is below {bound}: examine the better text"
        steps = [
            move("reflection", why, session.id, thought_id=improved.id),
            move("tree", "look for another way", session.id),
        ]
    else:
        steps = [
            move("linear", "go on from here", session.id),
            move("session_conclude", "if the question is answered", session.id),
        ]
    result = ReflectionResult.of(
        reply,
        session_id=session.id,
        reflection_thought_id=analysis.id,
        original_thought_id=original_id,
        quality_score=reply.quality,
        improved_thought=ImprovedThought.of(improved, thought_id=improved.id) if improved else None,
        iterations_performed=rounds,
        quality_improved=best > (original.confidence if original else 0.5),
        branch_id=place.branch_id,
        next=steps,
    )
    thoughts = (analysis, improved) if improved else (analysis,)
    return Outcome(result, Changes(session=touched(session), thoughts=thoughts))


async def _examine(
    params: ReflectionParams,
    call: CallContext,
    session: Session,
    original: Thought | None,
    text: str,
) -> tuple[ReflectionReply, float, str | None, int]:
    """Analyse and improve until the quality is sufficient or the rounds are used up.

    Returns the last findings, the best quality, the better text if there is one, and the rounds.
    """
    if (own := params.reflection) is not None:
        reply = ReflectionReply(**own.model_dump(), confidence=own.quality_score)
        improved = reply.improvement if reply.improvement != text else None
        return reply, reply.quality, improved, 1
    history = ""
    if params.include_chain and original is not None:
        ancestors = await call.store.get_thought_chain(original, MAX_ANCESTORS)
        steps = "\n".join(
            f"- [{step.mode}] (confidence: {step.confidence:.2f}) {truncated(step.content, 400)}"
            for step in (*ancestors, original)
        )
        history = f"It came from:\n{steps}\n\n"
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
        is_better = reply.quality > best
        best = max(best, reply.quality)
        is_done = reply.quality >= params.quality_threshold or number == most
        if reply.improvement and (is_better or is_done):
            current = reply.improvement
        if is_done:
            return reply, best, current if current != text else None, number


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
    # Coherent thoughts follow from one another, and do not jump in confidence.
    coherence = 1.0
    if len(thoughts) > 1:
        pairs = len(thoughts) - 1
        linked = sum(thought.parent_id is not None for thought in thoughts[1:])
        near = sum(1 - abs(one.confidence - two.confidence) for one, two in pairwise(thoughts))
        coherence = (linked / pairs + near / pairs) / 2
    judged = [thought for thought in thoughts if thought.is_judged]
    weakest = min(judged or thoughts, key=lambda thought: thought.confidence)
    why = f"the weakest thought has a confidence of {weakest.confidence:.2f}"
    step = move("reflection", why, session.id, thought_id=weakest.id)
    if not judged:
        text = "The confidences are defaults that nobody gave: say how sure you are of each step."
        step = move("linear", "take the next step, with your confidence", session.id)
    elif sum(thought.confidence for thought in judged) / len(judged) < LOW_CONFIDENCE:
        text = "Review the thoughts of low confidence, and strengthen or drop them."
    elif coherence < 0.5:
        text = "There may be logical gaps between thoughts: use reflection to close them."
    else:
        text = "The quality of the reasoning is acceptable."
        step = move("session_conclude", "if the question is answered", session.id)
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
