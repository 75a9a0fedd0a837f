"""Linear reasoning: one step that builds on earlier steps."""

from __future__ import annotations

from pydantic import Field

from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import Id, Number, Params, Text, clamped, optional
from plait.reasoning.model_replies import LinearReply
from plait.reasoning.prompts import as_lines, recent_context
from plait.reasoning.results import Move, Result, move
from plait.reasoning.values import LOW_CONFIDENCE, Changes, Thought


class LinearParams(Params):
    """Arguments of `reasoning_linear`."""

    content: Text = Field(
        description="The thought to process; with the backend host, the next step itself."
    )
    session_id: Id | None = optional("The session to go on with; left out, a new one begins.")
    confidence: Number = clamped(0, 1, "How sure you are of it.", default=0.8)


class LinearResult(Result):
    """One more step."""

    thought_id: str
    session_id: str
    content: str
    confidence: float
    previous_thought: str | None


async def linear(params: LinearParams, call: CallContext) -> Outcome[LinearResult]:
    """Take one step of reasoning that builds on the earlier thoughts of the session.

    Use it for problems that one step after the other can solve.
    """
    session = await call.new_or_open_session(params.session_id, "linear")
    previous = await call.store.get_latest_thought(session.id)
    if call.is_host:
        reply = LinearReply(thought=params.content, confidence=params.confidence)
    else:
        thoughts = await recent_context(call.store, session.id)
        context = f"Earlier thoughts:\n{as_lines(thoughts)}\n\nProcess the next thought:\n"
        user = f"{context if thoughts else ''}{params.content}"
        reply = await call.ask("linear", user, LinearReply, session=session)
    thought = Thought(
        session_id=session.id,
        content=reply.thought,
        confidence=max(reply.confidence, params.confidence),
        mode="linear",
        metadata=reply.metadata or None,
    )
    repeated = await call.store.get_same_thought(session.id, thought.content)
    result = LinearResult.of(
        thought,
        thought_id=thought.id,
        confidence=reply.confidence,
        previous_thought=previous.id if previous else None,
        next=_next_moves(thought, repeated),
    )
    return Outcome(result, Changes(session=touched(session), thoughts=(thought,)))


def _next_moves(thought: Thought, repeated: Thought | None) -> list[Move]:
    session = thought.session_id
    moves: list[Move] = []
    if repeated is not None:
        earlier = f"thought {repeated.position}" if repeated.position else "an earlier thought"
        why = f"this says the same as {earlier} ({repeated.id}): look for other ways"
        moves.append(move("tree", why, session))
    if thought.confidence < LOW_CONFIDENCE:
        why = f"the confidence is only {thought.confidence:.2f}: find out what is weak"
        moves.append(move("reflection", why, session, thought_id=thought.id))
    moves.append(move("linear", "take the next step", session))
    moves.append(move("session_conclude", "if the question is answered", session))
    return moves
