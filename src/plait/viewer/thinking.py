"""The pages of reasoning sessions: the list, and one session with its graph, followed live."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plait.html.elements import Child, Html, h
from plait.html.page import page
from plait.html.pieces import Column, list_filters, table, table_row
from plait.reasoning.diagram import read_document
from plait.reasoning.html import thinking, title_of
from plait.reasoning.storage.port import SessionLine, Storage
from plait.viewer.pages import SITE, Live, not_found

MAX_SESSIONS = 500
"""Rows of the list, which is sent again with each change."""
_COLUMNS: tuple[Column, ...] = (
    *(("about", None), ("mode", None), ("status", None)),
    *(("thoughts", "n"), ("changed", None)),
)


class ThinkingPages:
    """Answers requests about the sessions of a store."""

    def __init__(self, store: Storage, name: str) -> None:
        self._store = store
        self._name = name

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/thinking", self.list),
            Route("/thinking/{session:path}", self.session),
        ]

    async def list(self, request: Request) -> Response:
        """Answer with all sessions, the most recently changed first."""
        lines = await self._store.list_sessions(limit=MAX_SESSIONS)
        version = "\n".join(f"{one.session.id} {one.session.version}" for one in lines)

        def build(mark: Html) -> str:
            title = h("h1", "Thinking", h("small", f" {self._name}"))
            return page("Thinking", title, _sessions(lines), mark, site=SITE)

        return Live(version).answer(request, build)

    async def session(self, request: Request) -> Response:
        """Answer with one session."""
        session = await self._store.get_session(request.path_params["session"])
        if session is None:
            return not_found("such session")
        live = Live(f"{session.id} {session.version}")
        if request.headers.get("if-none-match") == live.tag:
            return live.answer(request, str)
        document = await read_document(self._store, session)

        def build(mark: Html) -> str:
            return page(title_of(document), thinking(document), mark, site=SITE)

        return live.answer(request, build)


def _sessions(lines: Sequence[SessionLine]) -> Html:
    if not lines:
        return h("p", "No sessions yet.", class_="empty")
    rows: list[Html] = []
    for line in lines:
        session = line.session
        link = h("a", line.title or session.id, href=f"/thinking/{session.id}", dir="auto")
        state = "good" if session.status == "concluded" else "warn"
        cells: tuple[Child, ...] = (
            [link, h("small", session.id)],
            session.mode,
            h("span", session.status, class_=f"badge {state}"),
            str(line.thoughts),
            h("time", session.updated_at[:16].replace("T", " ")),
        )
        rows.append(table_row(_COLUMNS, cells, data_item=True, tabindex="-1"))
    sessions = table(_COLUMNS, rows, class_="sessions", is_list=True)
    return h("section", list_filters("session", len(lines)), h("div", sessions, class_="wide"))
