"""Looking at a whole session: how sure, how varied and how coherent it is, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from plait.reasoning.arguments import session_fault
from plait.reasoning.call_context import Outcome, Work, known_session
from plait.reasoning.modes.tree import ListParams
from plait.reasoning.results import Move, Result, move
from plait.reasoning.values import LOW_CONFIDENCE, Thought


class EvaluateResult(Result):
    """How a session stands."""

    session_id: str
    total_thoughts: int
    average_confidence: float
    mode_distribution: dict[str, int]
    coherence_score: float
    recommendation: str


async def evaluate(params: ListParams, work: Work) -> Outcome[EvaluateResult]:
    """Measure a session."""
    session = await known_session(work, params.session_id)
    thoughts = await work.store.get_session_thoughts(session.id)
    if not thoughts:
        raise session_fault("Session has no thoughts to evaluate")
    average = sum(thought.confidence for thought in thoughts) / len(thoughts)
    coherence = coherence_of(thoughts)
    weakest = min(thoughts, key=lambda thought: thought.confidence)
    text, step = _advice(average, coherence, weakest)
    result = EvaluateResult(
        session_id=session.id,
        total_thoughts=len(thoughts),
        average_confidence=average,
        mode_distribution=dict(Counter(thought.mode for thought in thoughts)),
        coherence_score=coherence,
        recommendation=text,
        next=[step],
    )
    return Outcome(result=result)


def coherence_of(thoughts: Sequence[Thought]) -> float:
    """Return how well thoughts hang together, from 0 to 1."""
    if len(thoughts) < 2:
        return 1.0
    linked = sum(thought.parent_id is not None for thought in thoughts[1:]) / (len(thoughts) - 1)
    steps = [1 - abs(one.confidence - other.confidence) for one, other in pairwise(thoughts)]
    return (linked + sum(steps) / len(steps)) / 2


def _advice(average: float, coherence: float, weakest: Thought) -> tuple[str, Move]:
    session = weakest.session_id
    look = move(
        "reasoning_reflection",
        f"the weakest thought has a confidence of {weakest.confidence:.2f}",
        session_id=session,
        thought_id=weakest.id,
    )
    if average < LOW_CONFIDENCE:
        return "Review the thoughts of low confidence, and strengthen or drop them.", look
    if coherence < 0.5:
        return "There may be logical gaps between thoughts: use reflection to close them.", look
    done = move("reasoning_session_conclude", "if the question is answered", session_id=session)
    return "The quality of the reasoning is acceptable.", done
