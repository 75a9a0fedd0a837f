"""Plots of a report, drawn as SVG: pass rates with their intervals, times and costs of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from plait.traces.html.elements import Html, h
from plait.verification.results import CaseResult
from plait.verification.statistics import Interval

_BINS = 40
_OUTCOMES = ("passed", "failed", "error")
_COLOURS = {"passed": "c-good", "failed": "c-bad", "error": "c-incident"}


def rate_plot(rate: float | None, interval: Interval) -> Html:
    """Draw a pass rate from 0 to 1: a dot in its interval."""
    low, high = 100 * interval.low, 100 * interval.high
    dot = None if rate is None else h("circle", cx=f"{100 * rate:.2f}%", cy="50%", r="4.5")
    return h(
        "svg",
        h("line", x1="0%", x2="100%", y1="50%", y2="50%", class_="axis-line"),
        h("line", x1=f"{low:.2f}%", x2=f"{high:.2f}%", y1="50%", y2="50%", class_="whisker"),
        dot,
        class_="rate",
        role="img",
        aria_label=f"from {low:.0f} % to {high:.0f} %",
    )


def histograms(
    title: str,
    groups: Sequence[tuple[str, Sequence[CaseResult]]],
    value_of: Callable[[CaseResult], float | None],
    label_of: Callable[[float], str],
) -> Html | None:
    """Draw how a number is distributed in each group, on one axis; `None` if it is not known."""
    known: list[tuple[str, list[tuple[float, str]]]] = []
    for name, results in groups:
        values = [(value_of(one), one.outcome) for one in results]
        if found := [(value, outcome) for value, outcome in values if value is not None]:
            known.append((name, found))
    if not known:
        return None
    most = max(value for _, values in known for value, _ in values) or 1.0
    ticks = [h("span", label_of(most * part / 4) if part else "0") for part in range(5)]
    return h(
        "figure",
        h("figcaption", title),
        [_histogram(name, values, most, label_of) for name, values in known],
        h("div", ticks, class_="ticks"),
        class_="plot",
    )


def _histogram(
    name: str,
    values: Sequence[tuple[float, str]],
    most: float,
    label_of: Callable[[float], str],
) -> Html:
    counts: list[dict[str, int]] = [dict.fromkeys(_OUTCOMES, 0) for _ in range(_BINS)]
    for value, outcome in values:
        counts[min(_BINS - 1, int(value / most * _BINS))][outcome] += 1
    highest = max(sum(bin_.values()) for bin_ in counts)
    bars: list[Html] = []
    for place, bin_ in enumerate(counts):
        top = float(highest)
        for outcome in _OUTCOMES:
            top -= bin_[outcome]
            if bin_[outcome]:
                size = {"x": place + 0.08, "width": 0.84, "y": top, "height": bin_[outcome]}
                bars.append(h("rect", **size, class_=_COLOURS[outcome]))
    middle = median(value for value, _ in values)
    place = min(float(_BINS), middle / most * _BINS)
    bars.append(h("line", x1=place, x2=place, y1=0, y2=highest, class_="median"))
    label = f"{name}, median {label_of(middle)}"
    picture = h(
        "svg",
        bars,
        viewBox=f"0 0 {_BINS} {highest}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return h("div", h("p", label), picture, class_="histogram")
