"""Backtracking: restore a checkpoint of a session, and continue in another direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from plait.reasoning.arguments import invalid_argument
from plait.reasoning.call_context import CallContext, Outcome
from plait.reasoning.context import BUDGET_TOKENS, estimated_tokens, truncated
from plait.reasoning.fields import Id, Number, Params, Text, clamped, optional
from plait.reasoning.model_replies import BacktrackReply
from plait.reasoning.restore import read_state, restore_changes
from plait.reasoning.results import Result, move
from plait.reasoning.values import Checkpoint, Session, StateSnapshot, Thought


class BacktrackParams(Params):
    """Arguments of `reasoning_backtrack`."""

    checkpoint_id: Id = Field(description="The state to come back to.")
    new_direction: Text | None = optional("Where to go instead.")
    session_id: Id | None = optional("The session of the checkpoint.")
    confidence: Number = clamped(0, 1, "How sure you are of the new way.", default=0.8)
    thought: Text | None = optional("The first step of the new way; then no model is asked.")


class BacktrackResult(Result):
    """The state that was restored, and the first step from it."""

    OMIT_IF_NONE = frozenset({"abandoned_branch_id"})

    thought_id: str
    session_id: str
    checkpoint_restored: str
    content: str
    confidence: float
    new_branch_id: str | None
    snapshot_id: str
    abandoned_branch_id: str | None = Field(
        default=None, description="The branch that holds what came after the checkpoint."
    )


async def backtrack(params: BacktrackParams, call: CallContext) -> Outcome[BacktrackResult]:
    """Restore a checkpoint; later thoughts are kept on an abandoned branch."""
    checkpoint = await call.store.get_checkpoint(params.checkpoint_id)
    if checkpoint is None:
        raise invalid_argument("checkpoint_id", f"Checkpoint not found: {params.checkpoint_id}")
    if params.session_id is not None and params.session_id != checkpoint.session_id:
        raise invalid_argument("session_id", "Session ID does not match checkpoint")
    session = await call.open_session(checkpoint.session_id)
    reply = await _first_step(params, call, session, checkpoint)
    snapshot = StateSnapshot(
        session_id=session.id,
        snapshot_type="branch",
        description=f"Backtrack to checkpoint: {checkpoint.name}",
        state_data=checkpoint.snapshot,
    )
    state = await read_state(call.store, session.id)
    changes, abandoned = restore_changes(session, state, checkpoint, by=snapshot.id)
    thought = Thought(
        session_id=session.id,
        content=reply.thought,
        confidence=max(reply.confidence, params.confidence),
        mode="backtracking",
        parent_id=_last_on_branch(checkpoint),
        branch_id=checkpoint.branch_id,
        metadata={"checkpoint_id": checkpoint.id, "new_direction": params.new_direction},
    )
    result = BacktrackResult(
        thought_id=thought.id,
        session_id=session.id,
        checkpoint_restored=checkpoint.id,
        content=thought.content,
        confidence=reply.confidence,
        new_branch_id=checkpoint.branch_id,
        snapshot_id=snapshot.id,
        abandoned_branch_id=abandoned.id if abandoned else None,
        next=[
            move("linear", "go on the new way", session_id=session.id),
            move("tree", "branch out from here", session_id=session.id),
        ],
    )
    changes = replace(changes, snapshots=(snapshot,), thoughts=(*changes.thoughts, thought))
    return Outcome(result=result, changes=changes)


def _last_on_branch(checkpoint: Checkpoint) -> str | None:
    """Return the thought after which the new direction starts."""
    thoughts: Sequence[Mapping[str, Any]] = checkpoint.snapshot.get("thoughts", ())
    ids = [thought["id"] for thought in thoughts if thought["branch_id"] == checkpoint.branch_id]
    return ids[-1] if ids else None


async def _first_step(
    params: BacktrackParams, call: CallContext, session: Session, checkpoint: Checkpoint
) -> BacktrackReply:
    own = params.thought or (params.new_direction if call.is_host else None)
    if own is not None:
        return BacktrackReply(thought=own, confidence=params.confidence)
    about = f"\nDescription: {checkpoint.description}" if checkpoint.description else ""
    direction = params.new_direction or "Explore an alternative to what was done after it."
    return await call.ask(
        "backtracking",
        f"Checkpoint: {checkpoint.name}{about}\nIts state:\n{_state_text(checkpoint)}\n\n"
        f"New direction: {direction}",
        BacktrackReply,
        session=session,
        parameter="thought",
        shape='"the first step of the new way"',
    )


def _state_text(checkpoint: Checkpoint) -> str:
    """Describe the state for a model: its last thoughts and active branches, within a budget."""
    lines: list[str] = []
    left = BUDGET_TOKENS
    for thought in reversed(checkpoint.snapshot.get("thoughts", ())):
        line = f"- [{thought['mode']}] {truncated(thought['content'], BUDGET_TOKENS // 4)}"
        left -= estimated_tokens(line)
        if left < 0:
            lines.append("- (earlier thoughts are left out)")
            break
        lines.append(line)
    branches = [
        f"- branch {branch['name']} ({branch['state']})"
        for branch in checkpoint.snapshot.get("branches", ())
        if branch["state"] == "active"
    ]
    return "\n".join([*reversed(lines), *branches[:20]]) or "(nothing yet)"
