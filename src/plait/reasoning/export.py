"""Exports a whole session as JSON, Markdown, Mermaid, DOT or SVG."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Final, Literal, TypeAlias

from plait.reasoning import values
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Thought


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


Format: TypeAlias = Literal["json", "markdown", "mermaid", "dot", "svg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An exported session."""

    content: str
    mime_type: str


def _json(document: SessionDocument) -> Exported:
    text = json.dumps(asdict(document), indent=2, ensure_ascii=False)
    return Exported(content=text, mime_type="application/json")


def _markdown(document: SessionDocument) -> Exported:
    session = document.session
    lines = [
        f"# Reasoning session {session.id}",
        "",
        f"{session.mode}, {session.status}, from {session.created_at} to {session.updated_at}.",
    ]
    if session.conclusion:
        lines += ["", "## Conclusion", "", _quoted(str(session.conclusion.get("text", "")))]
    live = [thought for thought in document.thoughts if thought.abandoned_by is None]
    left = [thought for thought in document.thoughts if thought.abandoned_by is not None]
    lines += _thoughts("Thoughts", live) + _thoughts("Left behind", left)
    if document.branches:
        lines += ["", "## Branches", ""]
        lines += [
            f"- {_inline(branch.name)}: {branch.state}, confidence {branch.confidence:.2f}"
            for branch in document.branches
        ]
    for graph in document.graphs:
        nodes = [node for node in document.nodes if node.graph_id == graph.id]
        lines += ["", f"## Graph {graph.id}", ""]
        lines += [f"Problem: {_inline(graph.problem)}", ""] if graph.problem else []
        for node in nodes:
            score = "" if node.score is None else f", score {node.score:.2f}"
            faded = ", left behind" if node.abandoned_by else ""
            place = f"{node.node_type}, depth {node.depth}{score}{faded}"
            lines.append(f"- {_inline(node.content)} ({place})")
    return Exported(content="\n".join(lines) + "\n", mime_type="text/markdown")


def _thoughts(title: str, thoughts: list[Thought]) -> list[str]:
    if not thoughts:
        return []
    lines = ["", f"## {title}"]
    for thought in thoughts:
        place = f"### {thought.position}. {thought.mode}, confidence {thought.confidence:.2f}"
        lines += ["", place, "", _quoted(thought.content)]
    return lines


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _inline(text: str) -> str:
    return " ".join(text.split())


def _mermaid(document: SessionDocument) -> Exported:
    diagram = diagram_of(document)
    names = _names(diagram)
    lines = ["flowchart TD"]
    lines += [f'    {names[node.key]}["{_mermaid_text(label_of(node))}"]' for node in diagram.nodes]
    for source, target, word in diagram.arrows:
        label = f"|{word}|" if word else ""
        lines.append(f"    {names[source]} -->{label} {names[target]}")
    faded = [names[node.key] for node in diagram.nodes if node.faded]
    if faded:
        lines += ["    classDef faded opacity:0.4", f"    class {','.join(faded)} faded"]
    return Exported(content="\n".join(lines) + "\n", mime_type="text/vnd.mermaid")


def _mermaid_text(text: str) -> str:
    return "".join(f"#{ord(char)};" if char in '"#<>&`[]{}|\\' else char for char in text)


def _dot(document: SessionDocument) -> Exported:
    diagram = diagram_of(document)
    names = _names(diagram)
    lines = ["digraph reasoning {", "    node [shape=box];"]
    for node in diagram.nodes:
        style = ", style=dashed" if node.faded else ""
        lines.append(f"    {names[node.key]} [label={_dot_text(label_of(node))}{style}];")
    for source, target, word in diagram.arrows:
        label = f" [label={_dot_text(word)}]" if word else ""
        lines.append(f"    {names[source]} -> {names[target]}{label};")
    lines.append("}")
    return Exported(content="\n".join(lines) + "\n", mime_type="text/vnd.graphviz")


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _svg(document: SessionDocument) -> Exported:
    return Exported(content=svg_of(diagram_of(document)), mime_type="image/svg+xml")


def _names(diagram: Diagram) -> dict[str, str]:
    return {node.key: f"n{number}" for number, node in enumerate(diagram.nodes, 1)}


EXPORTERS: Final[Mapping[str, Callable[[SessionDocument], Exported]]] = {
    "json": _json,
    "markdown": _markdown,
    "mermaid": _mermaid,
    "dot": _dot,
    "svg": _svg,
}
"""The function for each format."""


_WIDTH, _HEIGHT = 260, 44
_GAP_X, _GAP_Y = 20, 46


def svg_of(diagram: Diagram) -> str:
    """Draw nodes in rows, and arrows from row to row."""
    rows = _rows(diagram)
    columns: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for node in diagram.nodes:
        row = rows[node.key]
        column = columns.get(row, 0)
        columns[row] = column + 1
        places[node.key] = (
            _GAP_X + column * (_WIDTH + _GAP_X),
            _GAP_Y // 2 + row * (_HEIGHT + _GAP_Y),
        )
    width = _GAP_X + max(columns.values(), default=1) * (_WIDTH + _GAP_X)
    height = (max(columns, default=0) + 1) * (_HEIGHT + _GAP_Y)
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>'
        ),
    ]
    for source, target, word in diagram.arrows:
        (x1, y1), (x2, y2) = places[source], places[target]
        x1, x2, y1 = x1 + _WIDTH // 2, x2 + _WIDTH // 2, y1 + _HEIGHT
        lines.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#667" marker-end="url(#tip)">'
            f"<title>{escape(word)}</title></line>"
        )
    for node in diagram.nodes:
        x, y = places[node.key]
        faded = ' opacity="0.4"' if node.faded else ""
        lines.append(
            f'<g{faded}><title>{escape(node.text)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="6" fill="#eef" stroke="#667"/>'
            f'<text x="{x + 8}" y="{y + 18}" fill="#667">{escape(node.kind)}</text>'
            f'<text x="{x + 8}" y="{y + 34}">{escape(label_of(node, 32))}</text></g>'
        )
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _rows(diagram: Diagram) -> dict[str, int]:
    """Put each node below everything that leads to it."""
    rows = {node.key: 0 for node in diagram.nodes}
    # Arrows lead from earlier nodes to later ones, so few rounds suffice.
    for _ in rows:
        moved = False
        for source, target, _word in diagram.arrows:
            if rows[target] <= rows[source]:
                rows[target] = rows[source] + 1
                moved = True
        if not moved:
            break
    return rows
