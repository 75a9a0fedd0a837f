"""Linear reasoning: one step that builds on earlier steps, revises one, or branches off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from plait.errors import BranchNotFoundError
from plait.reasoning.arguments import position_in, unknown_id
from plait.reasoning.call_context import CallContext, Outcome, Place, touched
from plait.reasoning.fields import Adjustment, Id, Integer, Number, Params, Text, clamped, optional
from plait.reasoning.results import Result, move, unless_none
from plait.reasoning.values import LOW_CONFIDENCE, Branch, Changes, Session, Thought

MAX_THOUGHTS = 10_000
"""Numbers above it are mistakes."""


class LinearParams(Params):
    """Arguments of `reasoning_linear`."""

    EXTENSIONS = frozenset(
        {"thought_number", "total_thoughts", "next_thought_needed", "needs_more_thoughts"}
        | {"revises_thought", "branch_from_thought", "branch_id"}
    )

    content: Text = Field(
        description="The thought to process; with the backend host, the next step itself."
    )
    session_id: Id | None = optional("The session to go on with; left out, a new one begins.")
    confidence: Number = clamped(0, 1, "How sure you are of it.", default=0.8)
    thought_number: Integer | None = clamped(
        1, MAX_THOUGHTS, "Its number; else the next one.", default=None
    )
    total_thoughts: Integer | None = clamped(
        1, MAX_THOUGHTS, "How many you expect in all; may change.", default=None
    )
    next_thought_needed: bool | None = optional("False when this is the last.")
    needs_more_thoughts: bool | None = optional("True when more than expected are needed.")
    revises_thought: Integer | Id | None = optional("The number or id of a thought it corrects.")
    branch_from_thought: Integer | Id | None = optional(
        "The number or id of a thought from which a new branch begins."
    )
    branch_id: Id | None = optional("The branch to go on with; for a new one, its name.")


class LinearReply(Params):
    """The next step."""

    thought: Text
    confidence: Number = clamped(0, 1, "How sure it is.", default=0.8)
    metadata: dict[str, Any] | None = None


class LinearResult(Result):
    """One more step."""

    thought_id: str
    session_id: str
    content: str
    confidence: float
    previous_thought: str | None
    thought_number: int | None = unless_none()
    total_thoughts: int | None = unless_none()
    next_thought_needed: bool | None = unless_none()
    needs_more_thoughts: bool | None = unless_none()
    revises_thought: str | None = unless_none()
    branch_from_thought: str | None = unless_none()
    branch_id: str | None = unless_none()


async def linear(params: LinearParams, call: CallContext) -> Outcome[LinearResult]:
    """Take one step of reasoning that builds on the earlier thoughts of the session.

    Use it for problems that one step after the other can solve.
    """
    session = await call.new_or_open_session(params.session_id, "linear")
    revised = await _thought(call, session, "revises_thought", params.revises_thought)
    source = await _thought(call, session, "branch_from_thought", params.branch_from_thought)
    place, is_new_branch = await _place(params, call, session, source)
    question = None
    if call.is_host:
        reply, given = LinearReply(thought=params.content, confidence=params.confidence), set[str]()
    else:
        context = await call.context(session, place, title="Earlier thoughts")
        lead = "Process the next thought:\n" if context else ""
        user = f"{context}{lead}{params.content}"
        reply = await call.ask("linear", user, LinearReply, session=session)
        question, given = params.content, reply.model_fields_set
    metadata = dict(reply.metadata or {})
    if question:
        metadata["question"] = question
    if revised:
        metadata["revises"] = revised.id
    thought = Thought(
        session_id=session.id,
        content=reply.thought,
        confidence=max(reply.confidence, params.confidence),
        is_judged="confidence" in params.model_fields_set | given,
        mode="linear",
        parent_id=place.tip_id,
        branch_id=place.branch_id,
        metadata=metadata or None,
    )
    conclude = move("session_conclude", "if the question is answered", session.id)
    steps = [move("linear", "take the next step", session.id), conclude]
    if thought.is_judged and thought.confidence < LOW_CONFIDENCE:
        why = f"the confidence is only {thought.confidence:.2f}: find out what is weak"
        steps.insert(0, move("reflection", why, session.id, thought_id=thought.id))
    if (same := await call.store.get_same_thought(session.id, thought.content)) is not None:
        earlier = f"thought {same.position}" if same.position else "an earlier thought"
        why = f"this says the same as {earlier} ({same.id}): look for other ways"
        steps.insert(0, move("tree", why, session.id))
    result = LinearResult.of(
        thought,
        thought_id=thought.id,
        confidence=reply.confidence,
        previous_thought=place.tip_id,
        branch_id=None,
        next=[conclude] if params.next_thought_needed is False else steps,
    )
    session = touched(session)
    if call.is_compact or LinearParams.EXTENSIONS & params.model_fields_set:
        update, session = await _numbers(params, call, session, place, is_new=is_new_branch)
        update["revises_thought"] = revised.id if revised else None
        result = result.model_copy(update=update)
    thoughts = [thought]
    if revised is not None:
        mark = {**(revised.metadata or {}), "revised_by": thought.id}
        thoughts.insert(0, replace(revised, metadata=mark))
    branches = (place.branch,) if is_new_branch and place.branch else ()
    return Outcome(result, Changes(session=session, branches=branches, thoughts=(*thoughts,)))


async def _thought(
    call: CallContext, session: Session, field: str, reference: int | str | None
) -> Thought | None:
    """Return the thought of the session with this number, short id or id."""
    if reference is None:
        return None
    key = str(reference)
    number = int(key) if key.isdecimal() and len(key) < 9 else position_in(key, "t")
    if number is not None:
        found = await call.store.find(Thought, limit=1, session_id=session.id, position=number)
        key = found[0].id if found else key
    return await call.thought_of(session, key, field)


async def _place(
    params: LinearParams, call: CallContext, session: Session, source: Thought | None
) -> tuple[Place, bool]:
    """Return where the step is added, and whether a new branch begins there."""
    if (key := params.branch_id) is not None:
        for branch in await call.store.get_session_branches(session.id):
            if key in (branch.id, branch.name):
                return await call.place_on(session, branch), False
        if source is None:
            text = f"Branch not found: {key}; a new one needs branch_from_thought"
            raise unknown_id(BranchNotFoundError, text, key)
    if source is None:
        return await call.place(session, None), False
    new = Branch(
        session_id=session.id,
        name=key or f"From thought {source.position}",
        parent_branch_id=source.branch_id,
        confidence=params.confidence,
        is_judged="confidence" in params.model_fields_set,
    )
    return Place(branch=new, tip=source), True


async def _numbers(
    params: LinearParams, call: CallContext, session: Session, place: Place, *, is_new: bool
) -> tuple[dict[str, object], Session]:
    """Return the numbers and references of a result; the session keeps the estimate and branch."""
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
    needed = params.next_thought_needed
    if needed is None:
        needed = total is None or number < total
    update: dict[str, object] = {
        "thought_number": number,
        "total_thoughts": total,
        "next_thought_needed": needed,
        "needs_more_thoughts": params.needs_more_thoughts,
        "branch_from_thought": place.tip_id if is_new else None,
        "branch_id": place.branch_id,
        "adjusted": adjusted or None,
    }
    if params.branch_id or is_new:
        session = replace(session, active_branch_id=place.branch_id)
    return update, replace(session, metadata=metadata or None)
