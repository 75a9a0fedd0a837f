"""Linear reasoning: one step that builds on earlier steps, revises one, or branches off."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import Field

from plait.errors import BranchNotFoundError, ThoughtNotFoundError
from plait.reasoning.arguments import Adjustment, unknown_id
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.model_replies import LinearReply
from plait.reasoning.paths import Place, context_at, current_place, place_on
from plait.reasoning.results import Move, Result, move
from plait.reasoning.short_ids import position_in
from plait.reasoning.values import LOW_CONFIDENCE, Branch, Changes, Session, Thought

_MOST_THOUGHTS = 10_000


class LinearParams(Params):
    """Arguments of `reasoning_linear`."""

    EXTENSIONS = frozenset(
        {
            "thought_number",
            "total_thoughts",
            "next_thought_needed",
            "needs_more_thoughts",
            "revises_thought",
            "branch_from_thought",
            "branch_id",
        }
    )

    content: Text = Field(
        description="The thought to process; with the backend host, the next step itself."
    )
    session_id: Id | None = optional("The session to go on with; left out, a new one begins.")
    confidence: Number = clamped(0, 1, "How sure you are of it.", default=0.8)
    thought_number: Integer | None = clamped(
        1, _MOST_THOUGHTS, "Its number; else the next one.", default=None
    )
    total_thoughts: Integer | None = clamped(
        1, _MOST_THOUGHTS, "How many you expect in all; may change.", default=None
    )
    next_thought_needed: bool | None = optional("False when this is the last.")
    needs_more_thoughts: bool | None = optional("True when more than expected are needed.")
    revises_thought: Integer | Id | None = optional("The number or id of a thought it corrects.")
    branch_from_thought: Integer | Id | None = optional(
        "The number or id of a thought from which a new branch begins."
    )
    branch_id: Id | None = optional("The branch to go on with; for a new one, its name.")


class LinearResult(Result):
    """One more step."""

    OMIT_IF_NONE = LinearParams.EXTENSIONS

    thought_id: str
    session_id: str
    content: str
    confidence: float
    previous_thought: str | None
    thought_number: int | None = None
    total_thoughts: int | None = None
    next_thought_needed: bool | None = None
    needs_more_thoughts: bool | None = None
    revises_thought: str | None = None
    branch_from_thought: str | None = None
    branch_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Where a step is added, and what it refers to."""

    place: Place
    is_new_branch: bool = False
    revised: Thought | None = None


async def linear(params: LinearParams, call: CallContext) -> Outcome[LinearResult]:
    """Take one step of reasoning that builds on the earlier thoughts of the session.

    Use it for problems that one step after the other can solve.
    """
    session = await call.new_or_open_session(params.session_id, "linear")
    start = await _start(params, call, session)
    place = start.place
    reply, question = await _step(params, call, session, place)
    thought = Thought(
        session_id=session.id,
        content=reply.thought,
        confidence=max(reply.confidence, params.confidence),
        mode="linear",
        parent_id=place.tip_id,
        branch_id=place.branch_id,
        metadata={
            **(reply.metadata or {}),
            **({"question": question} if question else {}),
            **({"revises": start.revised.id} if start.revised else {}),
        }
        or None,
    )
    repeated = await call.store.get_same_thought(session.id, thought.content)
    result = LinearResult.of(
        thought,
        thought_id=thought.id,
        confidence=reply.confidence,
        previous_thought=place.tip_id,
        branch_id=None,
        next=_next_moves(thought, repeated, is_last=params.next_thought_needed is False),
    )
    changed = touched(session)
    if call.is_compact or LinearParams.EXTENSIONS & params.model_fields_set:
        result, changed = await _numbered(params, call, changed, start, result)
    revised = (_revised_by(start.revised, thought),) if start.revised else ()
    changes = Changes(
        session=changed,
        branches=(place.branch,) if start.is_new_branch and place.branch else (),
        thoughts=(*revised, thought),
    )
    return Outcome(result, changes)


async def _step(
    params: LinearParams, call: CallContext, session: Session, place: Place
) -> tuple[LinearReply, str | None]:
    """Return the step, and the question that a model answered with it."""
    if call.is_host:
        return LinearReply(thought=params.content, confidence=params.confidence), None
    context = await context_at(call.store, session, place, title="Earlier thoughts")
    lead = "Process the next thought:\n" if context else ""
    user = f"{context}{lead}{params.content}"
    return await call.ask("linear", user, LinearReply, session=session), params.content


async def _start(params: LinearParams, call: CallContext, session: Session) -> _Start:
    revised = await _thought(call, session, "revises_thought", params.revises_thought)
    source = await _thought(call, session, "branch_from_thought", params.branch_from_thought)
    branch = await _known_branch(params, call, session)
    if branch is not None:
        return _Start(place=await place_on(call.store, session, branch), revised=revised)
    if source is None:
        return _Start(place=await current_place(call.store, session), revised=revised)
    new = Branch(
        session_id=session.id,
        name=params.branch_id or f"From thought {source.position}",
        parent_branch_id=source.branch_id,
        confidence=params.confidence,
    )
    return _Start(place=Place(branch=new, tip=source), is_new_branch=True, revised=revised)


async def _thought(
    call: CallContext, session: Session, field: str, reference: int | str | None
) -> Thought | None:
    """Return the thought of the session with this number, short id or id."""
    if reference is None:
        return None
    key = str(reference)
    number = int(key) if key.isdecimal() and len(key) < 9 else position_in(key, "t")
    found = (
        [await call.store.get_thought(key)]
        if number is None
        else await call.store.find(Thought, limit=1, session_id=session.id, position=number)
    )
    for thought in found:
        if thought is not None and thought.session_id == session.id:
            return thought
    raise unknown_id(ThoughtNotFoundError, f"Thought not found in this session: {key}", key, field)


async def _known_branch(params: LinearParams, call: CallContext, session: Session) -> Branch | None:
    """Return the branch with this id or name; `None` for a new one, or none."""
    key = params.branch_id
    if key is None:
        return None
    for branch in await call.store.get_session_branches(session.id):
        if key in (branch.id, branch.name):
            return branch
    if params.branch_from_thought is None:
        text = f"Branch not found: {key}; a new one needs branch_from_thought"
        raise unknown_id(BranchNotFoundError, text, key)
    return None


def _revised_by(revised: Thought, thought: Thought) -> Thought:
    return replace(revised, metadata={**(revised.metadata or {}), "revised_by": thought.id})


async def _numbered(
    params: LinearParams, call: CallContext, session: Session, start: _Start, result: LinearResult
) -> tuple[LinearResult, Session]:
    """Add numbers and references to a result, and keep the estimate and the branch."""
    last = await call.store.find(Thought, newest=True, limit=1, session_id=session.id)
    number = (last[0].position or 0) + 1 if last else 1
    metadata = dict(session.metadata or {})
    total = params.total_thoughts or metadata.get("total_thoughts")
    if total is not None or params.needs_more_thoughts:
        total = max(total or 0, number + 1 if params.needs_more_thoughts else number)
        metadata["total_thoughts"] = total
    adjusted = {
        name: Adjustment(given=given, used=used)
        for name, given, used in (
            ("thought_number", params.thought_number, number),
            ("total_thoughts", params.total_thoughts, total),
        )
        if given is not None and used is not None and given != used
    }
    branch_id = start.place.branch_id
    needed = params.next_thought_needed
    result = result.model_copy(
        update={
            "thought_number": number,
            "total_thoughts": total,
            "next_thought_needed": needed
            if needed is not None
            else total is None or number < total,
            "needs_more_thoughts": params.needs_more_thoughts,
            "revises_thought": start.revised.id if start.revised else None,
            "branch_from_thought": start.place.tip_id if start.is_new_branch else None,
            "branch_id": branch_id,
            "adjusted": adjusted or None,
        }
    )
    active = branch_id if params.branch_id or start.is_new_branch else session.active_branch_id
    return result, replace(session, metadata=metadata or None, active_branch_id=active)


def _next_moves(thought: Thought, repeated: Thought | None, *, is_last: bool) -> list[Move]:
    session = thought.session_id
    conclude = move("session_conclude", "if the question is answered", session)
    if is_last:
        return [conclude]
    moves: list[Move] = []
    if repeated is not None:
        earlier = f"thought {repeated.position}" if repeated.position else "an earlier thought"
        why = f"this says the same as {earlier} ({repeated.id}): look for other ways"
        moves.append(move("tree", why, session))
    if thought.confidence < LOW_CONFIDENCE:
        why = f"the confidence is only {thought.confidence:.2f}: find out what is weak"
        moves.append(move("reflection", why, session, thought_id=thought.id))
    moves.append(move("linear", "take the next step", session))
    moves.append(conclude)
    return moves
