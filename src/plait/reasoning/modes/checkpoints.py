"""Checkpoints: named states of a session."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from plait.reasoning.arguments import SessionParams
from plait.reasoning.call_context import CallContext, Outcome, touched
from plait.reasoning.fields import AnyText, Text
from plait.reasoning.results import ListResult, Result, ResultPart, move
from plait.reasoning.values import Changes, Checkpoint, Session, now, public_data


class CheckpointParams(SessionParams):
    """Arguments of `reasoning_checkpoint_create`."""

    name: Text = Field(description="A name to recognise it by.")
    description: AnyText | None = None


class CheckpointInfo(ResultPart):
    """A checkpoint."""

    id: str
    session_id: str
    branch_id: str | None
    name: str
    description: str | None
    snapshot: dict[str, Any] = Field(description="The state that was kept.")
    created_at: str


class CheckpointResult(CheckpointInfo, Result):
    """A checkpoint as the whole result."""


class CheckpointList(ListResult):
    """The checkpoints of a session."""

    checkpoints: list[CheckpointInfo]


async def checkpoint_create(
    params: CheckpointParams, call: CallContext
) -> Outcome[CheckpointResult]:
    """Keep the state of a session under a name, to be able to come back to it."""
    session = await call.open_session(params.session_id)
    checkpoint = Checkpoint(
        session_id=session.id,
        branch_id=session.active_branch_id,
        name=params.name,
        description=params.description,
        snapshot=await state_of(call, session),
    )
    steps = [
        move("backtrack", "to come back here and try another way", checkpoint_id=checkpoint.id)
    ]
    changes = Changes(session=touched(session), checkpoints=(checkpoint,))
    return Outcome(result=CheckpointResult(**public_data(checkpoint), next=steps), changes=changes)


async def checkpoint_list(params: SessionParams, call: CallContext) -> Outcome[CheckpointList]:
    """List the checkpoints of a session, newest first."""
    session = await call.existing_session(params.session_id)
    stored = await call.store.get_session_checkpoints(session.id)
    return Outcome(
        result=CheckpointList(
            checkpoints=[CheckpointInfo(**public_data(value)) for value in stored]
        )
    )


async def state_of(call: CallContext, session: Session) -> dict[str, Any]:
    """Return the state of a session as JSON data."""
    store = call.store
    return {
        "thoughts": [public_data(value) for value in await store.get_session_thoughts(session.id)],
        "branches": [public_data(value) for value in await store.get_session_branches(session.id)],
        "active_branch_id": session.active_branch_id,
        "graph": {
            # With positions: a node that is pruned afterwards is restored to its own.
            "nodes": [
                {**public_data(value), "position": value.position}
                for value in await store.get_session_graph_nodes(session.id)
            ],
            "edges": [public_data(value) for value in await store.get_session_edges(session.id)],
        },
        "created_at": now(),
    }
