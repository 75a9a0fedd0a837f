"""Record a run of `plait demo` as one animated SVG file: demo_cast.py [FILE].

The frames are those of the terminal. A row that does not change is written once, and shown for as
long as it stood there; a program that shows no animations shows the last frame.
"""

from __future__ import annotations

import asyncio
import html
import io
import os
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from plait._support.logs import silence_other_logs
from plait.cli.commands.demo import closing_lines
from plait.cli.demo import Stage, play_and_paint

DEFAULT = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.svg"
COLUMNS, ROWS = 80, 24
CHARACTER, LINE, MARGIN = 8.4, 17, 14
FONT_SIZE = 14
FRAME_SECONDS = 0.2
HELD_SECONDS = 5
"""How long the last frame stands before the run is shown again."""
TEXT = "#c9d1d9"
COLOURS = {"red": "#ff7b72", "green": "#56d364", "yellow": "#e3b341", "cyan": "#39c5cf"}
DIM = "#768390"
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
TITLE = "plait demo: the MCP SDK's own client loses servers and pays twice, plait does neither"


@dataclass
class Recording:
    """The rows of a terminal, and when each of them was there."""

    began: float = field(default_factory=time.monotonic)
    frames: list[tuple[float, list[str]]] = field(default_factory=list)

    def add(self, shown: RenderableType) -> None:
        """Keep a frame, unless the last one is as new as the eye can see."""
        at = time.monotonic() - self.began
        if self.frames and at - self.frames[-1][0] < FRAME_SECONDS:
            return
        self.append(at, shown)

    def append(self, at: float, shown: RenderableType) -> None:
        """Keep a frame."""
        console = Console(
            file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor"
        )
        prompt = Text.assemble(("$ ", "green"), "plait demo")
        lines = console.render_lines(Group(prompt, shown), pad=False)
        self.frames.append((at, [row(line) for line in lines]))

    def svg(self) -> str:
        """Write the recording."""
        end = self.frames[-1][0] + HELD_SECONDS
        times = [at for at, _ in self.frames] + [end]
        spans: dict[tuple[int, str], list[list[float]]] = defaultdict(list)
        for number, (at, rows) in enumerate(self.frames):
            for y, text in enumerate(rows):
                if not text:
                    continue
                stood = spans[y, text]
                if stood and stood[-1][1] == at:
                    stood[-1][1] = times[number + 1]
                else:
                    stood.append([at, times[number + 1]])
        width, height = COLUMNS * CHARACTER + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">\n'
            f"<title>{TITLE}</title>\n"
            f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
            f'<g fill="{TEXT}" font-family="{FONTS}" font-size="{FONT_SIZE}" xml:space="preserve">'
        )
        parts = [head]
        for (y, text), stood in spans.items():
            is_last = bool(stood) and stood[-1][1] == end
            at = f'transform="translate({MARGIN} {MARGIN + (y + 0.75) * LINE:g})"'
            hidden = "" if is_last else ' visibility="hidden"'
            parts.append(f"<g {at}{hidden}>{animation(stood, end)}{text}</g>")
        return "\n".join([*parts, "</g></svg>", ""])


def animation(stood: list[list[float]], end: float) -> str:
    """Write when a row is visible."""
    if stood == [[0, end]]:
        return ""
    points = [(0.0, "hidden")]
    for start, stop in stood:
        points += [(start / end, "visible"), (stop / end, "hidden")]
    if points[1][0] == 0:
        del points[0]
    points = [point for point in points if point[0] < 1]
    times = ";".join(f"{at:.4g}" for at, _ in points)
    values = ";".join(value for _, value in points)
    return (
        f'<animate attributeName="visibility" calcMode="discrete" dur="{end:.2f}s" '
        f'repeatCount="indefinite" keyTimes="{times}" values="{values}"/>'
    )


def row(segments: list[Segment]) -> str:
    """Write a line of a terminal; every piece has its place, whatever the font."""
    pieces: list[str] = []
    column = 0
    for text, style, _ in segments:
        start, stripped = column + len(text) - len(text.lstrip()), text.strip()
        column += len(text)
        if stripped:
            pieces.append(
                f'<text x="{start * CHARACTER:g}" textLength="{len(stripped) * CHARACTER:g}"'
                f"{look(style)}>{html.escape(stripped)}</text>"
            )
    return "".join(pieces)


def look(style: Style | None) -> str:
    """Write the colour and weight of a piece."""
    if style is None:
        return ""
    name = style.color.name if style.color else ""
    fill = COLOURS.get(name, DIM if style.dim else "")
    return (f' fill="{fill}"' if fill else "") + (' font-weight="bold"' if style.bold else "")


def main() -> None:
    """Play the demo, and write the file."""
    silence_other_logs()
    # As in an environment that is active, where `plait` is on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="plait-demo-") as name:
        stage = Stage(Path(name).resolve(), for_readers=True, on_event=lambda _: None)
        recording = Recording()
        asyncio.run(play_and_paint(stage, lambda: recording.add(stage.draw())))
    end = time.monotonic() - recording.began
    recording.append(end, Group(stage.draw(), *closing_lines(stage)))
    file = Path(sys.argv[1]) if sys.argv[1:] else DEFAULT
    file.write_text(recording.svg(), "utf-8")
    print(f"{file}: {end:.0f} s, {len(recording.frames)} frames, {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
