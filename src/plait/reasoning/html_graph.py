"""The graph of a session as SVG for a page: boxes that link to their details, in steps of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plait.reasoning.diagram import DiagramNode, diagram_of
from plait.reasoning.document import SessionDocument
from plait.reasoning.drawing import BOX_HEIGHT, BOX_WIDTH, Box, Drawing, Line, drawing_of
from plait.reasoning.prompts import shortened
from plait.reasoning.values import Checkpoint, GraphNode, Thought
from plait.traces.html.elements import Html, h

CONCLUSION = "conclusion"
"""The key of the conclusion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The order in which thoughts, nodes and the conclusion were added."""

    steps: Mapping[str, int]
    """The step of each key, from 1."""
    labels: Mapping[str, str]
    """Short ids such as `t12`, by key."""
    left: Mapping[str, int]
    """The step at which a key was left behind by a backtrack."""
    flags: Mapping[str, Sequence[Checkpoint]] = field(
        default_factory=dict[str, Sequence[Checkpoint]]
    )
    """The checkpoints that were made after a key was added."""

    def anchor(self, key: str) -> str:
        """Return the id of the details of a key."""
        return self.labels.get(key, CONCLUSION)


def timeline_of(document: SessionDocument) -> Timeline:
    """Order everything that was added to a session."""
    values: list[Thought | GraphNode] = [*document.thoughts, *document.nodes]
    values.sort(key=lambda value: (value.created_at, value.position or 0))
    steps = {value.id: number for number, value in enumerate(values, 1)}
    labels = {
        value.id: f"{'t' if isinstance(value, Thought) else 'n'}{value.position or steps[value.id]}"
        for value in values
    }
    flags: dict[str, list[Checkpoint]] = {}
    for checkpoint in document.checkpoints:
        before = [value for value in values if value.created_at <= checkpoint.created_at]
        if before:
            flags.setdefault(before[-1].id, []).append(checkpoint)
    left = {
        value.id: _left_at(value, values, steps)
        for value in values
        if value.abandoned_by is not None
    }
    if document.session.conclusion is not None:
        steps[CONCLUSION] = len(values) + 1
    return Timeline(steps=steps, labels=labels, left=left, flags=flags)


def _left_at(
    value: Thought | GraphNode,
    values: Sequence[Thought | GraphNode],
    steps: Mapping[str, int],
) -> int:
    """Return the step of the first backtrack after all that this one left behind."""
    together = [steps[one.id] for one in values if one.abandoned_by == value.abandoned_by]
    later = [
        steps[one.id]
        for one in values
        if isinstance(one, Thought) and one.mode == "backtracking" and steps[one.id] > max(together)
    ]
    return min(later, default=len(values))


def graph_of(document: SessionDocument, timeline: Timeline) -> Html:
    """Draw the thoughts and graphs of a session."""
    drawing = drawing_of(diagram_of(document))
    return h(
        "svg",
        h(
            "defs",
            h(
                "marker",
                h("path", d="M0 0 8 4 0 8z"),
                id="tip",
                viewBox="0 0 8 8",
                refX=8,
                refY=4,
                markerWidth=8,
                markerHeight=8,
                orient="auto",
            ),
        ),
        [_line(line, timeline) for line in drawing.lines],
        [_box(box, timeline) for box in drawing.boxes],
        **_size(drawing),
    )


def _size(drawing: Drawing) -> dict[str, str]:
    width, height = f"{drawing.width:.0f}", f"{drawing.height:.0f}"
    return {
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width} {height}",
        "role": "group",
        "aria_label": "Graph of thoughts",
    }


def _line(line: Line, timeline: Timeline) -> Html:
    arrow = line.arrow
    step = max(timeline.steps[arrow.source], timeline.steps[arrow.target])
    kind = "reference" if arrow.is_reference else "edge"
    return h(
        "path",
        h("title", arrow.label) if arrow.label else None,
        d=line.path,
        class_=f"{kind} {arrow.label.partition(':')[0]}".strip(),
        marker_end="url(#tip)",
        data_step=step,
    )


def classes_of(node: DiagramNode) -> str:
    """Return the classes by which a node is coloured: its kind, state and score."""
    names = ["node", f"is-{node.kind}"]
    names += ["faded"] * node.faded + ["active"] * node.is_active
    if node.score is not None:
        names.append("good" if node.score >= 0.8 else "fair" if node.score >= 0.5 else "poor")
    return " ".join(names)


def _box(box: Box, timeline: Timeline) -> Html:
    node, key = box.node, box.node.key
    label = timeline.labels.get(key)
    flags = timeline.flags.get(key, ())
    card = h(
        "div",
        h(
            "span",
            h("span", " · ".join(text for text in (label, node.kind, node.branch) if text)),
            h("b", f"{node.score:.2f}") if node.score is not None else None,
            class_="kind",
        ),
        h("span", shortened(node.text, 120), class_="said"),
        class_="card",
        xmlns="http://www.w3.org/1999/xhtml",
    )
    place = {"x": f"{box.x:.0f}", "y": f"{box.y:.0f}", "width": BOX_WIDTH, "height": BOX_HEIGHT}
    flag = (
        h(
            "text",
            f"⚑ {shortened(', '.join(one.name for one in flags), 16)}",
            class_="flag",
            x=f"{box.x + 4:.0f}",
            y=f"{box.y - 4:.0f}",
        )
        if flags
        else None
    )
    return h(
        "a",
        h("title", shortened(node.text, 300), f"\n{node.note}" if node.note else ""),
        h("rect", **place, rx=8),
        h("foreignObject", card, **place),
        flag,
        href=f"#{timeline.anchor(key)}",
        class_=classes_of(node),
        data_step=timeline.steps[key],
        data_left=timeline.left.get(key),
    )
