"""Linear reasoning: one step that builds on the steps before it."""

from __future__ import annotations

from pydantic import Field

from plait.reasoning.arguments import Key, Number, Params, Text, ranged
from plait.reasoning.call_context import Outcome, Work, session_for, touched
from plait.reasoning.changes import Changes
from plait.reasoning.context import as_lines, context_of
from plait.reasoning.next_moves import after_thought
from plait.reasoning.replies import LinearReply
from plait.reasoning.results import Result
from plait.reasoning.values import Thought


class LinearParams(Params):
    """Arguments of `reasoning_linear`."""

    content: Text = Field(
        description="The thought to process; with the backend host, the next step itself."
    )
    session_id: Key | None = Field(
        default=None, description="The session to go on with; left out, a new one begins."
    )
    confidence: Number = ranged(0, 1, "How sure you are of it.", default=0.8)


class LinearResult(Result):
    """One more step."""

    thought_id: str
    session_id: str
    content: str
    confidence: float
    previous_thought: str | None


async def linear(params: LinearParams, work: Work) -> Outcome[LinearResult]:
    """Take one step."""
    session = await session_for(work, params.session_id, "linear")
    previous = await work.store.get_latest_thought(session.id)
    if work.hosted:
        reply = LinearReply(thought=params.content, confidence=params.confidence)
    else:
        earlier = await context_of(work.store, session.id)
        asked = f"Earlier thoughts:\n{as_lines(earlier)}\n\nProcess the next thought:\n"
        user = f"{asked if earlier else ''}{params.content}"
        reply = await work.ask("linear", user, LinearReply, session=session)
    thought = Thought(
        session_id=session.id,
        content=reply.thought,
        confidence=max(reply.confidence, params.confidence),
        mode="linear",
        metadata=reply.metadata or None,
    )
    repeated = await work.store.get_same_thought(session.id, thought.content)
    result = LinearResult(
        thought_id=thought.id,
        session_id=session.id,
        content=thought.content,
        confidence=reply.confidence,
        previous_thought=previous.id if previous else None,
        next=after_thought(thought, repeated),
    )
    changes = Changes(session=touched(session), thoughts=(thought,))
    return Outcome(result=result, changes=changes)
