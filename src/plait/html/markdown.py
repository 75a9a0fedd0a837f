"""Answers of models as Markdown: a subset that is built of elements, and never leads anywhere.

Raw HTML is text. The address of a link or an image is shown beside its text, and nothing is
requested from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from plait.html.elements import Child, Html, h
from plait.html.text import text_block

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_MARKDOWN_CHARACTERS: Final = 20_000
"""A longer text is shown as it is: nobody reads its form, and parsing it would hold up the page."""

_MARKS = re.compile(r"[*_`#>\[|~\\]|^\s*(?:[-+]|\d+[.)])\s|\n\s*(?:---|===)", re.MULTILINE)
"""A text without any of these is only paragraphs."""
_TAGS: Final = {
    **dict.fromkeys(("h1", "h2"), "h3"),
    **{
        tag: tag
        for tag in ("h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "blockquote", "hr", "br")
    },
    **{tag: tag for tag in ("table", "thead", "tbody", "tr", "th", "td", "em", "strong", "s")},
}
"""The elements there are; the titles of a page stay above those of an answer."""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  # of pages with such texts only

    # Nesting is limited to 20 by this preset; entities and links are only read, not resolved.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def markdown_block(text: str, *, source: str | None = None) -> Html:
    """Show a text of a model as Markdown; a very long one as text, whole when it is unfolded."""
    if len(text) > MAX_MARKDOWN_CHARACTERS:
        return text_block(text, source=source)
    if not _MARKS.search(text):
        parts = [h("p", part, dir="auto") for part in text.split("\n\n") if part.strip()]
        return h("div", parts, class_="md")
    return h("div", _Nodes(_parser().parse(text)).until(None), class_="md")


class _Nodes:
    """Builds elements of a list of tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = iter(tokens)

    def until(self, end: str | None) -> list[Child]:
        """Return the elements up to the token that ends the current one."""
        found: list[Child] = []
        for token in self._tokens:
            match token.type:
                case kind if kind == end:
                    break
                case "inline":
                    found += _Nodes(token.children or ()).until(None)
                case "fence" | "code_block":
                    found.append(h("pre", h("code", token.content), class_="code"))
                case "code_inline":
                    found.append(h("code", token.content))
                case "softbreak":
                    found.append("\n")
                case "image":
                    found.append(f"[image: {token.content} ({token.attrGet('src')})]")
                case "link_open":
                    found += self._link(token)
                case kind if kind.endswith("_open"):
                    inner = self.until(f"{kind.removesuffix('_open')}_close")
                    is_block = token.tag in {"p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "td"}
                    tag = _TAGS.get(token.tag, "span")
                    found.append(h(tag, inner, dir="auto" if is_block else None))
                case _ if token.tag in {"hr", "br"}:
                    found.append(h(token.tag))
                case _:
                    found.append(token.content)
        return found

    def _link(self, token: Token) -> list[Child]:
        """Show where a link leads, which its text may hide."""
        inner, address = self.until("link_close"), str(token.attrGet("href") or "")
        if inner == [address]:
            return [h("code", address)]
        return [h("u", inner), " (", h("code", address), ")"]
