"""The waterfall of a run: bars in seconds of the run, drawn as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.traces.html.elements import Html, h
from plait.traces.html.labels import seconds_label
from plait.traces.html.steps import Step

_TICKS = 5
_MOST_LANES = 5
"""Lanes for calls that overlap; further ones share the last."""
_MOST_BARS = 2_000
"""Bars of the overview: of a longer run, those of the longest steps."""


def total_seconds(steps: Sequence[Step], seconds: float) -> float:
    """Return the length of the axis."""
    return max((seconds, 0.001, *(step.end for step in steps)))


def bar(step: Step, total: float) -> Html:
    """Draw the bar of a step; the page can rescale it by its view box."""
    least = total / 400  # something to see of what took no time
    return h(
        "svg",
        None if step.kind in {"question", "end"} else _rectangle(step, 1, 8, least),
        class_="bar",
        viewBox=f"0 0 {_number(total)} 10",
        preserveAspectRatio="none",
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
    timed = [step for step in steps if step.kind in {"turn", "call", "incident"}]
    if len(timed) < 2:
        return None
    if len(timed) > _MOST_BARS:
        timed = sorted(timed, key=lambda step: step.start - step.end)[:_MOST_BARS]
    lanes = _lanes([step for step in timed if step.kind == "call"])
    count = max(lanes.values(), default=-1) + 1
    bars = [_rectangle(step, *_place(step, lanes)) for step in timed]
    return h(
        "svg",
        bars,
        class_="overview",
        viewBox=f"0 0 {_number(total)} {10 * (count + 1)}",
        preserveAspectRatio="none",
        role="img",
        aria_label="the model and its calls over time",
        data_lanes=count,
    )


def _place(step: Step, lanes: Mapping[str, int]) -> tuple[float, float]:
    """Return top and height of a step: an incident is a strip below the model's bars."""
    match step.kind:
        case "call":
            return 10 * (lanes[step.key] + 1) + 1, 8
        case "incident":
            return 7.5, 2
        case _:
            return 1, 6


def _lanes(calls: Sequence[Step]) -> dict[str, int]:
    ends: list[float] = []
    lanes: dict[str, int] = {}
    for step in sorted(calls, key=lambda step: step.start):
        free = next((lane for lane, end in enumerate(ends) if end <= step.start), len(ends))
        if free == len(ends) and len(ends) < _MOST_LANES:
            ends.append(0.0)
        lane = min(free, len(ends) - 1)
        ends[lane] = max(ends[lane], step.end)
        lanes[step.key] = lane
    return lanes


def _rectangle(step: Step, y: float, height: float, least: float = 0.0) -> Html:
    return h(
        "rect",
        x=_number(step.start),
        y=y,
        width=_number(max(least, step.end - step.start)),
        height=height,
        class_=colour_of(step),
    )


def colour_of(step: Step) -> str:
    """Return the class of a step that decides its colour."""
    if step.failed:
        return "c-error"
    return f"c-{step.kind}"


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
