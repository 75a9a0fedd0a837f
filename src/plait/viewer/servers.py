"""The pages of servers: their status while it changes, their tools, and forms to call them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast
from urllib.parse import quote

from mcp_types import TextContent
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from plait.client.calls.outcome import ToolResult
from plait.client.catalog.tool import Tool
from plait.client.connections.status import ServerStatus
from plait.errors import PlaitError
from plait.traces.html.elements import Child, Html, h, join
from plait.traces.html.labels import count_label, seconds_label
from plait.traces.html.page import page
from plait.traces.html.text import image_block, result_block, text_block, value_block
from plait.traces.messages.content import ImageContent
from plait.viewer.connected import (
    ApprovalNeededError,
    CheckFinding,
    ConnectedServers,
    Notice,
    Offer,
)
from plait.viewer.forms import FormError, arguments_from, as_text, field_key, fields_of, form_of
from plait.viewer.offers import (
    URI,
    offer_part,
    prompt_result,
    prompt_schema,
    questions_part,
    resource_result,
)
from plait.viewer.pages import SITE, Live, not_found
from plait.viewer.questions import Answer

_STATES = {"ready": "good", "failed": "bad", "lost": "bad", "closed": "bad"}
_MOST_ROWS = 200
MODERN = "2026-07-28"
"""The first version of the protocol without a handshake."""
_LEVELS = {"ok": "good", "warn": "warn", "error": "bad"}


@dataclass(frozen=True, slots=True)
class ServerPages:
    """Answers requests about servers."""

    servers: ConnectedServers

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/servers", self.list),
            self._action("check", self.check),
            self._action("restart", self.restart),
            self._action("call", self.call),
            self._action("read", self.read),
            self._action("prompt", self.prompt),
            self._action("answer", self.answer),
            Route("/servers/{server}", self.server),
        ]

    def _action(
        self, name: str, answer: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Route:
        async def respond(request: Request) -> Response:
            response = await self.servers.respond(answer(request))
            return response or HTMLResponse(_refused("The viewer has ended."), 503)

        return Route(f"/servers/{name}", respond, methods=["POST"])

    async def list(self, request: Request) -> Response:
        """Answer with the status of all servers."""

        def build(mark: Html) -> str:
            status = self.servers.status
            names = status.servers.values()
            ready = sum(one.state == "ready" for one in names)
            return page(
                "Servers",
                h("h1", "Servers"),
                h(
                    "div",
                    h("p", f"{ready} of {count_label(len(names), 'server')} ready", class_="muted"),
                    h("div", self._table(names), class_="wide"),
                    self._era_note(names),
                    id="status",
                    data_part=True,
                ),
                self._checks(),
                self._feed(None),
                mark,
                site=SITE,
            )

        return Live(self.servers.version()).answer(request, build)

    async def server(self, request: Request) -> Response:
        """Answer with one server and its tools."""
        name = request.path_params["server"]
        if name not in self.servers.config.servers:
            return not_found("such server")
        tools = self.servers.tools.get(name, ())

        def build(mark: Html) -> str:
            head = h("div", self._facts(self.servers.status[name]), id="status", data_part=True)
            listed = h(
                "div",
                h("h2", count_label(len(tools), "tool")),
                [self._tool(tool) for tool in tools]
                if name in self.servers.tools
                else h("p", "They are listed once the server is ready.", class_="muted"),
                id="tools",
                data_part=True,
            )
            questions = questions_part(self.servers.questions.of(name))
            offer = offer_part(
                name,
                self.servers.offers.get(name, Offer()),
                allow_calls=self.servers.allow_calls,
            )
            feed = self._feed(name)
            return page(name, head, questions, listed, offer, feed, mark, site=SITE)

        return Live(self.servers.version()).answer(request, build)

    async def check(self, _request: Request) -> Response:
        """Check all servers, and answer with what was found."""
        await self.servers.run_check()
        return HTMLResponse(self._findings())

    async def restart(self, request: Request) -> Response:
        """Drop the session of a server."""
        name = (await _entered(request)).get("server", "")
        if name not in self.servers.config.servers or not self.servers.allow_calls:
            return HTMLResponse(_refused("Restart the viewer with --allow-calls."), 403)
        await self.servers.restart(name)
        return HTMLResponse("")

    async def call(self, request: Request) -> Response:
        """Call a tool with what was entered in its form, and answer with its result."""
        if not self.servers.allow_calls:
            return HTMLResponse(_refused("Restart the viewer with --allow-calls."), 403)
        entered = await _entered(request)
        tools = self.servers.tools.get(entered.get("server", ""), ())
        tool = next((one for one in tools if one.wire_name == entered.get("tool")), None)
        if tool is None:
            return HTMLResponse(_refused("There is no such tool."), 404)
        try:
            arguments = arguments_from(tool.input_schema, entered)
            result = await self.servers.call(
                tool.server, tool.wire_name, arguments, proof=entered.get("approve")
            )
        except ApprovalNeededError as needed:
            return HTMLResponse(self._approval(needed))
        except (FormError, PlaitError) as error:
            return HTMLResponse(_refused(self.servers.redacted(str(error))))
        return HTMLResponse(self._result(result))

    async def read(self, request: Request) -> Response:
        """Read a resource; a template is read at the address that was entered."""
        if not self.servers.allow_calls:
            return HTMLResponse(_refused("Restart the viewer with --allow-calls."), 403)
        entered = await _entered(request)
        name, uri = entered.get("server", ""), entered.get(field_key(URI)) or entered.get(URI, "")
        if name not in self.servers.config.servers:
            return HTMLResponse(_refused("There is no such server."), 404)
        try:
            result = await self.servers.box.read_resource(name, uri)
        except PlaitError as error:
            return HTMLResponse(_refused(self.servers.redacted(str(error))))
        return HTMLResponse(resource_result(result, self.servers.redacted))

    async def prompt(self, request: Request) -> Response:
        """Get a prompt with the arguments that were entered."""
        if not self.servers.allow_calls:
            return HTMLResponse(_refused("Restart the viewer with --allow-calls."), 403)
        entered = await _entered(request)
        name = entered.get("server", "")
        prompts = self.servers.offers.get(name, Offer()).prompts
        prompt = next((one for one in prompts if one.name == entered.get("prompt")), None)
        if prompt is None:
            return HTMLResponse(_refused("There is no such prompt."), 404)
        try:
            values = arguments_from(prompt_schema(prompt), entered)
            texts = {key: as_text(value) for key, value in values.items()}
            result = await self.servers.box.get_prompt(name, prompt.name, texts)
        except (FormError, PlaitError) as error:
            return HTMLResponse(_refused(self.servers.redacted(str(error))))
        return HTMLResponse(prompt_result(result, self.servers.redacted))

    async def answer(self, request: Request) -> Response:
        """Accept an elicitation with what was entered, or decline it."""
        entered = await _entered(request)
        question = self.servers.questions.find(entered.get("question", ""))
        if question is None:
            return HTMLResponse(_refused("Nothing waits for this answer any more."), 404)
        content = None
        action: Answer = "accept" if entered.get("action") == "accept" else "decline"
        if action == "accept" and question.schema is not None:
            try:
                content = arguments_from(question.schema, entered)
            except FormError as error:
                return HTMLResponse(_refused(str(error)))
        self.servers.questions.answer(question, action, content)
        return HTMLResponse(h("p", "answered", class_="muted"))

    def _table(self, servers: Iterable[ServerStatus]) -> Html:
        titles = ("server", "state", "transport", "protocol", "implementation")
        numbers = ("tools", "sessions", "connect", "pid")
        return h(
            "table",
            h(
                "thead",
                h("tr", [h("th", t) for t in titles], [h("th", t, class_="n") for t in numbers]),
            ),
            h("tbody", [self._row(server) for server in servers]),
            class_="servers",
        )

    def _row(self, server: ServerStatus) -> Html:
        name, error = server.name, server.last_error
        link = h("a", name, href=f"/servers/{quote(name, safe='')}")
        return h(
            "tr",
            h("td", link, h("small", self._text(error, name)) if error else None),
            h("td", _state(server)),
            h("td", server.transport),
            h("td", server.protocol_version or "–"),
            h("td", _about(server)),
            h("td", "–" if server.tool_count is None else str(server.tool_count), class_="n"),
            h("td", str(server.sessions), class_="n"),
            h("td", _connect_label(server) or "–", class_="n"),
            h("td", "–" if server.pid is None else str(server.pid), class_="n"),
        )

    def _era_note(self, servers: Iterable[ServerStatus]) -> Html | None:
        """Say why a server may be connected in another era here than by `plait servers`."""
        configured = self.servers.config.servers
        handshakes = [
            one
            for one in servers
            if (one.protocol_version or MODERN) < MODERN and configured[one.name].protocol == "auto"
        ]
        if not self.servers.allow_calls or not handshakes:
            return None
        text = (
            "Since servers may ask during calls here, those that speak both eras of the protocol "
            "are connected in the older one, where they can. Without --allow-calls, and by plait "
            "servers and plait doctor, they are connected in the newer one."
        )
        return h("p", text, class_="muted")

    def _facts(self, server: ServerStatus) -> Html:
        rows = [
            ("transport", server.transport),
            ("protocol", server.protocol_version),
            ("implementation", _about(server)),
            ("sessions", str(server.sessions)),
            ("connected in", _connect_label(server)),
            ("process", None if server.pid is None else str(server.pid)),
            ("calls now", str(server.in_flight) if server.in_flight else None),
            ("since", f"{server.since:%H:%M:%S} UTC"),
        ]
        error, tail = server.last_error, server.stderr_tail
        return join(
            h("h1", server.name, " ", _state(server), " ", self._restart_button(server.name)),
            h(
                "dl",
                [h("div", h("dt", name), h("dd", value)) for name, value in rows if value],
                class_="facts-list",
            ),
            h("p", self._text(error, server.name), class_="warning") if error else None,
            self._era_note([server]),
            [h("p", f"repaired: {note}", class_="muted") for note in server.repaired],
            h(
                "details",
                h("summary", f"stderr, last {count_label(len(tail), 'line')}"),
                text_block(self.servers.redacted("\n".join(tail))),
            )
            if tail
            else None,
        )

    def _restart_button(self, name: str) -> Html | None:
        if not self.servers.allow_calls:
            return None
        return h(
            "button",
            "Restart",
            type="button",
            data_post="/servers/restart",
            data_target=json.dumps({"server": name}),
        )

    def _tool(self, tool: Tool) -> Html:
        hints = {"read_only_hint": "read-only", "destructive_hint": "destructive"}
        marks = [
            h("span", word, class_="badge")
            for key, word in hints.items()
            if tool.annotations.get(key)
        ]
        names = [f"{one.name}{'' if one.required else '?'}" for one in fields_of(tool.input_schema)]
        target = {"server": tool.server, "tool": tool.wire_name}
        return h(
            "details",
            h(
                "summary",
                h("b", tool.wire_name, class_="tool"),
                h("code", f"({', '.join(names)})"),
                " ",
                marks,
                h("span", tool.description.strip().partition("\n")[0], class_="peek"),
            ),
            text_block(tool.description.strip()) if tool.description.strip() else None,
            form_of(tool.input_schema, action="/servers/call", target=target)
            if self.servers.allow_calls
            else h("p", "Start with --allow-calls to call it from here.", class_="muted"),
            h("details", h("summary", "Input schema"), value_block(dict(tool.input_schema))),
            h("details", h("summary", "Output schema"), value_block(dict(tool.output_schema)))
            if tool.output_schema
            else None,
            class_="a-tool",
            id=f"tool-{tool.wire_name}",
        )

    def _checks(self) -> Html:
        button = h(
            "button",
            "Check all servers",
            type="button",
            data_post="/servers/check",
            data_into="findings",
        )
        return h(
            "section",
            h("h2", "Doctor"),
            h("p", button) if self.servers.check is not None else None,
            h("div", self._findings(), id="findings"),
        )

    def _findings(self) -> Html:
        found = self.servers.findings
        if found is None:
            return h(
                "p",
                "Checks connections, schemas, names, cost, logins and the lockfile.",
                class_="muted",
            )
        return h("ul", [self._finding(one) for one in found], class_="checked")

    def _finding(self, one: CheckFinding) -> Html:
        fix = h("span", f"fix: {one.fix}", class_="fix") if one.fix else None
        level = h("span", one.level, class_=f"badge {_LEVELS.get(one.level, '')}")
        where = h("b", f"{one.server} ") if one.server else None
        text = _without_name(self.servers.redacted(one.message), one.server)
        return h("li", level, h("span", where, text), fix)

    def _feed(self, server: str | None) -> Html:
        """Show notifications and what happened to connections, the newest first."""
        events = [
            Notice(
                at=one.at,
                server=one.server,
                kind=one.kind,
                text=self._text(one.detail, one.server),
            )
            for one in self.servers.status.events
        ]
        every = [*events, *self.servers.notices]
        chosen = [one for one in every if server is None or one.server == server]
        newest = sorted(chosen, key=lambda one: one.at, reverse=True)
        rows = [
            h(
                "tr",
                h("td", h("time", f"{group[0].at:%H:%M:%S.%f}"[:-4])),
                h("td", group[0].server) if server is None else None,
                h("td", group[0].kind),
                h("td", group[0].text, h("b", f" ×{len(group)}") if len(group) > 1 else None),
            )
            for group in _grouped(newest)[:_MOST_ROWS]
        ]
        return h(
            "div",
            h("h2", "What happened"),
            h("div", h("table", h("tbody", rows)), class_="wide")
            if rows
            else h("p", "Nothing yet.", class_="muted"),
            id="feed",
            class_="feed",
            data_part=True,
        )

    def _text(self, text: str, server: str) -> str:
        return _without_name(self.servers.redacted(text), server)

    def _approval(self, needed: ApprovalNeededError) -> Html:
        request = needed.request
        return h(
            "div",
            h("p", f"The policy requires approval: {request.reason}", class_="warning"),
            value_block(self.servers.redacted(dict(request.arguments))),
            h("button", "Approve and call", type="button", data_approve=needed.proof),
        )

    def _result(self, result: ToolResult) -> Html:
        facts = [
            "the tool reports a failure" if result.is_error else "succeeded",
            seconds_label(result.seconds),
            f"{result.attempts} attempts" if result.attempts > 1 else None,
        ]
        blocks = [
            block.model_dump(mode="json", by_alias=True, exclude_none=True)
            for block in result.content
        ]
        shown: list[Child] = [self._block(block) for block in blocks]
        if result.structured_content is not None and not _repeats(result):
            structured = value_block(self.servers.redacted(result.structured_content))
            shown.append(h("details", h("summary", "structured content"), structured))
        return h(
            "div",
            h("p", " · ".join(fact for fact in facts if fact), class_="muted"),
            shown,
            [h("p", self.servers.redacted(note), class_="warning") for note in result.notes],
            class_="failed" if result.is_error else "succeeded",
        )

    def _block(self, block: Mapping[str, Any]) -> Html:
        match block:
            case {"type": "text", "text": str() as text}:
                return result_block(self.servers.redacted(text))
            case {"type": "image", "data": str() as data, "mimeType": str() as mime_type}:
                return image_block(ImageContent(data=data, mime_type=mime_type))
            case _:
                return value_block(self.servers.redacted(dict(block)))


def _grouped(notices: Iterable[Notice]) -> list[list[Notice]]:
    """Join equal notices that follow each other, such as attempts to connect."""
    groups = groupby(notices, key=lambda one: (one.server, one.kind, one.text))
    return [list(group) for _, group in groups]


def _repeats(result: ToolResult) -> bool:
    """Return whether a text of a result is its structured content as JSON."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    for text in texts:
        with suppress(ValueError):
            if json.loads(text) == result.structured_content:
                return True
    return False


async def _entered(request: Request) -> dict[str, str]:
    """Read what a form is for, and its fields; nothing if the request has none."""
    try:
        data: object = json.loads(await request.body())
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {str(key): str(value) for key, value in cast("dict[Any, Any]", data).items()}


def _refused(reason: str) -> Html:
    return h("p", reason, class_="warning")


def _without_name(text: str, server: str | None) -> str:
    """Return a text about a server without its name, which is shown before it."""
    return text.removeprefix(f"{server}: ") if server else text


def _state(server: ServerStatus) -> Html:
    if server.state == "waiting" and server.error is not None:
        return h("span", "failed, tried again", class_="badge bad")
    return h("span", server.state, class_=f"badge {_STATES.get(server.state, 'warn')}")


def _connect_label(server: ServerStatus) -> str | None:
    """Return how long the open session took to open; an attempt that failed is no connection."""
    return seconds_label(server.connect_seconds) if server.state == "ready" else None


def _about(server: ServerStatus) -> str:
    info = server.server_info or {}
    return " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "–"
