"""What one call changes, as one value that is written at once or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from plait.reasoning.values import (
    Branch,
    Checkpoint,
    CrossRef,
    Graph,
    GraphEdge,
    GraphNode,
    Invocation,
    Session,
    StateSnapshot,
    Thought,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Rows to write; one that exists is replaced, and parents stand before their children."""

    session: Session | None = None
    """The session as it shall be; its `version` is the one that was read."""
    branches: tuple[Branch, ...] = ()
    cross_refs: tuple[CrossRef, ...] = ()
    snapshots: tuple[StateSnapshot, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    graphs: tuple[Graph, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    invocations: tuple[Invocation, ...] = ()
    removed_nodes: tuple[str, ...] = ()
    """Ids of nodes to delete, their edges with them."""
