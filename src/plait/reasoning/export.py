"""Exports a whole session as JSON, Markdown, Mermaid, DOT or SVG."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from plait._support.exception_groups import one_line
from plait._support.sanitize import escaped, escaped_for_markdown
from plait.reasoning.diagram import (
    DiagramNode,
    SessionDocument,
    diagram_of,
    label_of,
    notes_of,
    svg_of,
)
from plait.reasoning.values import Judged

Format: TypeAlias = Literal["json", "markdown", "mermaid", "dot", "svg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An exported session."""

    content: str
    mime_type: str


def _json(document: SessionDocument) -> Exported:
    data = asdict(document)
    for thought in data["thoughts"]:
        if tables := _tables_of(thought["metadata"] or {}):
            thought["tables"] = [asdict(table) for table in tables]
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return Exported(content=text, mime_type="application/json")


def _markdown(document: SessionDocument) -> Exported:
    session = document.session
    lines = [
        f"# Reasoning session {_folded(session.id)}",
        "",
        f"{session.mode}, {session.status}, from {session.created_at} to {session.updated_at}.",
    ]
    if session.conclusion:
        lines += ["", "## Conclusion", "", _quote(str(session.conclusion.get("text", "")))]
    live = [thought for thought in document.thoughts if thought.abandoned_by is None]
    left = [thought for thought in document.thoughts if thought.abandoned_by is not None]
    names = {branch.id: branch.name for branch in document.branches}
    numbers = {thought.id: thought.position or 0 for thought in document.thoughts}
    for title, thoughts in (("Thoughts", live), ("Left behind", left)):
        lines += ["", f"## {title}"] if thoughts else []
        for thought in thoughts:
            number, above = numbers[thought.id], numbers.get(thought.parent_id or "")
            place = f"### {number}. {thought.mode}{_confidence(thought)}"
            if above and above != number - 1:
                place += f", after {above}"
            if branch := names.get(thought.branch_id or ""):
                place += f", on {_folded(branch)}"
            notes = [f"- {_folded(note)}" for note in notes_of(thought.metadata)]
            lines += ["", place, "", _quote(thought.content), *(["", *notes] if notes else [])]
            for table in _tables_of(thought.metadata or {}):
                lines += _lines_of(table)
    if document.branches:
        lines += ["", "## Branches", ""]
        for one in document.branches:
            line = f"- {_folded(one.name)}: {one.state}{_confidence(one)}"
            if parent := names.get(one.parent_branch_id or ""):
                line += f", below {_folded(parent)}"
            lines.append(line + (", followed now" if one.id == session.active_branch_id else ""))
        for ref in document.cross_refs:
            source, target = names.get(ref.from_branch_id, "?"), names.get(ref.to_branch_id, "?")
            why = f": {_folded(ref.reason)}" if ref.reason else ""
            lines.append(f"- {_folded(source)} {ref.ref_type} {_folded(target)}{why}")
    for graph in document.graphs:
        lines += ["", f"## Graph {graph.id}", ""]
        lines += [f"Problem: {_folded(graph.problem)}", ""] if graph.problem else []
        for node in document.nodes:
            if node.graph_id != graph.id:
                continue
            score = "" if node.score is None else f", score {node.score:.2f}"
            faded = ", left behind" if node.abandoned_by else ""
            place = f"{node.node_type}, depth {node.depth}{score}{faded}"
            lines.append(f"- {_folded(node.content)} ({place})")
            lines += [f"  - {_folded(note)}" for note in notes_of(node.metadata)]
    return Exported(content="\n".join(lines) + "\n", mime_type="text/markdown")


@dataclass(frozen=True, slots=True)
class _Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def _tables_of(metadata: Mapping[str, Any]) -> list[_Table]:
    """Return a problem that was stated, or its answer, as tables."""
    problem: Mapping[str, Any] = metadata.get("problem") or {}
    answer: Mapping[str, Any] = metadata.get("answer") or {}
    tables: list[_Table] = []
    for title, values in (
        ("Variable", problem.get("variables")),
        ("List", problem.get("lists")),
        ("Given", {k: v for k, v in problem.items() if k in _GIVEN}),
        ("Solution", answer.get("solution")),
        ("Other solution", answer.get("other")),
    ):
        rows = [[name, _spoken(value)] for name, value in (values or {}).items()]
        tables.append(_Table([title, "Value"], rows))
    roads = [[*map(str, road)] for road in problem.get("roads", ())]
    tables.append(_Table(["From", "To", "Length"], roads))
    for title, rules in (
        ("Constraint", [*problem.get("constraints", ()), *problem.get("facts", ())]),
        ("Rule", problem.get("rules", ())),
        ("Contradicting", answer.get("conflict", ())),
    ):
        named: list[Mapping[str, Any]] = [
            {"rule": one} if isinstance(one, str) else one for one in rules
        ]
        rows = [[str(one.get(field) or "") for field in ("name", "rule", "says")] for one in named]
        tables.append(_Table([title, "Condition", "Sentence"], rows))
    concluded = [
        [one["asked"], one["verdict"], ", ".join(one.get("because", ()))]
        for one in answer.get("conclusions", ())
    ]
    tables.append(_Table(["Asked", "Verdict", "Because"], concluded))
    return [table for table in tables if table.rows]


_GIVEN: Final = (
    "things",
    "circle",
    "start",
    "end",
    "via",
    "avoid",
    "one_way",
    "ask",
    "minimize",
    "maximize",
)


def _spoken(value: object) -> str:
    if isinstance(value, Mapping):
        limits = cast("Mapping[str, object]", value)
        return f"{limits.get('min')} to {limits.get('max')}"
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value)))
    return str(value)


def _lines_of(table: _Table) -> list[str]:
    cells = [[_folded(cell).replace("|", "\\|") for cell in row] for row in table.rows]
    rows = (table.columns, ["---"] * len(table.columns), *cells)
    return ["", *(f"| {' | '.join(row)} |" for row in rows)]


def _confidence(value: Judged) -> str:
    return "" if value.score is None else f", confidence {value.score:.2f}"


def _quote(text: str) -> str:
    return "\n".join(f"> {escaped_for_markdown(line)}" for line in text.splitlines())


def _folded(text: str) -> str:
    return escaped_for_markdown(" ".join(text.split()))


def _mermaid(document: SessionDocument) -> Exported:
    diagram = diagram_of(document)
    names = {node.key: f"n{number}" for number, node in enumerate(diagram.nodes, 1)}
    lines = ["flowchart TD"]
    for node in diagram.nodes:
        label = "<br/>".join(map(_mermaid_text, _label_lines(node)))
        lines.append(f'    {names[node.key]}["{label}"]')
    for arrow in diagram.arrows:
        label = f'|"{_mermaid_text(one_line(arrow.label, 60))}"|' if arrow.label else ""
        line = "-.->" if arrow.is_reference else "-->"
        lines.append(f"    {names[arrow.source]} {line}{label} {names[arrow.target]}")
    faded = [names[node.key] for node in diagram.nodes if node.faded]
    active = [names[node.key] for node in diagram.nodes if node.is_active]
    styles = (("faded", "opacity:0.4", faded), ("active", "stroke-width:3px", active))
    for style, look, marked in styles:
        if marked:
            lines += [f"    classDef {style} {look}", f"    class {','.join(marked)} {style}"]
    return Exported(content="\n".join(lines) + "\n", mime_type="text/vnd.mermaid")


def _mermaid_text(text: str) -> str:
    return "".join(f"#{ord(char)};" if char in '"#<>&`[]{}|\\' else char for char in escaped(text))


def _dot(document: SessionDocument) -> Exported:
    diagram = diagram_of(document)
    names = {node.key: f"n{number}" for number, node in enumerate(diagram.nodes, 1)}
    lines = ["digraph reasoning {", "    node [shape=box];"]
    for node in diagram.nodes:
        style = ", style=dashed" if node.faded else ", penwidth=2" if node.is_active else ""
        label = "\\n".join(map(_dot_escaped, _label_lines(node)))
        lines.append(f'    {names[node.key]} [label="{label}"{style}];')
    for arrow in diagram.arrows:
        facts = [f'label="{_dot_escaped(one_line(arrow.label, 60))}"'] if arrow.label else []
        # A reference is no step, so it does not move nodes to other ranks.
        facts += ["style=dotted", "constraint=false"] if arrow.is_reference else []
        notes = f" [{', '.join(facts)}]" if facts else ""
        lines.append(f"    {names[arrow.source]} -> {names[arrow.target]}{notes};")
    lines.append("}")
    return Exported(content="\n".join(lines) + "\n", mime_type="text/vnd.graphviz")


def _dot_escaped(text: str) -> str:
    return escaped(text).replace("\\", "\\\\").replace('"', '\\"')


def _label_lines(node: DiagramNode) -> list[str]:
    """Return the text of a node, its branch, and what was said about it."""
    branch = [one_line(node.branch, 40)] if node.branch else []
    note = [one_line(node.note, 80)] if node.note else []
    kind = ["conclusion:"] if node.kind == "conclusion" else []
    return [*kind, *branch, label_of(node), *note]


def _svg(document: SessionDocument) -> Exported:
    return Exported(content=svg_of(diagram_of(document)), mime_type="image/svg+xml")


EXPORTERS: Final[Mapping[str, Callable[[SessionDocument], Exported]]] = {
    "json": _json,
    "markdown": _markdown,
    "mermaid": _mermaid,
    "dot": _dot,
    "svg": _svg,
}
"""The function for each format."""
