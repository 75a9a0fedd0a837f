"""A session is drawn in layers, with what was said about it, and no line crosses a box."""

from __future__ import annotations

import random
import re
import time
from bisect import bisect
from itertools import pairwise

import pytest

from plait.reasoning.diagram import (
    BOX_HEIGHT,
    BOX_WIDTH,
    Arrow,
    Diagram,
    DiagramNode,
    drawing_of,
    layered,
    read_document,
)
from plait.reasoning.export import EXPORTERS
from tests.unit.reasoning.conftest import Desk

ARROWS = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (4, 5), (0, 5), (3, 6), (5, 6), (8, 9)]


def test_nodes_stand_below_what_leads_to_them_and_arrows_have_their_own_way() -> None:
    layout = layered(10, ARROWS)

    places = {number: (round(x, 3), round(y)) for number, (x, y) in layout.nodes.items()}
    assert set(places) == set(range(10))
    for source, target in ARROWS:
        assert places[source][1] < places[target][1]
        rows = [places[source][1], *(round(y) for _, y in layout.bends[source, target])]
        assert [*rows, places[target][1]] == list(range(rows[0], places[target][1] + 1))
    taken = [*places.values()]
    taken += [(round(x, 3), round(y)) for bend in layout.bends.values() for x, y in bend]
    for one in taken:
        near = [x for x, y in taken if y == one[1] and x != one[0]]
        assert all(abs(x - one[0]) > 0.7 for x in near), one


@pytest.mark.anyio
async def test_every_format_shows_references_rationales_and_the_conclusion(desk: Desk) -> None:
    ways = [{"thought": f"way {n}", "rationale": f"cheap {n}"} for n in range(4)]
    await desk("linear", content="<the> question", session_id="s")
    await desk("tree", content="which?", session_id="s", branches=ways)
    await desk("tree_focus", session_id="s", branch_id="b3")
    refs = [{"to_branch": "b2", "type": "contradicts", "reason": "one excludes the other"}]
    await desk("tree", content="more", session_id="s", branches=ways, cross_refs=refs)
    await desk("tree_complete", session_id="s", branch_id="b2", completed=False)
    await desk("session_conclude", session_id="s", conclusion="Take way 1.", thought_ids=["t4"])
    session = await desk.store.get_session("s")
    assert session is not None
    document = await read_document(desk.store, session)

    for kind in ("markdown", "mermaid", "dot", "svg"):
        text = EXPORTERS[kind](document).content
        assert "contradicts: one excludes the other" in text.replace(
            "contradicts Option 1: way 0:", "contradicts:"
        ), kind
        assert "because: cheap 1" in text, kind
        assert "Take way 1." in text, kind


@pytest.mark.anyio
async def test_a_long_session_is_a_row_and_a_wide_one_a_column_of_readable_boxes(
    desk: Desk,
) -> None:
    for number in range(30):
        await desk("linear", content=f"step {number}", session_id="s")
    ways = [{"thought": f"way {n}"} for n in range(10)]
    await desk("got_init", content="root", session_id="wide")
    await desk("got_generate", session_id="wide", continuations=ways)

    sizes: dict[str, tuple[int, int]] = {}
    for key in ("s", "wide"):
        session = await desk.store.get_session(key)
        assert session is not None
        picture = EXPORTERS["svg"](await read_document(desk.store, session)).content
        found = re.search(r'width="(\d+)" height="(\d+)"', picture)
        assert found is not None
        sizes[key] = (int(found[1]), int(found[2]))
        lines = re.findall(r"M(\d+) (\d+) C", picture)
        assert len(lines) == {"s": 29, "wide": 10}[key]
        if key == "s":
            assert all(one[1] == two[1] for one, two in pairwise(lines))
    # Nothing is made smaller: texts stay as large as they are.
    assert sizes["s"] == (30 * (BOX_WIDTH + 56) - 56 + 48, BOX_HEIGHT + 48)
    assert sizes["wide"][0] < 700


def _way(path: str) -> list[tuple[float, float]]:
    """Return points along a path of M, C, H and V, close to each other."""
    points: list[tuple[float, float]] = []
    for letter, rest in re.findall(r"([MCHV])([^MCHV]*)", path):
        numbers = [float(number) for number in rest.split()]
        if letter == "M":
            points.append((numbers[0], numbers[1]))
            continue
        x0, y0 = points[-1]
        if letter in "HV":
            x1, y1 = (numbers[0], y0) if letter == "H" else (x0, numbers[0])
            steps = int(max(abs(x1 - x0), abs(y1 - y0)) // 10) + 1
            shares = [step / steps for step in range(1, steps + 1)]
            points += [(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t) for t in shares]
            continue
        xa, ya, xb, yb, x1, y1 = numbers
        for t in (step / 40 for step in range(1, 41)):
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            points.append((a * x0 + b * xa + c * xb + d * x1, a * y0 + b * ya + c * yb + d * y1))
    return points


def _large_diagram(seed: int, count: int = 500) -> Diagram:
    """Return branches, joins over several layers, and references in every direction."""
    draw = random.Random(seed)
    nodes = [DiagramNode(key=str(n), text=f"thought {n}", kind="linear") for n in range(count)]
    arrows: list[Arrow] = []
    for n in range(1, count):
        near = max(0, n - draw.choice((1, 3, 10, 40)))
        arrows.append(Arrow(source=str(draw.randint(near, n - 1)), target=str(n)))
        if n % 12 == 0:
            arrows.append(Arrow(source=str(draw.randint(0, n - 1)), target=str(n)))
        if n % 25 == 0:
            other = draw.choice([m for m in range(count) if m != n])
            arrows.append(Arrow(source=str(n), target=str(other), is_reference=True))
    return Diagram(nodes=nodes, arrows=arrows)


def test_500_thoughts_are_laid_out_at_once_and_no_line_passes_through_a_box() -> None:
    began = time.process_time()
    drawing = drawing_of(_large_diagram(seed=1))
    seconds = time.process_time() - began

    assert seconds < 2
    columns: dict[float, list[float]] = {}
    for x, y in sorted(drawing.corners.values()):
        columns.setdefault(x, []).append(y)
    lefts = list(columns)
    for ys in columns.values():
        assert all(two - one >= BOX_HEIGHT for one, two in pairwise(ys))
    for _arrow, path in drawing.paths:
        for x, y in _way(path):
            assert 0 <= x <= drawing.width
            assert 0 <= y <= drawing.height
            left = lefts[max(0, bisect(lefts, x) - 1)]
            top = columns[left][max(0, bisect(columns[left], y) - 1)]
            is_inside = 1 < y - top < BOX_HEIGHT - 1 and 1 < x - left < BOX_WIDTH - 1
            assert not is_inside, path


def test_ways_are_drawn_below_each_other_as_they_were_opened() -> None:
    layout = layered(6, [(0, 1), (0, 2), (0, 3), (2, 4), (4, 5)])

    assert [*sorted((1, 2, 3), key=lambda number: layout.nodes[number][0])] == [1, 2, 3]
