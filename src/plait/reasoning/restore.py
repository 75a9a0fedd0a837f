"""Computes the changes that restore a checkpoint of a session.

Everything after the checkpoint is kept: it is marked as abandoned and put on an abandoned branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from plait.reasoning import values
from plait.reasoning.storage.port import Storage

ValueT = TypeVar("ValueT", values.Thought, values.Branch, values.GraphNode, values.GraphEdge)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything in a session, abandoned parts included."""

    thoughts: Sequence[values.Thought]
    branches: Sequence[values.Branch]
    nodes: Sequence[values.GraphNode]
    edges: Sequence[values.GraphEdge]


async def read_state(store: Storage, session_id: str) -> State:
    """Read everything in a session."""
    return State(
        thoughts=await store.get_session_thoughts(session_id, abandoned=True),
        branches=await store.get_session_branches(session_id),
        nodes=await store.get_session_graph_nodes(session_id, abandoned=True),
        edges=await store.get_session_edges(session_id, abandoned=True),
    )


def restore_changes(
    session: values.Session, state: State, checkpoint: values.Checkpoint, *, by: str
) -> tuple[values.Changes, values.Branch | None]:
    """Return the changes, and the branch of what they abandon, if anything.

    `by` is the id of the snapshot that records the backtrack.
    """
    kept = _Snapshot.of(checkpoint.snapshot)
    abandoned = values.Branch(
        session_id=session.id,
        name=f"Abandoned after {checkpoint.name}",
        parent_branch_id=kept.active_branch_id,
        state="abandoned",
        metadata={"checkpoint_id": checkpoint.id, "snapshot_id": by},
    )

    def moved(branch_id: str | None) -> str | None:
        """Return the branch of a later part; it must leave one that the checkpoint kept."""
        return abandoned.id if branch_id is None or branch_id in kept.branches else branch_id

    left_thoughts = [
        replace(thought, abandoned_by=by, branch_id=moved(thought.branch_id))
        for thought in state.thoughts
        if thought.id not in kept.thoughts and thought.abandoned_by is None
    ]
    left_branches = [
        replace(
            branch,
            state="abandoned",
            updated_at=values.now(),
            parent_branch_id=moved(branch.parent_branch_id),
        )
        for branch in state.branches
        if branch.id not in kept.branches and branch.state != "abandoned"
    ]
    left_nodes = [
        replace(node, abandoned_by=by, is_active=False)
        for node in state.nodes
        if node.id not in kept.nodes and node.abandoned_by is None
    ]
    left_edges = [
        replace(edge, abandoned_by=by)
        for edge in state.edges
        if edge.id not in kept.edges and edge.abandoned_by is None
    ]
    anything = bool(left_thoughts or left_branches or left_nodes)
    changes = values.Changes(
        session=replace(session, updated_at=values.now(), active_branch_id=kept.active_branch_id),
        branches=(
            *((abandoned,) if anything else ()),
            *left_branches,
            *_restored(values.Branch, state.branches, kept.branches),
        ),
        thoughts=(*left_thoughts, *_restored(values.Thought, state.thoughts, kept.thoughts)),
        nodes=(*left_nodes, *_restored(values.GraphNode, state.nodes, kept.nodes)),
        edges=(*left_edges, *_restored(values.GraphEdge, state.edges, kept.edges)),
    )
    return changes, abandoned if anything else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The parts that a checkpoint kept, by id."""

    thoughts: Mapping[str, Mapping[str, Any]]
    branches: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Mapping[str, Any]]
    edges: Mapping[str, Mapping[str, Any]]
    active_branch_id: str | None

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> _Snapshot:
        """Read a snapshot; older ones have no graph and no active branch."""
        graph = snapshot.get("graph", {})
        return cls(
            thoughts={part["id"]: part for part in snapshot.get("thoughts", ())},
            branches={part["id"]: part for part in snapshot.get("branches", ())},
            nodes={part["id"]: part for part in graph.get("nodes", ())},
            edges={part["id"]: part for part in graph.get("edges", ())},
            active_branch_id=snapshot.get("active_branch_id"),
        )


def _restored(
    kind: type[ValueT], present: Sequence[ValueT], kept: Mapping[str, Mapping[str, Any]]
) -> list[ValueT]:
    """Return the values that differ from the checkpoint, deleted ones included."""
    current = {value.id: value for value in present}
    names = {field.name for field in fields(kind)}
    restored: list[ValueT] = []
    for key, data in kept.items():
        values = {name: value for name, value in data.items() if name in names}
        if "abandoned_by" in names:
            values["abandoned_by"] = None
        before = current.get(key)
        after = kind(**values) if before is None else replace(before, **values)
        if after != before:
            restored.append(after)
    return restored
