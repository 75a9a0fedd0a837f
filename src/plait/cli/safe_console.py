"""A rich console on which no text can act: the last step before a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typing_extensions import override

from plait._support.sanitize import sanitize_for_terminal


class SafeConsole(Console):
    """Shows control and hidden characters on a terminal, whichever part of the output has them."""

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render, with safe text; styles and movements of the cursor are no text."""
        for segment in super().render(renderable, options):
            if segment.control or not self.is_terminal:
                yield segment
            else:
                yield segment._replace(text=sanitize_for_terminal(segment.text))
