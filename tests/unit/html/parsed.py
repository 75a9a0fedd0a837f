"""Reads a page as a browser would, for tests without one."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"img", "input", "link", "meta", "br", "hr"})


@dataclass
class Element:
    """An element of a page, with all text inside it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: tuple[str, ...] = ()
    """The classes of the elements around it."""


@dataclass
class Parsed(HTMLParser):
    """The elements of a page; tags that are not closed in order fail."""

    elements: list[Element] = field(default_factory=list[Element])
    _open: list[Element] = field(default_factory=list[Element])

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        inside = tuple(one.attributes.get("class", "") for one in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, "", inside)
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str | None = None, class_: str | None = None) -> list[Element]:
        """Return the elements with this tag and class."""
        return [
            one
            for one in self.elements
            if tag in {None, one.tag}
            and (class_ is None or class_ in one.attributes.get("class", "").split())
        ]


def parsed(page: str) -> Parsed:
    """Parse a page; everything that is opened must be closed."""
    parser = Parsed()
    parser.feed(page)
    parser.close()
    assert parser._open == []
    return parser
