"""The plot: for each row, how many times the limit each contender takes, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from benchmarks.compare.contenders import LIMIT, Contender
from benchmarks.compare.results import Results
from benchmarks.compare.scenarios import Row

WIDTH = 1080
LEFT, RIGHT = 330, 36
TOP = 118
LINE_HEIGHT = 26
GROUP_HEIGHT = 34
BOTTOM = 46

COLORS = {
    "plait": "#d1242f",
    "plait-own": "#e8702a",
    "toolbox": "#b4690e",
    "mcp": "#0969da",
    "node": "#1a7f37",
    "adapters": "#8250df",
    "adapters-per-call": "#c297ff",
    "langchain.mcp": "#0e8a8a",
    "mcp-use": "#6e7781",
}
INK, FAINT, GRID = "#1f2328", "#656d76", "#e4e7eb"
FONT = "-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis from `low` to `high`."""

    low: float
    high: float

    def x(self, value: float) -> float:
        """Return the place of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> Iterator[float]:
        """Yield 1, 2, 5, 10 … within the axis."""
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for digit in (1, 2, 5):
                if self.low <= digit * 10.0**power <= self.high:
                    yield digit * 10.0**power


def svg(results: Results, rows: Sequence[Row], contenders: Sequence[Contender]) -> str:
    """Draw the plot; rows without a limit are left out."""
    shown = [contender for contender in contenders if contender != LIMIT]
    ratios = {
        row: {
            contender: wall
            for contender in shown
            if (wall := results.ratio(contender.id, LIMIT.id, row.id).wall) is not None and wall > 0
        }
        for row in rows
    }
    drawn = [row for row in rows if ratios[row]]
    scale = _scale([value for row in drawn for value in ratios[row].values()])
    groups = list(dict.fromkeys(row.group for row in drawn))
    height = TOP + LINE_HEIGHT * len(drawn) + GROUP_HEIGHT * len(groups) + BOTTOM
    body = [*_legend(shown), *_axis(scale, height - BOTTOM)]
    y = TOP
    for group in groups:
        y += GROUP_HEIGHT
        body.append(_text(24, y - 8, group, size=13, weight="600"))
        for row in (row for row in drawn if row.group == group):
            body += _line(scale, y + LINE_HEIGHT / 2, row, ratios[row])
            y += LINE_HEIGHT
    title = "Time of each contender as a multiple of the hand-written limit (less is better)"
    size = (
        f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}"'
    )
    return "\n".join(
        [
            f'<svg {size} role="img" aria-label={quoteattr(title)}>',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            f'<g font-family="{FONT}" fill="{INK}">',
            _text(24, 34, title, size=17, weight="600"),
            *body,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _scale(values: Sequence[float]) -> Scale:
    low, high = min([1.0, *values]), max([10.0, *values])
    return Scale(low / 1.25, high * 1.25)


def _legend(contenders: Sequence[Contender]) -> list[str]:
    parts: list[str] = []
    columns = 3
    for number, contender in enumerate(contenders):
        x = 24 + number % columns * 340
        y = 58 + number // columns * 20
        parts.append(_dot(x + 5, y - 4, contender))
        parts.append(_text(x + 17, y, contender.title.replace("`", ""), size=12))
    return parts


def _axis(scale: Scale, bottom: float) -> list[str]:
    parts: list[str] = []
    for tick in scale.ticks():
        x = scale.x(tick)
        is_limit = tick == 1
        color, width = (FAINT, 1.5) if is_limit else (GRID, 1)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP + 8}" y2="{bottom:.1f}"'
            f' stroke="{color}" stroke-width="{width}"/>'
        )
        label = "limit" if is_limit else f"{tick:g}×"
        parts.append(_text(x, bottom + 20, label, size=11, color=FAINT, anchor="middle"))
    return parts


def _line(scale: Scale, y: float, row: Row, ratios: dict[Contender, float]) -> list[str]:
    places = [scale.x(value) for value in ratios.values()]
    parts = [_text(LEFT - 14, y + 4, row.title.replace("`", ""), size=12, anchor="end")]
    parts.append(
        f'<line x1="{min(places):.1f}" x2="{max(places):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        f' stroke="#c8ced5" stroke-width="1.5"/>'
    )
    # plait is drawn last, so that no other dot hides it.
    for contender in sorted(ratios, key=lambda one: one.environment is None):
        hint = f"{contender.title.replace('`', '')}: {ratios[contender]:.2f}×"
        parts.append(_dot(scale.x(ratios[contender]), y, contender, hint))
    return parts


def _dot(x: float, y: float, contender: Contender, hint: str = "") -> str:
    """Draw a filled circle for plait, a ring for others."""
    color = COLORS.get(contender.id, FAINT)
    fill = color if contender.environment is None else "#ffffff"
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{color}"'
        f' stroke-width="2.2">{title}</circle>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    weight: str = "400",
    color: str = INK,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}"'
        f' fill="{color}" text-anchor="{anchor}">{escape(text)}</text>'
    )
