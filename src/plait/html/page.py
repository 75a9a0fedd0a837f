"""The shell of every page: style and script inlined in a single file, linked in the viewer."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from plait.html.elements import Child, document, h, join, raw_text_element

STYLE, SCRIPT = "plait.css", "plait.js"
"""The names of the files in the package, for a server of them."""

_KEYS = (
    ("j / k", "next and previous step"),
    ("o", "fold or unfold it"),
    ("/", "search"),
    ("v", "conversation or waterfall"),
    ("d", "dark or light"),
    ("?", "this help"),
)
_STRANDS = (
    "M2 2C2 8 14 7 14 12S2 16 2 22",
    "M14 2C14 8 2 7 2 12S14 16 14 22",
    "M8 2V5M8 11V13M8 19V22",
)
"""The curves of the mark: a plait of three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a page finds its style, its scripts and the other pages."""

    styles: tuple[str, ...] = ()
    """Addresses of style sheets; without any the page contains its own."""
    scripts: tuple[str, ...] = ()
    """Addresses of scripts; likewise."""
    links: tuple[tuple[str, str], ...] = ()
    """The other pages: label and address."""
    inline_styles: tuple[str, ...] = ()
    """More style for a page that contains its own."""
    inline_scripts: tuple[str, ...] = ()

    @property
    def is_single_file(self) -> bool:
        """Whether pages contain everything they need."""
        return not (self.styles or self.scripts)


SINGLE_FILE = Site()
"""For pages that are one file, and request nothing."""


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or script of the package."""
    return files("plait.html").joinpath("assets", name).read_text("utf-8")


def page(title: str, *body: Child, site: Site = SINGLE_FILE) -> str:
    """Build a whole page; in a single file, the policy admits exactly its own style and script."""
    style = "\n".join((asset(STYLE), *site.inline_styles))
    script = "\n".join((asset(SCRIPT), *site.inline_scripts))
    policy = (
        "default-src 'none'",
        "img-src data:",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    head = join(
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content="; ".join(policy))
        if site.is_single_file
        else None,
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="referrer", content="no-referrer"),
        h("title", title),
        # An empty icon: otherwise browsers request one.
        h("link", rel="icon", href="data:image/png;base64,"),
        raw_text_element("style", style) if site.is_single_file else None,
        [h("link", rel="stylesheet", href=address) for address in site.styles],
        [h("script", src=address, defer=True) for address in site.scripts],
    )
    mark = h("svg", [h("path", d=one) for one in _STRANDS], viewBox="0 0 16 24")
    keys = [h("tr", h("td", h("kbd", key)), h("td", what)) for key, what in _KEYS]
    inner = join(
        h(
            "header",
            h("span", mark, "plait", class_="brand"),
            h("nav", [h("a", label, href=address) for label, address in site.links]),
            h("button", "◐", type="button", data_do="theme", title="dark or light (d)"),
            h("button", "?", type="button", data_do="help", title="keys (?)"),
            class_="top",
        ),
        h("main", *body),
        h("dialog", h("h2", "Keys"), h("table", keys), id="help"),
        raw_text_element("script", script) if site.is_single_file else None,
    )
    return document(head, inner)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
