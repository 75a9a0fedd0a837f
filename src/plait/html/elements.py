"""Builds HTML elements; every text and attribute is escaped here, and only here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

from plait._support.sanitize import sanitize_for_terminal


class Html(str):
    """Markup that was built by this module, and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""What an element may contain: markup, text that is escaped, lists of them, or nothing."""

Attribute: TypeAlias = "str | int | float | bool | None"
"""`True` is an attribute without a value; `None` and `False` are no attribute."""

_VOID = frozenset({"img", "input", "link", "meta", "br", "hr"})
_LINKS = frozenset({"href", "src", "action"})
_SAFE_LINK = re.compile(r"#|\?|/(?![/\\])|\.{1,2}/|[\w%+-][\w.%+-]*(?:[/?#]|\Z)", re.ASCII)
"""Addresses on the same page or host: no scheme, and no host."""
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*={0,2}", re.ASCII)


def escape_text(text: str) -> str:
    """Escape a text; control, direction and hidden characters become visible escapes."""
    if text.isascii():
        if text.isalnum():
            return text
        if text.isprintable():
            return html.escape(text)
    return html.escape(sanitize_for_terminal(text.replace("\r\n", "\n")))


def h(tag: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Build an element; `class_` is `class`, and `data_x` is `data-x`.

    Raises:
        ValueError: An address leads away from the page.
    """
    pairs = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-") if "_" in key else key
        text = str(value)
        if name in _LINKS and not (_SAFE_LINK.match(text) or _IMAGE.fullmatch(text)):
            raise ValueError(f"{name} must be an address of this page or host")
        pairs += f" {name}" if value is True else f' {name}="{escape_text(text)}"'
    if tag in _VOID:
        return Html(f"<{tag}{pairs}>")
    content = _content(children) if children else ""
    return Html(f"<{tag}{pairs}>{content}</{tag}>")


def join(*children: Child) -> Html:
    """Join markup and texts, which are escaped."""
    return Html(_content(children))


def raw_text_element(name: str, text: str) -> Html:
    """Build a `style` or `script` element of our own text, which is not escaped in HTML.

    Raises:
        ValueError: The text would end the element.
    """
    if f"</{name}" in text.lower() or "<!--" in text:
        raise ValueError(f"a {name} must not contain its own end")
    return Html(f"<{name}>{text}</{name}>")


def document(head: Html, body: Html) -> str:
    """Build a whole document."""
    return f'<!doctype html>\n<html lang="en">{h("head", head)}{h("body", body)}</html>\n'


def image_source(mime_type: str, data: str) -> str | None:
    """Return the address of an image in base64; `None` for types that can hold scripts."""
    source = f"data:{mime_type.lower()};base64,{''.join(data.split())}"
    return source if _IMAGE.fullmatch(source) else None


def _content(children: Iterable[Child]) -> str:
    content = ""
    for child in children:
        if isinstance(child, Html):
            content += child
        elif isinstance(child, str):
            content += escape_text(child)
        elif child is not None:
            content += _content(child)
    return content
