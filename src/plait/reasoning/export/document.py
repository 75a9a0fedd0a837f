"""A session with all that counts in it, as one value to be written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait.reasoning.storage.port import Storage
from plait.reasoning.values import (
    Branch,
    Checkpoint,
    CrossRef,
    Graph,
    GraphEdge,
    GraphNode,
    Session,
    Thought,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDocument:
    """All of a session; what a backtrack left behind is among the thoughts and nodes, marked."""

    session: Session
    thoughts: Sequence[Thought]
    branches: Sequence[Branch]
    cross_refs: Sequence[CrossRef]
    checkpoints: Sequence[Checkpoint]
    graphs: Sequence[Graph]
    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]


async def read_document(store: Storage, session: Session) -> SessionDocument:
    """Read all of a session."""
    key = session.id
    return SessionDocument(
        session=session,
        thoughts=await store.get_session_thoughts(key, abandoned=True),
        branches=await store.get_session_branches(key),
        cross_refs=await store.get_session_cross_refs(key),
        checkpoints=await store.get_session_checkpoints(key),
        graphs=await store.get_session_graphs(key),
        nodes=await store.get_session_graph_nodes(key, abandoned=True),
        edges=await store.get_session_edges(key, abandoned=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramNode:
    """A point of a drawing."""

    key: str
    text: str
    kind: str
    score: float | None = None
    faded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Points, and arrows between them."""

    dots: Sequence[DiagramNode]
    arrows: Sequence[tuple[str, str, str]]
    """From, to, and a word."""


def diagram_of(whole: SessionDocument) -> Diagram:
    """Draw a session: thoughts by their parents, then graphs by their edges."""
    states = {branch.id: branch.state for branch in whole.branches}
    dots = [
        DiagramNode(
            key=thought.id,
            text=thought.content,
            kind=thought.mode,
            score=thought.confidence,
            faded=thought.abandoned_by is not None
            or states.get(thought.branch_id or "") == "abandoned",
        )
        for thought in whole.thoughts
    ]
    dots += [
        DiagramNode(
            key=node.id,
            text=node.content,
            kind=node.node_type,
            score=node.score,
            faded=node.abandoned_by is not None,
        )
        for node in whole.nodes
    ]
    known = {dot.key for dot in dots}
    arrows: list[tuple[str, str, str]] = []
    last: Thought | None = None
    for thought in whole.thoughts:
        if thought.parent_id is not None:
            arrows.append((thought.parent_id, thought.id, ""))
        elif last is not None and thought.mode == last.mode == "linear":
            arrows.append((last.id, thought.id, "then"))
        last = thought
    arrows += [(edge.from_node, edge.to_node, edge.edge_type) for edge in whole.edges]
    return Diagram(dots=dots, arrows=[one for one in arrows if {one[0], one[1]} <= known])


def label_of(dot: DiagramNode, width: int = 60) -> str:
    """Write a point in a few words."""
    folded = " ".join(dot.text.split())
    cut = folded if len(folded) <= width else folded[: width - 1] + "…"
    return cut if dot.score is None else f"{cut} ({dot.score:.2f})"
