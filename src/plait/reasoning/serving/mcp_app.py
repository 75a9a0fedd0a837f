"""The graph of a session as an MCP App, for hosts that show `ui://` resources in a conversation.

Tools that look at a session name the app in `_meta.ui`, for hosts that declare the extension only:
all others get the same bytes as before, and text.
See https://modelcontextprotocol.io/specification/draft/extensions/apps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import mcp_types as types
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.server.context import ServerRequestContext

from plait.reasoning.html import SCRIPT, STYLE, asset
from plait.traces.html.elements import h
from plait.traces.html.page import Site, page

__all__ = [
    "APP_URI",
    "EXTENSION_ID",
    "app_contents",
    "app_resource",
    "client_supports_apps",
    "with_app",
]

APP_URI: Final = "ui://plait-reasoning/session.html"

_SHOWN_BY: Final = frozenset(
    {
        "reasoning_session_get",
        "reasoning_session_conclude",
        "reasoning_got_state",
        "reasoning_got_finalize",
        "reasoning_session",
    }
)
"""Tools whose results are about a whole session."""


def with_app(tools: Iterable[types.Tool], ctx: ServerRequestContext[Any, Any]) -> list[types.Tool]:
    """Return tools as the client of this request gets them."""
    if not client_supports_apps(ctx):
        return [*tools]
    meta = {"ui": {"resourceUri": APP_URI}}
    return [
        tool.model_copy(update={"meta": meta}) if tool.name in _SHOWN_BY else tool for tool in tools
    ]


def app_resource() -> types.Resource:
    """Describe the app, for lists of resources."""
    return types.Resource(
        uri=APP_URI,
        name="session-graph",
        title="The graph of a reasoning session",
        description="Shows the thoughts of a session as a graph, a tree, and step by step.",
        mime_type=APP_MIME_TYPE,
    )


def app_contents() -> types.ReadResourceResult:
    """Return the app: one file that requests nothing but the session, and that of its host."""
    text = types.TextResourceContents(uri=APP_URI, mime_type=APP_MIME_TYPE, text=_app_page())
    return types.ReadResourceResult(contents=[text])


@cache
def _app_page() -> str:
    site = Site(inline_styles=(asset(STYLE),), inline_scripts=(asset(SCRIPT), asset("mcp-app.js")))
    waiting = h("p", "Waiting for a session …", class_="empty", id="waiting")
    return page("Reasoning session", waiting, site=site)
