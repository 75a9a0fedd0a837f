"""A whole session as it is exported, and as a diagram of what leads from one thought to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait._support.exception_groups import one_line
from plait._support.sanitize import escaped
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

    @property
    def parents(self) -> dict[str, str | None]:
        """What each thought follows; the first branch follows the last thought before it."""
        known = {thought.id for thought in self.thoughts}
        found: dict[str, str | None] = {}
        before: str | None = None
        for thought in self.thoughts:
            parent = thought.parent_id if thought.parent_id in known else None
            found[thought.id] = before if parent is None and thought.branch_id else parent
            if thought.branch_id is None and thought.abandoned_by is None:
                before = thought.id
        return found


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
    note: str = ""
    """Why it is there, or what was said about it."""
    branch: str = ""
    """The name of its branch, where that begins."""
    faded: bool = False
    is_active: bool = False
    """Whether reasoning goes on from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An arrow between two nodes."""

    source: str
    target: str
    label: str = ""
    is_reference: bool = False
    """Whether it says how branches relate, and not what came from what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Nodes, and arrows between them."""

    nodes: Sequence[DiagramNode]
    arrows: Sequence[Arrow]


def diagram_of(document: SessionDocument) -> Diagram:
    """Return a session as a diagram: thoughts by parent, graphs by edge, and the conclusion."""
    branches = {branch.id: branch for branch in document.branches}
    first: dict[str, str] = {}
    nodes: list[DiagramNode] = []
    for thought in document.thoughts:
        branch = branches.get(thought.branch_id or "")
        if thought.branch_id is not None:
            first.setdefault(thought.branch_id, thought.id)
        begins = branch is not None and first[branch.id] == thought.id
        node = DiagramNode(
            key=thought.id,
            text=thought.content,
            kind=thought.mode,
            score=thought.confidence,
            note=escaped(note_of(thought.metadata)),
            branch=escaped(branch.name) if branch and begins else "",
            faded=thought.abandoned_by is not None
            or (branch is not None and branch.state == "abandoned"),
            is_active=branch is not None and branch.id == document.session.active_branch_id,
        )
        nodes.append(node)
    nodes += [
        DiagramNode(
            key=node.id,
            text=node.content,
            kind=node.node_type,
            score=node.score,
            note=escaped(note_of(node.metadata)),
            faded=node.abandoned_by is not None,
            is_active=node.is_active,
        )
        for node in document.nodes
    ]
    arrows = [
        Arrow(source=parent, target=key) for key, parent in document.parents.items() if parent
    ]
    arrows += [
        Arrow(source=edge.from_node, target=edge.to_node, label=edge.edge_type)
        for edge in document.edges
    ]
    # A reference leads from the first thought of a branch to that of another.
    arrows += [
        Arrow(
            source=first[ref.from_branch_id],
            target=first[ref.to_branch_id],
            label=escaped(f"{ref.ref_type}: {ref.reason}" if ref.reason else ref.ref_type),
            is_reference=True,
        )
        for ref in document.cross_refs
        if {ref.from_branch_id, ref.to_branch_id} <= first.keys()
    ]
    if (conclusion := document.session.conclusion) is not None:
        text = str(conclusion.get("text", ""))
        nodes.append(DiagramNode(key="conclusion", text=text, kind="conclusion", is_active=True))
        # It rests on what it names, else on the ends of graphs, else on the last step.
        named: list[str] = [*conclusion.get("thought_ids", ())]
        ends = [node.id for node in document.nodes if node.is_terminal and not node.abandoned_by]
        last = [one.id for one in document.thoughts if one.abandoned_by is None][-1:]
        arrows += [Arrow(source=key, target="conclusion") for key in named or ends or last]
    known = {node.key for node in nodes}
    kept = [arrow for arrow in arrows if {arrow.source, arrow.target} <= known]
    return Diagram(nodes=nodes, arrows=kept)


_NOTES = {
    "rationale": "because",
    "question": "asked",
    "examined": "about",
    "synthesis_approach": "joined by",
    "conflicts_resolved": "resolved",
    "improvements_made": "improved",
    "assumptions_challenged": "challenges",
    "weaknesses": "weak",
    "strengths": "strong",
    "recommendations": "advice",
    "new_direction": "direction",
}
"""What is shown of metadata, and the words before it."""


def notes_of(metadata: Mapping[str, Any] | None) -> list[str]:
    """Return what was said about a thought or a node, one line each."""
    known = dict(metadata or {})
    judgement: Mapping[str, Any] = known.get("judgement") or {}
    lines = [
        f"{word}: {'; '.join(map(str, value)) if isinstance(value, list) else value}"  # pyright: ignore[reportUnknownArgumentType]
        for name, word in _NOTES.items()
        if (value := known.get(name))
    ]
    if judgement.get("rationale"):
        lines.append(f"judged: {judgement['rationale']}")
    if known.get("revises"):
        lines.append("revises an earlier thought")
    if known.get("revised_by"):
        lines.append("revised later")
    return lines


def note_of(metadata: Mapping[str, Any] | None) -> str:
    """Return what was said about a thought or a node in one line."""
    return " · ".join(one_line(line, 200) for line in notes_of(metadata))


def label_of(node: DiagramNode, width: int = 60) -> str:
    """Return the label of a node."""
    cut = one_line(escaped(node.text), width)
    return cut if node.score is None else f"{cut} ({node.score:.2f})"
