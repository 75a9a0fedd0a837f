"""A session as a page: its graph, its tree, its steps in time, and what was said about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from plait._support.redact import Redactor
from plait.reasoning.diagram import diagram_of, notes_of
from plait.reasoning.document import SessionDocument
from plait.reasoning.html_graph import (
    CONCLUSION,
    Timeline,
    classes_of,
    graph_of,
    timeline_of,
)
from plait.reasoning.prompts import shortened
from plait.reasoning.values import Branch, GraphNode, Thought
from plait.traces.html.elements import Html, h, join
from plait.traces.html.labels import count_label
from plait.traces.html.page import Site, page
from plait.traces.html.text import text_block, value_block

STYLE, SCRIPT = "thinking.css", "thinking.js"
"""The names of the files in the package, for a server of them."""

_KNOWN = frozenset({"revises", "revised_by"})
"""Metadata that is shown in words."""


def title_of(document: SessionDocument) -> str:
    """Return the start of what a session is about."""
    problems = [graph.problem for graph in document.graphs if graph.problem]
    first = [value.content for value in (*document.thoughts[:1], *document.nodes[:1])]
    return shortened(next(iter([*first, *problems]), document.session.id), 90)


def asset(name: str) -> str:
    """Return the text of the style sheet or the script of these pages."""
    return files("plait.reasoning").joinpath("assets", name).read_text("utf-8")


def thinking_page(document: SessionDocument, *, site: Site | None = None) -> str:
    """Build the page of a session; without a `site` it is one file that requests nothing."""
    if site is None:
        site = Site(inline_styles=(asset(STYLE),), inline_scripts=(asset(SCRIPT),))
    return page(title_of(document), thinking(document), site=site)


def thinking(document: SessionDocument) -> Html:
    """Show a whole session; secrets in it are redacted."""
    document = redacted(document)
    timeline = timeline_of(document)
    if not timeline.steps:
        return h("section", h("p", "This session has no thoughts yet.", class_="muted"))
    return h(
        "section",
        _head(document),
        _controls(timeline),
        h(
            "div",
            h("div", graph_of(document, timeline), class_="graph", tabindex=0),
            h("div", _tree(document, timeline), class_="tree"),
            h(
                "aside",
                _overview(document, timeline),
                [_article(one, document, timeline) for one in _in_order(document, timeline)],
                class_="details",
            ),
            class_="thoughts",
        ),
        class_="session",
    )


def redacted(document: SessionDocument) -> SessionDocument:
    """Return a session without what looks like a secret."""
    redact = Redactor()

    def inside(value: Any) -> Any:
        match value:
            case str():
                return redact(value)
            case dict():
                return {key: inside(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
            case list():
                return [inside(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
            case _:
                return value

    return replace(
        document,
        session=replace(document.session, conclusion=inside(document.session.conclusion)),
        thoughts=[
            replace(one, content=redact(one.content), metadata=inside(one.metadata))
            for one in document.thoughts
        ],
        nodes=[
            replace(one, content=redact(one.content), metadata=inside(one.metadata))
            for one in document.nodes
        ],
        graphs=[replace(one, problem=inside(one.problem)) for one in document.graphs],
        branches=[replace(one, name=redact(one.name)) for one in document.branches],
    )


def _head(document: SessionDocument) -> Html:
    session = document.session
    conclusion = session.conclusion
    facts = [
        session.mode,
        session.status,
        count_label(len(document.thoughts), "thought") if document.thoughts else None,
        count_label(len(document.nodes), "node") if document.nodes else None,
        count_label(len(document.checkpoints), "checkpoint") if document.checkpoints else None,
        f"{session.created_at[:16].replace('T', ' ')} UTC",
    ]
    return h(
        "header",
        h("h1", title_of(document)),
        h("p", [h("span", fact) for fact in facts if fact], class_="facts"),
        h("blockquote", str(conclusion.get("text", "")), class_="conclusion", dir="auto")
        if conclusion
        else None,
    )


def _controls(timeline: Timeline) -> Html:
    last = len(timeline.steps)
    return join(
        h("input", type="radio", name="view", id="view-graph", checked=True),
        h("input", type="radio", name="view", id="view-tree"),
        h(
            "nav",
            h(
                "span",
                h("label", "Graph", for_="view-graph"),
                h("label", "Tree", for_="view-tree"),
                class_="views",
            ),
            h(
                "span",
                h("button", "◀", type="button", data_move=-1, aria_label="Previous thought"),
                h(
                    "input",
                    type="range",
                    min=1,
                    max=last,
                    value=last,
                    aria_label="Step in time",
                ),
                h("button", "▶", type="button", data_move=1, aria_label="Next thought"),
                h("output", f"{last} of {last}"),
                class_="time",
            ),
            h(
                "span",
                h("button", "−", type="button", data_zoom="0.8", aria_label="Smaller"),
                h("button", "Fit", type="button", data_zoom="fit"),
                h("button", "+", type="button", data_zoom="1.25", aria_label="Larger"),
                class_="zoom",
            ),
            class_="controls",
        ),
    )


def _in_order(document: SessionDocument, timeline: Timeline) -> list[Thought | GraphNode]:
    values: list[Thought | GraphNode] = [*document.thoughts, *document.nodes]
    return sorted(values, key=lambda value: timeline.steps[value.id])


def _overview(document: SessionDocument, timeline: Timeline) -> Html:
    """Show what concerns the whole session: branches, references and checkpoints."""
    names = {branch.id: branch.name for branch in document.branches}
    active = document.session.active_branch_id
    conclusion = document.session.conclusion or {}
    grounds = [key for key in conclusion.get("thought_ids", ()) if key in timeline.labels]
    return h(
        "article",
        h("h2", "Conclusion") if conclusion else None,
        text_block(str(conclusion.get("text", ""))) if conclusion else None,
        _linked("rests on", grounds, timeline),
        h("h2", "Branches") if names else None,
        [_branch(branch, is_active=branch.id == active) for branch in document.branches],
        [
            h(
                "p",
                names.get(ref.from_branch_id, "?"),
                h("i", f" {ref.ref_type} "),
                names.get(ref.to_branch_id, "?"),
                f": {ref.reason}" if ref.reason else "",
                class_="ref",
            )
            for ref in document.cross_refs
        ],
        h("h2", "Checkpoints") if document.checkpoints else None,
        [
            h("p", f"⚑ {one.name}", f": {one.description}" if one.description else "")
            for one in document.checkpoints
        ],
        h("p", "Select a thought to read it.", class_="muted"),
        id=CONCLUSION,
        class_="summary",
    )


def _branch(branch: Branch, *, is_active: bool) -> Html:
    state = "followed now" if is_active else branch.state
    name = h("b", branch.name)
    return h("p", name, f" {state}, {branch.confidence:.2f}", class_=f"branch {branch.state}")


def _linked(word: str, keys: Sequence[str], timeline: Timeline) -> Html | None:
    if not keys:
        return None
    links = [h("a", timeline.anchor(key), href=f"#{timeline.anchor(key)}") for key in keys]
    return h("p", f"{word} ", [join(link, " ") for link in links], class_="links")


def _article(value: Thought | GraphNode, document: SessionDocument, timeline: Timeline) -> Html:
    """Show one thought or node with everything that is known about it."""
    is_thought = isinstance(value, Thought)
    score = value.confidence if is_thought else value.score
    kind = value.mode if is_thought else value.node_type
    branches = {branch.id: branch for branch in document.branches}
    branch = branches.get(value.branch_id or "") if is_thought else None
    metadata: Mapping[str, Any] = value.metadata or {}
    above, below = _neighbours(value, document)
    more = {key: one for key, one in metadata.items() if key not in _KNOWN and one is not None}
    facts = [
        kind,
        None if score is None else f"score {score:.2f}",
        branch and f"branch {branch.name}",
        "left behind" if value.abandoned_by else None,
        value.created_at[11:19],
    ]
    return h(
        "article",
        h("h2", timeline.anchor(value.id)),
        h("p", [h("span", fact) for fact in facts if fact], class_="facts"),
        text_block(value.content),
        h("ul", [h("li", note) for note in notes_of(metadata)], class_="notes"),
        _linked("comes from", [key for key in above if key in timeline.labels], timeline),
        _linked("leads to", [key for key in below if key in timeline.labels], timeline),
        h("details", h("summary", "All that is stored"), value_block(more)) if more else None,
        id=timeline.anchor(value.id),
    )


def _neighbours(
    value: Thought | GraphNode, document: SessionDocument
) -> tuple[list[str], list[str]]:
    """Return the keys before and after a thought or node."""
    if isinstance(value, Thought):
        above = [value.parent_id] if value.parent_id else []
        return above, [one.id for one in document.thoughts if one.parent_id == value.id]
    return (
        [edge.from_node for edge in document.edges if edge.to_node == value.id],
        [edge.to_node for edge in document.edges if edge.from_node == value.id],
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
            h("span", shortened(node.text, 200), dir="auto"),
            [h("span", f"⚑ {one.name}", class_="flag") for one in timeline.flags.get(key, ())],
            href=f"#{timeline.anchor(key)}",
            class_=classes_of(node),
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
