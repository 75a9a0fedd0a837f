"""The page of `plait serve`: the clients of every process, their servers, calls and heals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plait.html.elements import Child, Html, h
from plait.html.page import page
from plait.html.pieces import Column, count_label, seconds_label, table, table_row
from plait.serve.journal import read_states
from plait.viewer.library import TracePath
from plait.viewer.pages import SITE, Live, hint

Row = dict[str, Any]

_STATES: Final = {"ready": "good", "failed": "bad", "lost": "bad", "closed": "bad"}
_SERVERS: Final[tuple[Column, ...]] = (
    *((title, None) for title in ("client", "server", "state", "transport", "protocol")),
    *((title, "n") for title in ("sessions", "pid")),
)
_FEED: Final[tuple[Column, ...]] = (
    *((title, None) for title in ("at", "client", "what happened", "detail")),
    ("time", "n"),
)


@dataclass(frozen=True, slots=True)
class ServingPages:
    """Answers requests about the processes of `plait serve`, of the user who runs the viewer."""

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [Route("/clients", self.list)]

    def list(self, request: Request) -> Response:
        """Answer with all processes; a thread reads the files."""
        states = read_states()

        def build(mark: Html) -> str:
            empty = hint("No plait serve is running. Start one:", "plait serve --http 8000")
            body: Iterable[Child] = [_process(state) for state in states] or [empty]
            shown = h("div", *body, id="serving", data_part=True)
            return page("Clients", h("h1", "Clients"), shown, mark, site=SITE)

        return Live(json.dumps(states, sort_keys=True)).answer(request, build)


def traces_of_clients() -> list[Path]:
    """Return the traces of the processes that run."""
    return [Path(state["trace"]) for state in read_states() if state.get("trace")]


def _process(state: Row) -> Html:
    clients: list[Row] = state["clients"]
    feed: list[Row] = state["feed"]
    trace = state.get("trace")
    return h(
        "section",
        h("h2", f"plait serve {state['pid']}, {state.get('address') or 'stdio'}"),
        h("p", str(state.get("config")), class_="muted"),
        [_client(client, trace) for client in clients] or h("p", "no client", class_="muted"),
        h("div", table(_SERVERS, _server_rows(clients)), class_="wide") if clients else None,
        h("h3", "Calls and heals"),
        h("div", table(_FEED, map(_feed_row, reversed(feed))), class_="wide") if feed else None,
        h("p", f"The trace is {trace}", class_="muted") if trace else None,
    )


def _client(client: Row, trace: str | None) -> Html:
    program = f" ({client['program']})" if client["program"] else ""
    busy = f", now {', '.join(client['under_way'])}" if client["under_way"] else ""
    calls: Child = f"{count_label(client['calls'], 'call')}, {client['failed']} failed"
    if trace and client.get("run"):
        calls = h("a", calls, href=f"/runs/{TracePath.from_path(Path(trace)).key}/{client['run']}")
    return h("p", h("b", client["name"]), f"{program}: ", calls, busy)


def _server_rows(clients: Iterable[Row]) -> Iterable[Html]:
    for client in clients:
        for one in client["servers"]:
            state = h("span", one["state"], class_=_STATES.get(one["state"], "muted"))
            yield table_row(
                _SERVERS,
                (
                    client["name"],
                    one["name"],
                    [state, f" {one['error']}" if one["error"] else ""],
                    one["transport"],
                    one["protocol"] or "",
                    str(one["sessions"]),
                    str(one["pid"] or ""),
                ),
            )


def _feed_row(event: Row) -> Html:
    failed = event.get("is_error", False)
    what = f"{'healed' if event['kind'] == 'heal' else 'called'} {event['what']}"
    kind = "good" if event["kind"] == "heal" else "bad" if failed else None
    return table_row(
        _FEED,
        (
            event["at"].replace("T", " ").removesuffix("Z"),
            event["client"],
            h("span", what, class_=kind),
            event.get("detail", ""),
            seconds_label(event["seconds"]),
        ),
    )
