"""Checkpoints: the state of a session under a name."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from plait.reasoning.arguments import Key, Params, Text, Words
from plait.reasoning.call_context import Outcome, Work, known_session, open_session, touched
from plait.reasoning.modes.tree import ListParams
from plait.reasoning.modes.views import CheckpointList, CheckpointResult, checkpoint_shown
from plait.reasoning.results import move
from plait.reasoning.values import (
    Changes,
    Checkpoint,
    Session,
    branch_json,
    checkpoint_json,
    edge_json,
    node_json,
    now,
    thought_json,
)


class CheckpointParams(Params):
    """Arguments of `reasoning_checkpoint_create`."""

    session_id: Key
    name: Text = Field(description="A name to recognise it by.")
    description: Words | None = None


async def checkpoint_create(params: CheckpointParams, work: Work) -> Outcome[CheckpointResult]:
    """Keep the state of a session."""
    session = await open_session(work, params.session_id)
    checkpoint = Checkpoint(
        session_id=session.id,
        branch_id=session.active_branch_id,
        name=params.name,
        description=params.description,
        snapshot=await state_of(work, session),
    )
    steps = [
        move(
            "reasoning_backtrack",
            "to come back here and try another way",
            checkpoint_id=checkpoint.id,
        )
    ]
    changes = Changes(session=touched(session), checkpoints=(checkpoint,))
    return Outcome(
        result=CheckpointResult(**checkpoint_json(checkpoint), next=steps), changes=changes
    )


async def checkpoint_list(params: ListParams, work: Work) -> Outcome[CheckpointList]:
    """List the checkpoints of a session, newest first."""
    session = await known_session(work, params.session_id)
    found = await work.store.get_session_checkpoints(session.id)
    return Outcome(result=CheckpointList(checkpoints=[checkpoint_shown(one) for one in found]))


async def state_of(work: Work, session: Session) -> dict[str, Any]:
    """Write down everything that counts in a session."""
    store = work.store
    return {
        "thoughts": [thought_json(one) for one in await store.get_session_thoughts(session.id)],
        "branches": [branch_json(one) for one in await store.get_session_branches(session.id)],
        "active_branch_id": session.active_branch_id,
        "graph": {
            # With their places: a node that is cut afterwards comes back to its own.
            "nodes": [
                {**node_json(one), "position": one.position}
                for one in await store.get_session_graph_nodes(session.id)
            ],
            "edges": [edge_json(one) for one in await store.get_session_edges(session.id)],
        },
        "created_at": now(),
    }
