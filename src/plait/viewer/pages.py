"""What the pages of the viewer have in common: their shell, and answers that follow changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from plait.html.elements import Html, h
from plait.html.page import SCRIPT, STYLE, Site, page
from plait.reasoning.html import SCRIPT as THINKING_SCRIPT
from plait.reasoning.html import STYLE as THINKING_STYLE

VIEWER_STYLE, VIEWER_SCRIPT = "viewer.css", "viewer.js"

SECTIONS: Final = (
    ("Runs", "/runs"),
    ("Servers", "/servers"),
    ("Clients", "/clients"),
    ("Thinking", "/thinking"),
    ("Reports", "/reports"),
    ("Inbox", "/inbox"),
)

SITE: Final = Site(
    styles=tuple(f"/assets/{name}" for name in (STYLE, THINKING_STYLE, VIEWER_STYLE)),
    scripts=tuple(f"/assets/{name}" for name in (SCRIPT, THINKING_SCRIPT, VIEWER_SCRIPT)),
    links=SECTIONS,
)
"""The pages of the viewer: everything comes from its own server."""


def sign_in_page() -> str:
    """Build the page for a browser that has no token yet; its script reads the fragment."""
    return page(
        "plait view",
        h("h1", "This page needs its token"),
        h("p", "Open the address that ", h("code", "plait view"), " printed: it ends in #token=…"),
        h("p", class_="warning", id="sign-in"),
        site=Site(styles=SITE.styles, scripts=SITE.scripts),
    )


def hint(text: str, command: str | None = None) -> Html:
    """Say why there is nothing to see, and which command makes something."""
    shown = None if command is None else h("pre", command, class_="command")
    return h("div", h("p", text), shown, class_="hint")


def not_found(what: str) -> Response:
    """Answer a request for something that is not listed."""
    title, text = "Not found", f"There is no {what} here."
    return HTMLResponse(page(title, h("h1", title), hint(text), site=SITE), 404)


@dataclass(frozen=True, slots=True)
class Live:
    """Answers the same request again only if something has changed."""

    version: str
    """Changes whenever the page would."""

    @property
    def tag(self) -> str:
        """The entity tag of the page."""
        return f'"{hashlib.sha256(self.version.encode()).hexdigest()[:24]}"'

    def answer(self, request: Request, build: Callable[[Html], str]) -> Response:
        """Return the page; `build` gets the mark that lets the page follow its changes."""
        headers = {"ETag": self.tag}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        mark = h("span", hidden=True, data_follow=self.tag)
        return HTMLResponse(build(mark), headers=headers)


async def form_fields(request: Request) -> dict[str, str]:
    """Read what a form is for, and its fields; nothing if the request has none."""
    try:
        data: object = json.loads(await request.body())
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {str(key): str(value) for key, value in cast("dict[Any, Any]", data).items()}


def post_button(label: str, address: str, target: Mapping[str, str], **attributes: str) -> Html:
    """Build a button whose script sends the target to an address."""
    return h(
        "button",
        label,
        type="button",
        data_post=address,
        data_target=json.dumps(target),
        **attributes,
    )
