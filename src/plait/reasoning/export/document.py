"""A whole session as one value, and as a diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait.reasoning import values
from plait.reasoning.storage.port import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDocument:
    """A session with everything in it, abandoned thoughts and nodes included."""

    session: values.Session
    thoughts: Sequence[values.Thought]
    branches: Sequence[values.Branch]
    cross_refs: Sequence[values.CrossRef]
    checkpoints: Sequence[values.Checkpoint]
    graphs: Sequence[values.Graph]
    nodes: Sequence[values.GraphNode]
    edges: Sequence[values.GraphEdge]


async def read_document(store: Storage, session: values.Session) -> SessionDocument:
    """Read a whole session."""
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
    """A node of a diagram."""

    key: str
    text: str
    kind: str
    score: float | None = None
    faded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Nodes, and arrows between them."""

    nodes: Sequence[DiagramNode]
    arrows: Sequence[tuple[str, str, str]]
    """Source, target and label."""


def diagram_of(document: SessionDocument) -> Diagram:
    """Return a session as a diagram: thoughts by parent, graphs by edge."""
    states = {branch.id: branch.state for branch in document.branches}
    nodes = [
        DiagramNode(
            key=thought.id,
            text=thought.content,
            kind=thought.mode,
            score=thought.confidence,
            faded=thought.abandoned_by is not None
            or states.get(thought.branch_id or "") == "abandoned",
        )
        for thought in document.thoughts
    ]
    nodes += [
        DiagramNode(
            key=node.id,
            text=node.content,
            kind=node.node_type,
            score=node.score,
            faded=node.abandoned_by is not None,
        )
        for node in document.nodes
    ]
    known = {node.key for node in nodes}
    arrows: list[tuple[str, str, str]] = []
    last: values.Thought | None = None
    for thought in document.thoughts:
        if thought.parent_id is not None:
            arrows.append((thought.parent_id, thought.id, ""))
        elif last is not None and thought.mode == last.mode == "linear":
            arrows.append((last.id, thought.id, "then"))
        last = thought
    arrows += [(edge.from_node, edge.to_node, edge.edge_type) for edge in document.edges]
    return Diagram(nodes=nodes, arrows=[arrow for arrow in arrows if {arrow[0], arrow[1]} <= known])


def label_of(node: DiagramNode, width: int = 60) -> str:
    """Return the label of a node."""
    folded = " ".join(node.text.split())
    cut = folded if len(folded) <= width else folded[: width - 1] + "…"
    return cut if node.score is None else f"{cut} ({node.score:.2f})"
