"""Divergent reasoning: several perspectives, and their synthesis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import Field

from plait.reasoning.arguments import invalid_argument
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.results import ResultPart, SessionResult, move, unless_none
from plait.reasoning.values import Changes, Thought

_CHALLENGE = (
    "\n- Name the assumptions behind the usual view, and take each of them away at least once."
)
_REBEL = "\n- At least one view must contradict what everybody believes here, and mean it."
MAX_CONTEXT_THOUGHTS = 5
"""Views should differ from what was thought so far, so little of it is shown."""


class PerspectiveParam(Params):
    """A point of view that the caller thought of."""

    thought: Text
    novelty: Number = clamped(0, 1, "How far it is from the usual view.")
    viability: Number = clamped(0, 1, "How well it would work.")
    assumptions_challenged: list[AnyText] = Field(default_factory=list[AnyText])


class DivergentReply(Params):
    """Several points of view, and what they show together."""

    perspectives: list[PerspectiveParam] = Field(min_length=1)
    synthesis: Text


class DivergentParams(Params):
    """Arguments of `reasoning_divergent`."""

    content: Text = Field(description="The matter to look at.")
    session_id: Id | None = optional("The session to go on with.")
    branch_id: Id | None = optional("The branch to put the thoughts on.")
    num_perspectives: Integer = clamped(2, 5, "How many points of view.", default=3)
    challenge_assumptions: bool = Field(default=False, description="Question what is assumed.")
    force_rebellion: bool = Field(default=False, description="Demand a contrary view.")
    confidence: Number = clamped(0, 1, "How sure you are of the content.", default=0.7)
    perspectives: list[PerspectiveParam] | None = optional(
        "Your own points of view, 2 to 5; then no model is asked."
    )
    synthesis: AnyText | None = optional("What your own points of view show together.")


class PerspectiveInfo(ResultPart):
    """A point of view."""

    thought_id: str
    content: str
    novelty: float
    viability: float
    assumptions_challenged: list[str]


class DivergentResult(SessionResult):
    """The points of view, and what they show together."""

    thought_id: str
    perspectives: list[PerspectiveInfo]
    synthesis: str
    synthesis_thought_id: str
    total_novelty_score: float
    most_viable_perspective: int
    most_novel_perspective: int
    branch_id: str | None = unless_none()


async def divergent(params: DivergentParams, call: CallContext) -> Outcome[DivergentResult]:
    """Look at a matter from 2 to 5 points of view that differ in kind, and say what they show
    together. Use it when the usual answers do not do.
    """  # noqa: D205 - a model reads the sentence as it is
    session = await call.new_or_open_session(params.session_id, "divergent")
    place = await call.place(session, params.branch_id)
    views: Sequence[PerspectiveParam]
    if params.perspectives is not None:
        views, together = params.perspectives, params.synthesis or ""
        if not 2 <= len(views) <= 5:
            raise invalid_argument("perspectives", "Between 2 and 5 perspectives are needed")
        if not together.strip():
            raise invalid_argument("synthesis", "Synthesis is required with your own perspectives")
    else:
        context = await call.context(session, place, title="Context", most=MAX_CONTEXT_THOUGHTS)
        rules = _CHALLENGE if params.challenge_assumptions else ""
        rules += _REBEL if params.force_rebellion else ""
        reply = await call.ask(
            "divergent",
            f"{context}Give {params.num_perspectives} perspectives on:\n{params.content}",
            DivergentReply,
            session=session,
            system=PROMPTS["divergent"] + rules,
            parameter="perspectives",
            shape='[{"thought": "…", "novelty": 0.0–1.0, "viability": 0.0–1.0, '
            f'"assumptions_challenged": ["…"]}}, …] ({params.num_perspectives} views that differ '
            'in kind), and synthesis="what they show together"',
        )
        # A model may answer with more than it was asked for.
        views, together = reply.perspectives[: params.num_perspectives], reply.synthesis
    new = partial(Thought, session_id=session.id, mode="divergent", branch_id=place.branch_id)
    main = new(
        content=params.content,
        confidence=params.confidence,
        is_judged="confidence" in params.model_fields_set,
        parent_id=place.tip_id,
    )
    thoughts = [
        new(
            content=view.thought,
            confidence=(view.novelty + view.viability) / 2,
            parent_id=main.id,
            metadata={
                "novelty": view.novelty,
                "viability": view.viability,
                "perspective_index": index,
                "assumptions_challenged": view.assumptions_challenged,
            },
        )
        for index, view in enumerate(views)
    ]
    synthesis = new(
        content=together,
        confidence=sum(thought.confidence for thought in thoughts) / len(thoughts),
        parent_id=main.id,
        metadata={"is_synthesis": True, "source_perspectives": len(thoughts)},
    )
    best = max(range(len(views)), key=lambda index: views[index].viability)
    examine = "examine what they show together"
    result = DivergentResult(
        session_id=session.id,
        thought_id=main.id,
        perspectives=[
            PerspectiveInfo.of(view, thought_id=thought.id, content=view.thought)
            for view, thought in zip(views, thoughts, strict=True)
        ],
        synthesis=together,
        synthesis_thought_id=synthesis.id,
        total_novelty_score=sum(view.novelty for view in views) / len(views),
        most_viable_perspective=best,
        most_novel_perspective=max(range(len(views)), key=lambda index: views[index].novelty),
        branch_id=place.branch_id,
        next=[
            move("tree", "work out the most viable view", session.id, content=views[best].thought),
            move("reflection", examine, session.id, thought_id=synthesis.id),
        ],
    )
    return Outcome(result, Changes(session=touched(session), thoughts=(main, *thoughts, synthesis)))
