"""A whole session as it is exported, and drawn: what leads from one thought to another.

Nodes stand in layers, and arrows pass between them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final, TypeAlias

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


_MADE_NAME = re.compile(r"Root|Branch from [0-9a-f]{8}")


def branch_names(document: SessionDocument) -> dict[str, str]:
    """Return what each branch is about, by its id: its name, unless that was made up for it."""
    first: dict[str | None, str] = {}
    for thought in document.thoughts:
        first.setdefault(thought.branch_id, one_line(thought.content, 40))
    return {
        branch.id: first.get(branch.id, branch.name)
        if _MADE_NAME.fullmatch(branch.name)
        else re.sub(r"^Option \d+: ", "", branch.name)
        for branch in document.branches
    }


def diagram_of(document: SessionDocument) -> Diagram:
    """Return a session as a diagram: thoughts by parent, graphs by edge, and the conclusion."""
    branches = {branch.id: branch for branch in document.branches}
    names = branch_names(document)
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
            score=thought.score,
            note=escaped(note_of(thought.metadata)),
            branch=escaped(names[branch.id]) if branch and begins else "",
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


Point: TypeAlias = tuple[float, float]

SCREEN_HEIGHT: Final = 800
"""Parts without a connection stand below each other up to here."""

BOX_WIDTH, BOX_HEIGHT = 250, 60
_GAP_X, _GAP_Y = 56, 22
_COLUMN, _ROW = BOX_WIDTH + _GAP_X, BOX_HEIGHT + _GAP_Y
_MARGIN = 24

_LANE = 12
"""The distance of a reference from the column right of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The rows and layers of nodes, and those through which arrows pass; layers go to the right."""

    nodes: Mapping[int, Point]
    bends: Mapping[tuple[int, int], Sequence[Point]]
    """By source and target; only an arrow across other rows has any."""


def layered(count: int, arrows: Sequence[tuple[int, int]]) -> Layout:
    """Lay out nodes that are numbered from 0; parts without a connection stand side by side."""
    own = sorted(set(arrows))
    # Pages of the viewer import this module, and may never draw.
    from fast_sugiyama import from_edges  # noqa: PLC0415

    parts: list[Layout] = []
    found = from_edges(own, vertex_spacing=1.0, dummy_vertices=True) if own else ()
    for positions, _width, height, edges in found:
        places = {int(key): (float(x), float(height - y)) for key, (x, y) in positions}
        # Mirrored where later nodes are mostly left of earlier ones in their row.
        rows: dict[float, list[float]] = {}
        for number in sorted(number for number in places if number < count):
            x, y = places[number]
            rows.setdefault(y, []).append(x)
        pairs = [pair for row in rows.values() for pair in pairwise(row)]
        if sum((later > earlier) - (later < earlier) for earlier, later in pairs) < 0:
            places = {number: (-x, y) for number, (x, y) in places.items()}
        # Long arrows are cut at invisible nodes, numbered from `count`: their pieces are joined.
        following = {int(source): int(target) for source, target in edges or ()}
        bends: dict[tuple[int, int], list[Point]] = {}
        for source, target in edges or ():
            points: list[Point] = []
            end = int(target)
            while end >= count:
                points.append(places[end])
                end = following[end]
            if int(source) < count:
                bends[int(source), end] = points
        nodes = {number: place for number, place in places.items() if number < count}
        parts.append(Layout(nodes=nodes, bends=bends))
    connected = {number for arrow in own for number in arrow}
    alone = [number for number in range(count) if number not in connected]
    return _side_by_side([*parts, *(Layout(nodes={one: (0, 0)}, bends={}) for one in alone)])


def _side_by_side(parts: Sequence[Layout]) -> Layout:
    """Place parts below each other, if a screen is high enough, and else beside each other."""
    nodes: dict[int, Point] = {}
    bends: dict[tuple[int, int], list[Point]] = {}
    left = top = height = 0.0
    for part in sorted(parts, key=lambda one: min(one.nodes, default=0)):
        points = [*part.nodes.values(), *(p for bend in part.bends.values() for p in bend)]
        x0, y0 = min(x for x, _ in points), min(y for _, y in points)
        wide, high = max(x for x, _ in points) - x0 + 1, max(y for _, y in points) - y0 + 1
        if left and (left + wide) * _ROW > SCREEN_HEIGHT:
            left, top, height = 0.0, top + height, 0.0
        dx, dy = left - x0, top - y0
        nodes |= {number: (x + dx, y + dy) for number, (x, y) in part.nodes.items()}
        bends |= {arrow: [(x + dx, y + dy) for x, y in bend] for arrow, bend in part.bends.items()}
        left, height = left + wide, max(height, high)
    return Layout(nodes=nodes, bends=bends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A diagram in coordinates; no line passes through a box."""

    corners: Mapping[str, Point]
    """The corner of each box, at the top on the left, by the key of its node."""
    paths: Sequence[tuple[Arrow, str]]
    """Each arrow, and its way as the path of an SVG."""
    width: float
    height: float


def _corner(place: Point) -> Point:
    return _MARGIN + place[1] * _COLUMN, _MARGIN + place[0] * _ROW


def drawing_of(diagram: Diagram) -> Drawing:
    """Place every box and every line of a diagram."""
    numbers = {node.key: number for number, node in enumerate(diagram.nodes)}
    solid = [
        (numbers[arrow.source], numbers[arrow.target])
        for arrow in diagram.arrows
        if not arrow.is_reference
    ]
    layout = layered(len(numbers), solid)
    places = {node.key: _corner(layout.nodes[numbers[node.key]]) for node in diagram.nodes}
    corners = [*places.values(), *(_corner(p) for bend in layout.bends.values() for p in bend)]
    width = max((x for x, _ in corners), default=0) + BOX_WIDTH + _MARGIN
    bottom = max((y for _, y in corners), default=0) + BOX_HEIGHT

    def path_of(arrow: Arrow) -> str:
        source, target = places[arrow.source], places[arrow.target]
        if arrow.is_reference:
            # Left of the columns of the two boxes, and along the edge if the columns differ.
            (x1, y1), (x2, y2) = source, target
            out, into = y1 + BOX_HEIGHT * 0.8, y2 + BOX_HEIGHT * 0.2
            edge = f" V{bottom + _MARGIN / 2:.0f} H{x2 - _LANE:.0f}" if x1 != x2 else ""
            return f"M{x1:.0f} {out:.0f} H{x1 - _LANE:.0f}{edge} V{into:.0f} H{x2:.0f}"
        # From box to box in a curve, and straight on where it passes other columns.
        bend = layout.bends.get((numbers[arrow.source], numbers[arrow.target]), ())
        points = [source, *map(_corner, bend), target]
        middle = BOX_HEIGHT / 2
        path = f"M{source[0] + BOX_WIDTH:.0f} {source[1] + middle:.0f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            half = (x1 + BOX_WIDTH + x2) / 2
            path += f" C{half:.0f} {y1 + middle:.0f} {half:.0f} {y2 + middle:.0f}"
            path += f" {x2:.0f} {y2 + middle:.0f}"
            if (x2, y2) != target:
                path += f" H{x2 + BOX_WIDTH:.0f}"
        return path

    return Drawing(
        corners=places,
        paths=[(arrow, path_of(arrow)) for arrow in diagram.arrows],
        width=width,
        height=bottom + _MARGIN,
    )


def svg_of(diagram: Diagram) -> str:
    """Draw a diagram."""
    drawing = drawing_of(diagram)
    width, height = drawing.width, drawing.height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="12">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>'
    )
    lines = [head]
    for arrow, path in drawing.paths:
        dashed = ' stroke-dasharray="4 3"' if arrow.is_reference else ""
        lines.append(
            f'<path d="{path}" fill="none" stroke="#667"{dashed} marker-end="url(#tip)">'
            f"<title>{escape(arrow.label)}</title></path>"
        )
    for node in diagram.nodes:
        x, y = drawing.corners[node.key]
        heading = f"{node.kind} · {node.branch}" if node.branch else node.kind
        faded = ' opacity="0.4"' if node.faded else ""
        fill = "#dfd" if node.kind in {"conclusion", "terminal"} else "#eef"
        stroke = 'stroke="#147" stroke-width="2"' if node.is_active else 'stroke="#667"'
        title = escape(escaped(f"{node.text}\n{node.note}" if node.note else node.text))
        lines.append(
            f'<g{faded}><title>{title}</title><rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="6" fill="{fill}" {stroke}/>'
            f'<text x="{x + 8:.0f}" y="{y + 17:.0f}" fill="#667">'
            f"{escape(one_line(heading, 38))}</text>"
            f'<text x="{x + 8:.0f}" y="{y + 35:.0f}">{escape(label_of(node, 32))}</text>'
        )
        if node.note:
            lines[-1] += (
                f'<text x="{x + 8:.0f}" y="{y + 51:.0f}" fill="#667" font-size="10">'
                f"{escape(one_line(node.note, 44))}</text>"
            )
        lines[-1] += "</g>"
    return "\n".join([*lines, "</svg>"]) + "\n"
