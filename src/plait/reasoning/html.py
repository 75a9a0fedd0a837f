"""A session as a page: its graph, its tree, its steps in time, and what was said about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from plait._support.exception_groups import one_line
from plait._support.redact import Redactor
from plait.html.elements import Html, h, join
from plait.html.page import Site, asset, page
from plait.html.pieces import count_label
from plait.html.text import text_block, value_block
from plait.reasoning.diagram import (
    BOX_HEIGHT,
    BOX_WIDTH,
    DiagramNode,
    Point,
    SessionDocument,
    branch_names,
    diagram_of,
    drawing_of,
    notes_of,
)
from plait.reasoning.values import Checkpoint, GraphNode, Thought, Value

STYLE, SCRIPT = "thinking.css", "thinking.js"
"""The names of the files in the package, for a server of them."""

_KNOWN = frozenset({"revises", "revised_by"})
"""Metadata that is shown in words."""

_KINDS = {
    "linear": "step",
    "tree": "ways to go on",
    "divergent": "perspectives",
    "backtracking": "went back",
}
"""What the thoughts of a mode are, where its name does not say it."""
_MODES = {
    "linear": "step by step",
    "tree": "tree of ways",
    "divergent": "perspectives",
    "got": "graph of thoughts",
    "auto": "chosen by the question",
}


def mode_label(mode: str) -> str:
    """Return how a session thinks, in words."""
    return _MODES.get(mode, mode)


CONCLUSION = "conclusion"
"""The key of the conclusion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The order in which thoughts, nodes and the conclusion were added."""

    values: Sequence[Thought | GraphNode]
    steps: Mapping[str, int]
    """The step of each key, from 1."""
    labels: Mapping[str, str]
    """Short ids such as `t12`, by key."""
    left: Mapping[str, int]
    """The step at which a key was left behind by a backtrack."""
    flags: Mapping[str, Sequence[Checkpoint]]
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
    # Left behind at the first backtrack after all that went with it.
    left: dict[str, int] = {}
    turns = [steps[one.id] for one in document.thoughts if one.mode == "backtracking"]
    for value in values:
        if value.abandoned_by is not None:
            together = [steps[one.id] for one in values if one.abandoned_by == value.abandoned_by]
            later = [turn for turn in turns if turn > max(together)]
            left[value.id] = min(later, default=len(values))
    if document.session.conclusion is not None:
        steps[CONCLUSION] = len(values) + 1
    return Timeline(values=values, steps=steps, labels=labels, left=left, flags=flags)


def title_of(document: SessionDocument) -> str:
    """Return the start of what a session is about, without secrets."""
    problems = [graph.problem for graph in document.graphs if graph.problem]
    first = [value.content for value in (*document.thoughts[:1], *document.nodes[:1])]
    return one_line(Redactor()([*first, *problems, document.session.id][0]), 90)


def thinking_page(document: SessionDocument) -> str:
    """Build the page of a session: one file that requests nothing."""
    site = Site(inline_styles=(asset(STYLE),), inline_scripts=(asset(SCRIPT),))
    return page(title_of(document), thinking(document), site=site)


def thinking(document: SessionDocument) -> Html:
    """Show a whole session; secrets in it are redacted."""
    document = _redact_values(document, Redactor())
    timeline = timeline_of(document)
    if not timeline.steps:
        return h("section", h("p", "This session has no thoughts yet.", class_="muted"))
    session, conclusion = document.session, document.session.conclusion
    counts = {
        "thought": len(document.thoughts),
        "node": len(document.nodes),
        "checkpoint": len(document.checkpoints),
    }
    facts = [
        mode_label(session.mode),
        session.status,
        *(count_label(count, name) for name, count in counts.items() if count),
        f"{session.created_at[:16].replace('T', ' ')} UTC",
    ]
    said = str(conclusion.get("text", "")) if conclusion else ""
    head = h(
        "header",
        h("h1", title_of(document)),
        h("p", [h("span", fact) for fact in facts], class_="facts"),
        h("blockquote", said, class_="conclusion", dir="auto") if conclusion else None,
    )
    articles = [_article(value, document, timeline) for value in timeline.values]
    views = h(
        "div",
        h("div", _graph(document, timeline), class_="graph", tabindex=0),
        h("div", _tree(document, timeline), class_="tree"),
        h("aside", _overview(document, timeline), articles, class_="details"),
        class_="thoughts",
    )
    return h("section", head, _controls(timeline), views, class_="session")


def _redact_values(value: Any, redact: Redactor) -> Any:
    """Return a session, or a part of it, without what looks like a secret."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            items = cast("Mapping[str, Any]", value).items()
            return {key: _redact_values(one, redact) for key, one in items}
        case list() | tuple():
            return [_redact_values(one, redact) for one in cast("Sequence[Any]", value)]
        case SessionDocument() | Value():
            parts = {part.name: getattr(value, part.name) for part in fields(value)}
            return replace(value, **_redact_values(parts, redact))
        case _:
            return value


def _controls(timeline: Timeline) -> Html:
    last = len(timeline.steps)
    step = h("input", type="range", min=1, max=last, value=last, aria_label="Step in time")
    back = h("button", "◀", type="button", data_move=-1, aria_label="Previous thought")
    on = h("button", "▶", type="button", data_move=1, aria_label="Next thought")
    smaller = h("button", "−", type="button", data_zoom="0.8", aria_label="Smaller")
    fit = h("button", "Fit", type="button", data_zoom="fit")
    larger = h("button", "+", type="button", data_zoom="1.25", aria_label="Larger")
    views = (h("label", "Graph", for_="view-graph"), h("label", "Tree", for_="view-tree"))
    return join(
        h("input", type="radio", name="view", id="view-graph", checked=True),
        h("input", type="radio", name="view", id="view-tree"),
        h(
            "nav",
            h("span", *views, class_="views"),
            h("span", back, step, on, h("output", f"{last} of {last}"), class_="time"),
            h("span", smaller, fit, larger, class_="zoom"),
            class_="controls",
        ),
    )


def _overview(document: SessionDocument, timeline: Timeline) -> Html:
    """Show what concerns the whole session: branches, references and checkpoints."""
    names = branch_names(document)
    conclusion = document.session.conclusion or {}
    parts: list[Html | None] = []
    if conclusion:
        parts += [h("h2", "Conclusion"), text_block(str(conclusion.get("text", "")))]
    parts.append(_links("rests on", conclusion.get("thought_ids", ()), timeline))
    if names:
        parts.append(h("h2", "Branches"))
    for branch in document.branches:
        is_active = branch.id == document.session.active_branch_id
        score = "" if branch.score is None else f", {branch.score:.2f}"
        state = f" {'followed now' if is_active else branch.state}{score}"
        parts.append(h("p", h("b", names[branch.id]), state, class_=f"branch {branch.state}"))
    for ref in document.cross_refs:
        source, target = names.get(ref.from_branch_id, "?"), names.get(ref.to_branch_id, "?")
        why = f": {ref.reason}" if ref.reason else ""
        parts.append(h("p", source, h("i", f" {ref.ref_type} "), target, why, class_="ref"))
    if document.checkpoints:
        parts.append(h("h2", "Checkpoints"))
    for one in document.checkpoints:
        parts.append(h("p", f"⚑ {one.name}", f": {one.description}" if one.description else ""))
    parts.append(h("p", "Select a thought to read it.", class_="muted"))
    return h("article", parts, id=CONCLUSION, class_="summary")


def _links(word: str, keys: Sequence[str], timeline: Timeline) -> Html | None:
    anchors = [timeline.labels[key] for key in keys if key in timeline.labels]
    links = [join(h("a", anchor, href=f"#{anchor}"), " ") for anchor in anchors]
    return h("p", f"{word} ", links, class_="links") if links else None


def _article(value: Thought | GraphNode, document: SessionDocument, timeline: Timeline) -> Html:
    """Show one thought or node with everything that is known about it."""
    metadata: Mapping[str, Any] = value.metadata or {}
    if isinstance(value, Thought):
        kind, score = _KINDS.get(value.mode, value.mode), value.score
        branch = branch_names(document).get(value.branch_id or "")
        names = [f"branch “{branch}”"] if branch else []
        above = [value.parent_id] if value.parent_id else []
        below = [one.id for one in document.thoughts if one.parent_id == value.id]
    else:
        kind, score, names = value.node_type, value.score, []
        above = [edge.from_node for edge in document.edges if edge.to_node == value.id]
        below = [edge.to_node for edge in document.edges if edge.from_node == value.id]
    more = {key: one for key, one in metadata.items() if key not in _KNOWN and one is not None}
    facts = [
        kind,
        None if score is None else f"score {score:.2f}",
        *names,
        "left behind" if value.abandoned_by else None,
        value.created_at[11:19],
    ]
    anchor = timeline.anchor(value.id)
    return h(
        "article",
        h("h2", anchor),
        h("p", [h("span", fact) for fact in facts if fact], class_="facts"),
        text_block(value.content),
        h("ul", [h("li", note) for note in notes_of(metadata)], class_="notes"),
        _links("comes from", above, timeline),
        _links("leads to", below, timeline),
        h("details", h("summary", "All that is stored"), value_block(more)) if more else None,
        id=anchor,
    )


def _tree(document: SessionDocument, timeline: Timeline) -> Html:
    """Show every thought once, below what it first came from; a chain stays at one level."""
    diagram = diagram_of(document)
    nodes = {node.key: node for node in diagram.nodes if node.key != CONCLUSION}
    children: dict[str, list[str]] = {}
    placed: set[str] = set()
    for arrow in diagram.arrows:
        is_step = not arrow.is_reference and arrow.target in nodes and arrow.source in nodes
        if is_step and arrow.target not in placed:
            placed.add(arrow.target)
            children.setdefault(arrow.source, []).append(arrow.target)

    def line(key: str) -> Html:
        node = nodes[key]
        return h(
            "a",
            h("b", timeline.anchor(key)),
            h("i", f"{node.score:.2f}") if node.score is not None else None,
            h("span", node.branch, class_="branch") if node.branch else None,
            h("span", one_line(node.text, 200), dir="auto"),
            [h("span", f"⚑ {one.name}", class_="flag") for one in timeline.flags.get(key, ())],
            href=f"#{timeline.anchor(key)}",
            class_=_classes(node),
            data_step=timeline.steps[key],
            data_left=timeline.left.get(key),
        )

    def chain(key: str) -> Iterator[Html]:
        while True:
            following = children.get(key, [])
            inner = [h("ul", list(chain(one))) for one in following] if len(following) > 1 else None
            yield h("li", line(key), inner)
            if len(following) != 1:
                return
            key = following[0]

    roots = [key for key in nodes if key not in placed]
    return h("ul", [list(chain(key)) for key in roots])


def _graph(document: SessionDocument, timeline: Timeline) -> Html:
    """Draw the thoughts and graphs of a session, as boxes that link to their details."""
    diagram = diagram_of(document)
    drawing = drawing_of(diagram)
    width, height = f"{drawing.width:.0f}", f"{drawing.height:.0f}"
    size = {"markerWidth": 8, "markerHeight": 8, "orient": "auto"}
    tip = h("path", d="M0 0 8 4 0 8z")
    lines: list[Html] = []
    for arrow, path in drawing.paths:
        kind = "reference" if arrow.is_reference else "edge"
        line = h(
            "path",
            h("title", arrow.label) if arrow.label else None,
            d=path,
            class_=f"{kind} {arrow.label.partition(':')[0]}".strip(),
            marker_end="url(#tip)",
            data_step=max(timeline.steps[arrow.source], timeline.steps[arrow.target]),
        )
        lines.append(line)
    return h(
        "svg",
        h("defs", h("marker", tip, id="tip", viewBox="0 0 8 8", refX=8, refY=4, **size)),
        lines,
        [_box(node, drawing.corners[node.key], timeline) for node in diagram.nodes],
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="group",
        aria_label="Graph of thoughts",
    )


def _box(node: DiagramNode, corner: Point, timeline: Timeline) -> Html:
    key, (x, y) = node.key, corner
    # A branch that is named after its first thought needs no second name.
    text = " ".join(node.text.split())
    branch = "" if text.startswith(node.branch.rstrip(".…")) else node.branch
    names = (timeline.labels.get(key), _KINDS.get(node.kind, node.kind), branch)
    kind = h("span", " · ".join(filter(None, names)))
    score = h("b", f"{node.score:.2f}") if node.score is not None else None
    said = h("span", one_line(node.text, 120), class_="said")
    space = "http://www.w3.org/1999/xhtml"
    card = h("div", h("span", kind, score, class_="kind"), said, class_="card", xmlns=space)
    place = {"x": f"{x:.0f}", "y": f"{y:.0f}", "width": BOX_WIDTH, "height": BOX_HEIGHT}
    flag = None
    if flags := timeline.flags.get(key):
        text = f"⚑ {one_line(', '.join(one.name for one in flags), 16)}"
        flag = h("text", text, class_="flag", x=f"{x + 4:.0f}", y=f"{y - 4:.0f}")
    return h(
        "a",
        h("title", one_line(node.text, 300), f"\n{node.note}" if node.note else ""),
        h("rect", **place, rx=8),
        h("foreignObject", card, **place),
        flag,
        href=f"#{timeline.anchor(key)}",
        class_=_classes(node),
        data_step=timeline.steps[key],
        data_left=timeline.left.get(key),
    )


def _classes(node: DiagramNode) -> str:
    """Return the classes by which a node is coloured: its kind, state and score."""
    names = ["node", f"is-{node.kind}"]
    names += ["faded"] * node.faded + ["active"] * node.is_active
    if node.score is not None:
        names.append("good" if node.score >= 0.8 else "fair" if node.score >= 0.5 else "poor")
    return " ".join(names)
