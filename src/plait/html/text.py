"""Texts and JSON values of a run: folded, cut, and whole on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from plait._support.sizes import size_label
from plait.html.elements import Html, h, image_source
from plait.traces.messages.message import ImageContent

MAX_SHOWN_CHARACTERS = 2_000
"""Characters of a text that are shown before it is unfolded."""
MAX_JSON_CHARACTERS = 200_000
"""A longer text is not read as JSON: that would hold up the page."""
MAX_TREE_VALUES = 400
"""Values of a tree; what is beyond them is shown as text, since each is several elements."""
MAX_TREE_LEVELS = 24
"""Deeper values are shown as text: nobody unfolds so many."""
MAX_PIECE_CHARACTERS = 8_000
"""Characters of a huge text that a browser lays out together."""
MAX_PREVIEW_CHARACTERS = 120
"""Characters of a preview, and of a short value inside a tree: about one line."""
MAX_LINE_CHARACTERS = 80
"""Longer JSON is a tree, not one line."""


def text_block(text: str, *, source: str | None = None, class_: str = "text") -> Html:
    """Show a text; a long one is cut, and whole when it is unfolded.

    With a `source`, the whole is not in the page but requested from there.
    """
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return h("pre", text, class_=class_, dir="auto")
    size = size_label(len(text.encode("utf-8", "replace")))
    whole = None
    if source is None and len(text) <= MAX_PIECE_CHARACTERS:
        whole = text
    elif source is None:
        # In pieces, so that a browser lays out only what is in view.
        starts = range(0, len(text), MAX_PIECE_CHARACTERS)
        pieces = [text[start : start + MAX_PIECE_CHARACTERS] for start in starts]
        whole = [h("span", piece, class_="piece") for piece in pieces]
    beginning = text[:MAX_SHOWN_CHARACTERS], h("span", " …", class_="cut")
    label = h("summary", f"all of it, {size}")
    content = h("pre", whole, class_=class_, dir="auto")
    return h(
        "div",
        h("pre", *beginning, class_=class_, dir="auto"),
        h("details", label, content, class_="whole", data_src=source),
        class_="long",
    )


def value_block(value: Any, *, source: str | None = None) -> Html:
    """Show a JSON value as a tree."""
    if isinstance(value, str):
        return text_block(value, source=source)
    line = json.dumps(value, ensure_ascii=False, default=str)
    if len(line) <= MAX_LINE_CHARACTERS:
        return h("pre", line, class_="json", dir="auto")
    return h("div", _Tree(source).node(value, 0), class_="json")


def result_block(content: str, *, source: str | None = None) -> Html:
    """Show the result of a tool: JSON as a tree, everything else as text."""
    if content[:1] in {"{", "["} and len(content) <= MAX_JSON_CHARACTERS:
        try:
            value: object = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        if value:
            return value_block(value)
    return text_block(content, source=source)


def image_block(image: ImageContent) -> Html:
    """Show an image of a known type; any other is described."""
    source = image_source(image.mime_type, image.data)
    if source is None:
        size = size_label(len(image.data) * 3 // 4)
        return h("p", f"[image: {image.mime_type}, {size}, not shown]", class_="muted")
    return h("img", src=source, alt="image of the message", loading="lazy")


def preview(value: object) -> str:
    """Return a text or JSON value in one short line."""
    if isinstance(value, Mapping):
        pairs: list[str] = []
        for name, inner in list(cast("Mapping[str, object]", value).items())[:8]:
            short = inner[:MAX_PREVIEW_CHARACTERS] if isinstance(inner, str) else inner
            pairs.append(f"{name}: {json.dumps(short, ensure_ascii=False, default=str)}")
        text = ", ".join(pairs)
    else:
        text = str(value)[: 4 * MAX_PREVIEW_CHARACTERS]
    text = " ".join(text[: 4 * MAX_PREVIEW_CHARACTERS].split())
    is_short = len(text) <= MAX_PREVIEW_CHARACTERS
    return text if is_short else text[: MAX_PREVIEW_CHARACTERS - 1] + "…"


class _Tree:
    """Writes one JSON value as folded lists, up to a number of values."""

    def __init__(self, source: str | None) -> None:
        self._left = MAX_TREE_VALUES
        self._source = source

    def node(self, value: Any, depth: int) -> Html:
        self._left -= 1
        match value:
            case dict() if value:
                pairs = cast("dict[str, Any]", value)
                rows = [(h("b", str(name)), inner) for name, inner in pairs.items()]
                return self._container(value, list(pairs.values()), rows, depth)
            case list() | tuple() if value:
                items = cast("Sequence[Any]", value)
                rows = [(h("i", str(number)), inner) for number, inner in enumerate(items)]
                return self._container(value, items, rows, depth)
            case str():
                if "\n" in value or len(value) > 2 * MAX_PREVIEW_CHARACTERS:
                    return text_block(value, source=None, class_="text str")
                text = json.dumps(value, ensure_ascii=False)
                return h("code", text, class_="str", dir="auto")
            case None | bool() | int() | float() | dict() | list() | tuple():
                return h("code", json.dumps(value), class_="lit")
            case _:
                return h("code", str(value), class_="lit")

    def _container(
        self, value: Any, inner: Sequence[Any], rows: Sequence[tuple[Html, Any]], depth: int
    ) -> Html:
        if depth and len(inner) <= 12:
            is_plain = not any(isinstance(one, dict | list | tuple | str) for one in inner)
            line = json.dumps(value, ensure_ascii=False, default=str) if is_plain else None
            if line is not None and len(line) <= MAX_PREVIEW_CHARACTERS:
                return h("code", line, class_="lit", dir="auto")
        if depth > MAX_TREE_LEVELS or self._left < len(rows):
            text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
            return text_block(text, source=self._source)
        nodes = [h("li", label, " ", self.node(one, depth + 1)) for label, one in rows]
        if depth == 0:
            return h("ul", nodes)
        start, end = "{}" if isinstance(value, dict) else "[]"
        summary = h("summary", f"{start} {len(rows)} {end}")
        return h("details", summary, h("ul", nodes), open=depth < 3 and len(rows) <= 12)
