"""Working out how to bring a session back to a checkpoint, and losing nothing by it.

What came after the checkpoint is marked as left behind, and gathered on an abandoned branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from plait.reasoning.storage.port import Storage
from plait.reasoning.values import (
    Branch,
    Changes,
    Checkpoint,
    GraphEdge,
    GraphNode,
    Session,
    Thought,
    now,
)

ValueT = TypeVar("ValueT", Thought, Branch, GraphNode, GraphEdge)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All there is in a session, with what was left behind before."""

    thoughts: Sequence[Thought]
    branches: Sequence[Branch]
    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]


async def read_state(store: Storage, session_id: str) -> State:
    """Read all there is in a session."""
    return State(
        thoughts=await store.get_session_thoughts(session_id, abandoned=True),
        branches=await store.get_session_branches(session_id),
        nodes=await store.get_session_graph_nodes(session_id, abandoned=True),
        edges=await store.get_session_edges(session_id, abandoned=True),
    )


def restore_changes(
    session: Session, state: State, checkpoint: Checkpoint, *, by: str
) -> tuple[Changes, Branch | None]:
    """Return what to write, and the branch that holds what is left behind, if anything is.

    `by` is the id of the snapshot that records it.
    """
    then = _Then.of(checkpoint.snapshot)
    aside = Branch(
        session_id=session.id,
        name=f"Abandoned after {checkpoint.name}",
        parent_branch_id=then.active_branch_id,
        state="abandoned",
        metadata={"checkpoint_id": checkpoint.id, "snapshot_id": by},
    )
    left_thoughts = [
        replace(
            thought,
            abandoned_by=by,
            branch_id=aside.id if _stays(thought.branch_id, then) else thought.branch_id,
        )
        for thought in state.thoughts
        if thought.id not in then.thoughts and thought.abandoned_by is None
    ]
    left_branches = [
        replace(
            branch,
            state="abandoned",
            updated_at=now(),
            parent_branch_id=aside.id
            if _stays(branch.parent_branch_id, then)
            else branch.parent_branch_id,
        )
        for branch in state.branches
        if branch.id not in then.branches and branch.state != "abandoned"
    ]
    left_nodes = [
        replace(node, abandoned_by=by, is_active=False)
        for node in state.nodes
        if node.id not in then.nodes and node.abandoned_by is None
    ]
    left_edges = [
        replace(edge, abandoned_by=by)
        for edge in state.edges
        if edge.id not in then.edges and edge.abandoned_by is None
    ]
    anything = bool(left_thoughts or left_branches or left_nodes)
    changes = Changes(
        session=replace(session, updated_at=now(), active_branch_id=then.active_branch_id),
        branches=(
            *((aside,) if anything else ()),
            *left_branches,
            *_brought_back(Branch, state.branches, then.branches),
        ),
        thoughts=(*left_thoughts, *_brought_back(Thought, state.thoughts, then.thoughts)),
        nodes=(*left_nodes, *_brought_back(GraphNode, state.nodes, then.nodes)),
        edges=(*left_edges, *_brought_back(GraphEdge, state.edges, then.edges)),
    )
    return changes, aside if anything else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Then:
    """What a checkpoint kept, by id."""

    thoughts: Mapping[str, Mapping[str, Any]]
    branches: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Mapping[str, Any]]
    edges: Mapping[str, Mapping[str, Any]]
    active_branch_id: str | None

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> _Then:
        """Read a snapshot; older ones know of no graph and no active branch."""
        graph = snapshot.get("graph", {})
        return cls(
            thoughts={one["id"]: one for one in snapshot.get("thoughts", ())},
            branches={one["id"]: one for one in snapshot.get("branches", ())},
            nodes={one["id"]: one for one in graph.get("nodes", ())},
            edges={one["id"]: one for one in graph.get("edges", ())},
            active_branch_id=snapshot.get("active_branch_id"),
        )


def _stays(branch_id: str | None, then: _Then) -> bool:
    """Say whether a branch is one that was there, so that what came later must leave it."""
    return branch_id is None or branch_id in then.branches


def _brought_back(
    kind: type[ValueT], present: Sequence[ValueT], then: Mapping[str, Mapping[str, Any]]
) -> list[ValueT]:
    """Return the values that are not as they were; those that were deleted are made again."""
    known = {value.id: value for value in present}
    names = {field.name for field in fields(kind)}
    back: list[ValueT] = []
    for key, kept in then.items():
        facts = {name: value for name, value in kept.items() if name in names}
        if "abandoned_by" in names:
            facts["abandoned_by"] = None
        now_there = known.get(key)
        value = kind(**facts) if now_there is None else replace(now_there, **facts)
        if value != now_there:
            back.append(value)
    return back
