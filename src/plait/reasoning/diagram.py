"""A session as a diagram: thoughts and nodes, and what leads from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait._support.sanitize import escaped
from plait.reasoning import values
from plait.reasoning.document import SessionDocument
from plait.reasoning.prompts import shortened


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

    @property
    def heading(self) -> str:
        """The kind, and the branch that begins here."""
        return f"{self.kind} · {self.branch}" if self.branch else self.kind


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
    nodes = [*_thoughts(document), *map(_node, document.nodes)]
    arrows = [
        Arrow(source=parent, target=key)
        for key, parent in document.parents.items()
        if parent is not None
    ]
    arrows += [
        Arrow(source=edge.from_node, target=edge.to_node, label=edge.edge_type)
        for edge in document.edges
    ]
    arrows += _references(document)
    if document.session.conclusion is not None:
        text = str(document.session.conclusion.get("text", ""))
        nodes.append(DiagramNode(key="conclusion", text=text, kind="conclusion", is_active=True))
        arrows += [Arrow(source=key, target="conclusion") for key in _grounds(document)]
    known = {node.key for node in nodes}
    kept = [arrow for arrow in arrows if {arrow.source, arrow.target} <= known]
    return Diagram(nodes=nodes, arrows=kept)


def _thoughts(document: SessionDocument) -> Iterator[DiagramNode]:
    branches = {branch.id: branch for branch in document.branches}
    begun: set[str] = set()
    active = document.session.active_branch_id
    for thought in document.thoughts:
        branch = branches.get(thought.branch_id or "")
        heading = branch.name if branch and branch.id not in begun else ""
        begun |= {branch.id} if branch else set()
        yield DiagramNode(
            key=thought.id,
            text=thought.content,
            kind=thought.mode,
            score=thought.confidence,
            note=escaped(note_of(thought.metadata)),
            branch=escaped(heading),
            faded=thought.abandoned_by is not None
            or (branch is not None and branch.state == "abandoned"),
            is_active=branch is not None and branch.id == active,
        )


def _node(node: values.GraphNode) -> DiagramNode:
    return DiagramNode(
        key=node.id,
        text=node.content,
        kind=node.node_type,
        score=node.score,
        note=escaped(note_of(node.metadata)),
        faded=node.abandoned_by is not None,
        is_active=node.is_active,
    )


def _references(document: SessionDocument) -> list[Arrow]:
    """Return cross-references as arrows between the first thoughts of branches."""
    first: dict[str, str] = {}
    for thought in document.thoughts:
        if thought.branch_id is not None:
            first.setdefault(thought.branch_id, thought.id)
    return [
        Arrow(
            source=first[ref.from_branch_id],
            target=first[ref.to_branch_id],
            label=escaped(f"{ref.ref_type}: {ref.reason}" if ref.reason else ref.ref_type),
            is_reference=True,
        )
        for ref in document.cross_refs
        if {ref.from_branch_id, ref.to_branch_id} <= first.keys()
    ]


def _grounds(document: SessionDocument) -> list[str]:
    """Return what the conclusion rests on: what it names, the ends of graphs, or the last step."""
    named: list[str] = [*(document.session.conclusion or {}).get("thought_ids", ())]
    ends = [node.id for node in document.nodes if node.is_terminal and not node.abandoned_by]
    last = [one.id for one in document.thoughts if one.abandoned_by is None][-1:]
    return named or ends or last


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
    return " · ".join(shortened(line, 200) for line in notes_of(metadata))


def label_of(node: DiagramNode, width: int = 60) -> str:
    """Return the label of a node."""
    cut = shortened(escaped(node.text), width)
    return cut if node.score is None else f"{cut} ({node.score:.2f})"
