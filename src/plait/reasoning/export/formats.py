"""Exports a session as JSON, Markdown, Mermaid, DOT or SVG."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from plait.reasoning.export.document import Diagram, SessionDocument, diagram_of, label_of
from plait.reasoning.export.svg import svg_of
from plait.reasoning.values import Thought

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
    """Escape the special characters of Mermaid."""
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
