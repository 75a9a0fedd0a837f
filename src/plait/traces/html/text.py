"""Texts and JSON values of a run: folded, cut, and whole on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from plait._support.sizes import size_label
from plait.traces.html.elements import Child, Html, h, image_source
from plait.traces.messages.content import ImageContent

CUT_CHARACTERS = 2_000
"""Characters of a text that are shown before it is unfolded."""
_MOST_JSON = 200_000
"""Characters of a text that is still read as JSON."""
_MOST_NODES = 400
"""Values of a tree; what is beyond them is shown as text."""
_DEEPEST = 24
_PIECE = 8_000
"""Characters of a huge text that a browser lays out together."""
_PREVIEW = 120
_SHORT = 80
"""Characters of JSON that are one line, not a tree."""


def text_block(text: str, *, source: str | None = None, class_: str = "text") -> Html:
    """Show a text; a long one is cut, and whole when it is unfolded.

    With a `source`, the whole is not in the page but requested from there.
    """
    if len(text) <= CUT_CHARACTERS:
        return h("pre", text, class_=class_, dir="auto")
    size = size_label(len(text.encode("utf-8", "replace")))
    whole = h("pre", None if source else _pieces(text), class_=class_, dir="auto")
    return h(
        "div",
        h("pre", text[:CUT_CHARACTERS], h("span", " …", class_="cut"), class_=class_, dir="auto"),
        h("details", h("summary", f"all of it, {size}"), whole, class_="whole", data_src=source),
        class_="long",
    )


def _pieces(text: str) -> Child:
    """Split a huge text, so that a browser lays out only what is in view."""
    if len(text) <= _PIECE:
        return text
    starts = range(0, len(text), _PIECE)
    return [h("span", text[start : start + _PIECE], class_="piece") for start in starts]


def value_block(value: Any, *, source: str | None = None) -> Html:
    """Show a JSON value as a tree."""
    if isinstance(value, str):
        return text_block(value, source=source)
    line = json.dumps(value, ensure_ascii=False, default=str)
    if len(line) <= _SHORT:
        return h("pre", line, class_="json", dir="auto")
    return h("div", _Tree(source).node(value, 0), class_="json")


def result_block(content: str, *, source: str | None = None) -> Html:
    """Show the result of a tool: JSON as a tree, everything else as text."""
    value = _json_container(content)
    return text_block(content, source=source) if value is None else value_block(value)


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
        pairs = cast("Mapping[str, object]", value).items()
        text = ", ".join(f"{name}: {_short_json(inner)}" for name, inner in list(pairs)[:8])
    else:
        text = str(value)[: 4 * _PREVIEW]
    text = " ".join(text[: 4 * _PREVIEW].split())
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"


def _short_json(value: object) -> str:
    if isinstance(value, str):
        value = value[:_PREVIEW]
    return json.dumps(value, ensure_ascii=False, default=str)


def _json_container(text: str) -> object | None:
    start = text[:1]
    if start not in {"{", "["} or len(text) > _MOST_JSON:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if value else None


class _Tree:
    """Writes one JSON value as folded lists, up to a number of values."""

    def __init__(self, source: str | None) -> None:
        self._left = _MOST_NODES
        self._source = source

    def node(self, value: Any, depth: int) -> Html:
        self._left -= 1
        match value:
            case dict() if value:
                pairs = cast("dict[str, Any]", value)
                rows = [(h("b", str(name)), inner) for name, inner in pairs.items()]
                return self._container(value, rows, depth, "{}")
            case list() | tuple() if value:
                items = cast("Sequence[Any]", value)
                rows = [(h("i", str(number)), inner) for number, inner in enumerate(items)]
                return self._container(value, rows, depth, "[]")
            case str():
                return self._string(value)
            case None | bool() | int() | float():
                return h("code", json.dumps(value), class_="lit")
            case dict() | list() | tuple():
                return h("code", "{}" if isinstance(value, dict) else "[]", class_="lit")
            case _:
                return h("code", str(value), class_="lit")

    def _string(self, value: str) -> Html:
        if "\n" in value or len(value) > 2 * _PREVIEW:
            return text_block(value, source=None, class_="text str")
        return h("code", json.dumps(value, ensure_ascii=False), class_="str", dir="auto")

    def _container(self, value: Any, rows: list[tuple[Html, Any]], depth: int, marks: str) -> Html:
        if depth and (line := _one_line(value)) is not None:
            return h("code", line, class_="lit", dir="auto")
        if depth > _DEEPEST or self._left < len(rows):
            text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
            return text_block(text, source=self._source)
        entries = h(
            "ul", [h("li", label, " ", self.node(inner, depth + 1)) for label, inner in rows]
        )
        if depth == 0:
            return entries
        summary = h("summary", f"{marks[0]} {len(rows)} {marks[1]}")
        return h("details", summary, entries, open=depth < 3 and len(rows) <= 12)


def _one_line(value: Any) -> str | None:
    """Return a short list or object of plain values as one line; `None` for any other."""
    is_object = isinstance(value, dict)
    inner = list(cast("dict[str, Any]", value).values() if is_object else cast("list[Any]", value))
    if len(inner) > 12 or any(isinstance(one, dict | list | tuple | str) for one in inner):
        return None
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= _PREVIEW else None


def facts(*texts: str | None) -> Html | None:
    """Show short facts in one line, as far as there are any."""
    line = " · ".join(text for text in texts if text)
    return h("span", line, class_="facts") if line else None
