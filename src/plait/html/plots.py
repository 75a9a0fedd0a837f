"""The drawings of pages, as SVG that needs no script: a run in time, pass rates, distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from statistics import median

from plait.html.elements import Attribute, Html, h
from plait.html.pieces import seconds_label
from plait.html.steps import Step

_TICKS = 5
_TIMED = frozenset({"connect", "turn", "call", "incident"})
MAX_LANES = 5
"""Lanes for calls that overlap; further ones share the last. The style knows so many heights."""
MAX_BARS = 2_000
"""Bars of the overview; a longer run shows its longest steps. Screens have no more pixels."""
_BINS = 40
BEAT_SECONDS = 60
"""What a heartbeat shows."""
_OUTCOMES = {"passed": "c-good", "failed": "c-bad", "error": "c-incident"}
"""The parts of a bar from its top down, with their colours."""


def total_seconds(steps: Sequence[Step], seconds: float) -> float:
    """Return the length of the axis."""
    return max((seconds, 0.001, *(step.end for step in steps)))


def bar(step: Step, total: float) -> Html:
    """Draw the bar of a step; the page can rescale it by its view box."""
    least = total / 400  # something to see of what took no time
    has_none = step.kind in {"question", "end"}
    return _stretched(
        f"0 0 {_number(total)} 10",
        None if has_none else _rectangle(step, 1, 8, least),
        class_="bar",
        aria_hidden="true",
    )


def axis(total: float) -> Html:
    """Draw the times above the bars."""
    ticks = [
        h(
            "text",
            seconds_label(total * part / _TICKS) if part else "0",
            x=f"{100 * part / _TICKS}%",
            y=11,
            text_anchor="start" if part == 0 else "end" if part == _TICKS else "middle",
        )
        for part in range(_TICKS + 1)
    ]
    return h("svg", ticks, class_="axis", role="img", aria_label="time since the run began")


def overview(steps: Sequence[Step], total: float) -> Html | None:
    """Draw the whole run in one picture: the model above, the calls in lanes below it."""
    timed = [step for step in steps if step.kind in _TIMED]
    if len(timed) < 2:
        return None
    if len(timed) > MAX_BARS:
        timed = sorted(timed, key=lambda step: step.start - step.end)[:MAX_BARS]
    ends: list[float] = []
    bars: dict[str, Html] = {}
    for step in sorted(timed, key=lambda step: step.start):
        top, height = 1.0, 6.0
        if step.kind == "incident":  # a strip below the bars of the model
            top, height = 7.5, 2.0
        elif step.kind == "call":
            free = next((lane for lane, end in enumerate(ends) if end <= step.start), len(ends))
            if free == len(ends) and len(ends) < MAX_LANES:
                ends.append(0.0)
            lane = min(free, len(ends) - 1)
            ends[lane] = max(ends[lane], step.end)
            top, height = 10.0 * (lane + 1) + 1, 8.0
        bars[step.key] = _rectangle(step, top, height)
    picture = _stretched(
        f"0 0 {_number(total)} {10 * (len(ends) + 1)}",
        *(bars[step.key] for step in timed),
        class_="overview",
        role="img",
        aria_label="the model and its calls over time; drag to zoom",
        data_lanes=len(ends),
    )
    return h("div", picture, h("div", class_="picked", hidden=True), class_="zoomable")


def heartbeat(
    states: Sequence[tuple[float, str]], beats: Sequence[tuple[float, float, bool]], label: str
) -> Html:
    """Draw the last minute of a server: its states as a band, and its calls above it.

    `states` are when each began, in seconds since 1970, and the class of its colour; `beats` when
    calls began and ended, and whether they were lost. A script moves the picture on.
    """
    # Relative numbers: browsers keep coordinates with seven digits.
    base = int(states[0][0]) if states else 0
    shapes: list[Html] = []
    ends = [at for at, _ in states[1:]]
    for (at, colour), end in zip_longest(states, ends):
        width = 1_000_000 if end is None else end - at
        size: dict[str, Attribute] = {"y": 8, "height": 2, "width": _number(width)}
        if colour == "c-bad":  # a loss is seen, however short it was
            size = {"y": 0, "height": 10, "width": _number(max(0.6, width))}
        shapes.append(h("rect", x=_number(at - base), **size, class_=colour))
    for began, ended, is_lost in beats:
        colour = "c-bad" if is_lost else "c-call"
        width = _number(max(0.15, ended - began))
        shapes.append(h("rect", x=_number(began - base), width=width, y=1, height=6, class_=colour))
    return _stretched(
        f"0 0 {BEAT_SECONDS} 10",
        *shapes,
        class_="beats",
        role="img",
        aria_label=label,
        data_base=base,
        data_seconds=BEAT_SECONDS,
    )


def colour_of(step: Step) -> str:
    """Return the class of a step that decides its colour."""
    return "c-error" if step.failed else f"c-{step.kind}"


def _rectangle(step: Step, y: float, height: float, least: float = 0.0) -> Html:
    width = _number(max(least, step.end - step.start))
    return h(
        "rect", x=_number(step.start), y=_number(y), width=width, height=_number(height),
        class_=colour_of(step),
    )  # fmt: skip


def rate_plot(rate: float | None, low: float, high: float) -> Html:
    """Draw a pass rate from 0 to 1: a dot in its interval."""
    low, high = 100 * low, 100 * high
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


def trend(rates: Sequence[float]) -> Html | None:
    """Draw pass rates from 0 to 1 one after the other, the newest last; `None` of fewer than 2."""
    if len(rates) < 2:
        return None
    step = 100 / (len(rates) - 1)
    points = " ".join(
        f"{_number(at * step)},{_number(20 - 18 * rate)}" for at, rate in enumerate(rates)
    )
    line = h("polyline", points=points)
    label = f"pass rates, from {rates[0]:.0%} to {rates[-1]:.0%}"
    return _stretched("0 0 100 22", line, class_="trend", role="img", aria_label=label)


def histograms(
    title: str,
    groups: Sequence[tuple[str, Sequence[tuple[float | None, str]]]],
    label_of: Callable[[float], str],
) -> Html | None:
    """Draw how a number is distributed in each group, on one axis; `None` if it is not known.

    Each number comes with the outcome of its run.
    """
    known = [
        (name, [(value, outcome) for value, outcome in values if value is not None])
        for name, values in groups
    ]
    known = [(name, values) for name, values in known if values]
    if not known:
        return None
    most = max(value for _, values in known for value, _ in values) or 1.0
    pictures: list[Html] = []
    for name, values in known:
        counts = [dict.fromkeys(_OUTCOMES, 0) for _ in range(_BINS)]
        for value, outcome in values:
            counts[min(_BINS - 1, int(value / most * _BINS))][outcome] += 1
        highest = max(sum(each.values()) for each in counts)
        bars: list[Html] = []
        for place, each in enumerate(counts):
            top = float(highest)
            for outcome, colour in _OUTCOMES.items():
                top -= each[outcome]
                if each[outcome]:
                    size = {"x": place + 0.08, "width": 0.84, "y": top, "height": each[outcome]}
                    bars.append(h("rect", **size, class_=colour))
        middle = median(value for value, _ in values)
        place = min(float(_BINS), middle / most * _BINS)
        bars.append(h("line", x1=place, x2=place, y1=0, y2=highest, class_="median"))
        label = f"{name}, median {label_of(middle)}"
        picture = _stretched(f"0 0 {_BINS} {highest}", *bars, role="img", aria_label=label)
        pictures.append(h("div", h("p", label), picture, class_="histogram"))
    ticks = [h("span", label_of(most * part / 4) if part else "0") for part in range(5)]
    return h(
        "figure", h("figcaption", title), pictures, h("div", ticks, class_="ticks"), class_="plot"
    )


def _stretched(view_box: str, *content: Html | None, **attributes: str | int) -> Html:
    """Build a picture that fills the width and height that the style gives it."""
    shape = {"viewBox": view_box, "preserveAspectRatio": "none"}
    return h("svg", *content, **shape, **attributes)


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
