"""The pages of reasoning sessions: the list, and one session with its graph, followed live."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plait.reasoning.document import read_document
from plait.reasoning.html import thinking, title_of
from plait.reasoning.storage.port import SessionLine, Storage
from plait.traces.html.elements import Html, h
from plait.traces.html.labels import count_label
from plait.traces.html.page import page
from plait.viewer.pages import SITE, Live, not_found

_MOST_SESSIONS = 500


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
        lines = await self._store.list_sessions(limit=_MOST_SESSIONS)
        version = "\n".join(f"{one.session.id} {one.session.version}" for one in lines)

        def build(mark: Html) -> str:
            title = h("h1", "Thinking", h("small", f" {self._name}"))
            return page("Thinking", title, _table(lines), mark, site=SITE)

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


def _table(lines: Sequence[SessionLine]) -> Html:
    if not lines:
        return h("p", "No sessions yet.", class_="empty")
    titles = ("about", "mode", "status", "thoughts", "changed")
    return h(
        "section",
        h(
            "div",
            h(
                "input",
                type="search",
                placeholder="Search sessions  /",
                data_filter="text",
                autocomplete="off",
            ),
            h("span", count_label(len(lines), "session"), class_="muted", data_count="session"),
            class_="toolbar",
        ),
        h(
            "div",
            h(
                "table",
                h(
                    "thead",
                    h("tr", [h("th", t, class_="n" if t == "thoughts" else None) for t in titles]),
                ),
                h("tbody", [_row(line) for line in lines], data_list=True),
                class_="sessions",
            ),
            class_="wide",
        ),
    )


def _row(line: SessionLine) -> Html:
    session = line.session
    state = "good" if session.status == "concluded" else "warn"
    link = h("a", line.title or session.id, href=f"/thinking/{session.id}", dir="auto")
    return h(
        "tr",
        h("td", link, h("small", session.id)),
        h("td", session.mode),
        h("td", h("span", session.status, class_=f"badge {state}")),
        h("td", str(line.thoughts), class_="n"),
        h("td", h("time", session.updated_at[:16].replace("T", " "))),
        data_item=True,
        tabindex="-1",
    )
