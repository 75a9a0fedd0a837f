"""The plot of benchmark results."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.compare.contenders import CONTENDERS, LIMIT
from benchmarks.compare.plot import COLORS, LEFT, RIGHT, WIDTH, Scale, svg
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import ROWS

SVG = "{http://www.w3.org/2000/svg}"


def test_the_plot_is_well_formed_and_has_a_dot_for_every_ratio() -> None:
    results = Results()
    shown = ROWS[:3]
    for place, contender in enumerate(CONTENDERS):
        for row in shown:
            sample = {"samples": [1.0 + place], "cpu": None}
            results.add(contender.id, 0, {row.id: sample})

    root = ElementTree.fromstring(svg(results, ROWS, CONTENDERS))

    dots = list(root.iter(f"{SVG}circle"))
    legend = len(CONTENDERS) - 1
    assert len(dots) == legend + len(shown) * (len(CONTENDERS) - 1)
    assert all(0 < float(dot.attrib["cx"]) < WIDTH for dot in dots)
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {row.title for row in shown} <= texts


def test_a_plot_of_nothing_is_well_formed() -> None:
    ElementTree.fromstring(svg(Results(), ROWS, CONTENDERS))


def test_every_contender_has_a_color_of_its_own() -> None:
    ids = [contender.id for contender in CONTENDERS if contender != LIMIT]

    assert sorted(COLORS) == sorted(ids)
    assert len(set(COLORS.values())) == len(ids)


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_scale_keeps_order_and_stays_within_the_plot(one: float, other: float) -> None:
    scale = Scale(0.01, 100)
    low, high = sorted([one, other])

    assert LEFT <= scale.x(low) <= scale.x(high) <= WIDTH - RIGHT


def test_ticks_are_round_numbers_within_the_scale() -> None:
    assert list(Scale(0.6, 21).ticks()) == [1, 2, 5, 10, 20]
