"""The pages of servers: their status while it changes, their tools, and forms to call them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import quote

from mcp_types import BlobResourceContents, Prompt, TextContent
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from plait._support.sanitize import sanitize_for_terminal
from plait._support.threads import in_thread
from plait.client.calls.outcome import ToolResult
from plait.client.catalog.tool import Tool
from plait.client.connections.status import ServerStatus
from plait.errors import PlaitError
from plait.html.conversation import waterfall
from plait.html.elements import Child, Html, h, join
from plait.html.page import page
from plait.html.pieces import (
    count_label,
    facts,
    facts_list,
    folded,
    search_field,
    seconds_label,
    status_badge,
)
from plait.html.plots import heartbeat
from plait.html.text import image_block, preview, result_block, text_block, value_block
from plait.traces.messages.message import ImageContent
from plait.viewer.connected import (
    ApprovalNeededError,
    CheckFinding,
    ConnectedServers,
    Notice,
    Offer,
    PastCall,
)
from plait.viewer.forms import (
    FormError,
    arguments_from,
    as_text,
    field_key,
    fields_of,
    form_of,
    submit_button,
)
from plait.viewer.library import TraceLibrary
from plait.viewer.pages import SITE, Live, form_fields, not_found, post_button

_STATES = {"ready": "good", "failed": "bad", "lost": "bad", "closed": "bad"}
MAX_FEED_ROWS = 200
"""What happened before is not shown: the page is sent again with each change."""
MODERN = "2026-07-28"
"""The first version of the protocol without a handshake."""
_LEVELS = {"ok": "good", "warn": "warn", "error": "bad"}
_CHECK = "/servers/check"
_URI = "uri"
"""The field of a form that reads a resource."""
MAX_RUN_EVENTS = 400
"""A longer run is not drawn below the board, which is sent again with each change."""
_CHANGES = {
    "opened": "c-good",
    "idle": "c-idle",
    "lost": "c-bad",
    "refused": "c-bad",
    "dropped": "c-incident",
}
"""The colours of what follows an event of a connection."""


class _RefusedError(Exception):
    """What a form or a button sent is not done."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A tool, resource or prompt: its line in the list, and the card that it opens."""

    key: str
    name: str
    peek: str
    html: Html


@dataclass(frozen=True, slots=True)
class ServerPages:
    """Answers requests about servers."""

    servers: ConnectedServers
    library: TraceLibrary

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/servers", self.list),
            self._action("check", self.check, is_call=False),
            self._action("kill", self.kill),
            self._action("restart", self.restart),
            self._action("call", self.call),
            self._action("cancel", self.cancel),
            self._action("read", self.read),
            self._action("prompt", self.prompt),
            Route("/servers/{server}", self.server),
        ]

    def _action(
        self,
        name: str,
        answer: Callable[[Mapping[str, str]], Coroutine[Any, Any, Html]],
        *,
        is_call: bool = True,
    ) -> Route:
        """Answer what a form or a button sends with a part of the page; a refusal says why."""

        async def respond(request: Request) -> Response:
            status = 200
            try:
                if is_call and not self.servers.allow_calls:
                    raise _RefusedError("Restart the viewer with --allow-calls.", 403)
                part = await self.servers.respond(answer(await form_fields(request)))
                if part is None:
                    raise _RefusedError("It was cancelled.", 503)
            except (FormError, PlaitError, _RefusedError) as error:
                status = error.status if isinstance(error, _RefusedError) else status
                part = h("p", self.servers.redacted(str(error)), class_="warning")
            return HTMLResponse(part, status)

        return Route(f"/servers/{name}", respond, methods=["POST"])

    async def list(self, request: Request) -> Response:
        """Answer with the board of all servers, and the newest run beneath it."""
        files = await in_thread(self.library.version)
        newest = await in_thread(self._newest_run)

        def build(mark: Html) -> str:
            servers = self.servers.status.servers.values()
            ready = sum(one.state == "ready" for one in servers)
            count = f"{ready} of {count_label(len(servers), 'server')} ready"
            return page(
                "Servers",
                h("h1", "Servers", h("small", f" {count}", id="count", data_part=True)),
                h("div", map(self._tile, servers), class_="tiles", id="status", data_part=True),
                self._era_note(servers),
                h("div", newest, id="agent", data_part=True),
                self._checks(),
                self._feed(None),
                mark,
                site=SITE,
            )

        return Live(f"{self.servers.version()} {files}").answer(request, build)

    def _newest_run(self) -> Html | None:
        row = next(iter(self.library.rows()), None)
        trace = row and self.library.trace(*row.run.partition(".")[::2])
        if row is None or trace is None:
            return None
        badge = status_badge(trace.status, trace.failed_calls)
        title = h("h2", "Newest run: ", h("a", row.title, href=row.href), " ", badge)
        if len(trace.events) > MAX_RUN_EVENTS:
            return h("section", title, h("p", "It is too long to be shown here.", class_="muted"))
        return h("section", title, waterfall(trace, href=row.href))

    def _tile(self, server: ServerStatus) -> Html:
        """Show a server: its state, its last minute, and buttons that end its process."""
        name, error = server.name, server.last_error
        changes = [
            (one.at.timestamp(), _CHANGES[one.kind])
            for one in self.servers.status.events
            if one.server == name and one.kind in _CHANGES
        ]
        beats = [
            (one.began, one.ended, one.is_lost) for one in self.servers.pulse.beats.get(name, ())
        ]
        known = facts(
            None if server.tool_count is None else count_label(server.tool_count, "tool"),
            count_label(server.sessions, "session"),
            None if server.state != "ready" else f"connected in {_connect_label(server)}",
            server.transport,
            server.protocol_version,
            f"process {server.pid}" if server.pid is not None else None,
        )
        target = {"server": name}
        kill = post_button("Kill", "/servers/kill", target, class_="danger")
        restart = post_button("Restart", "/servers/restart", target)
        return h(
            "article",
            h("h2", h("a", name, href=f"/servers/{quote(name, safe='')}"), " ", _state(server)),
            heartbeat(changes, beats, f"the last minute of {name}"),
            known,
            h("p", self._text(error, name), class_="warning") if error else None,
            h("div", kill if server.pid is not None else None, restart, class_="actions")
            if self.servers.allow_calls
            else None,
            class_="tile",
            id=f"tile-{name}",
        )

    async def server(self, request: Request) -> Response:
        """Answer with one server and its tools."""
        name = request.path_params["server"]
        if name not in self.servers.config.servers:
            return not_found("such server")
        tools = self.servers.tools.get(name, ())

        def build(mark: Html) -> str:
            head = h("div", self._facts(self.servers.status[name]), id="status", data_part=True)
            is_listed = name in self.servers.tools
            groups = [
                ("tool", [self._tool(tool) for tool in tools]),
                *self._offered(self.servers.offers.get(name, Offer()), name),
            ]
            links = _card_links(groups, is_listed=is_listed)
            cards = [card.html for _, group in groups for card in group]
            return page(
                name,
                head,
                h(
                    "div",
                    h("section", search_field("tools"), links, class_="chooser"),
                    h(
                        "div",
                        self._running_calls(name),
                        h("div", cards, id="cards", data_part=True),
                        self._past_calls(name),
                        class_="use",
                    ),
                    class_="panes",
                ),
                self._feed(name),
                mark,
                site=SITE,
            )

        return Live(self.servers.version()).answer(request, build)

    async def check(self, _entered: Mapping[str, str]) -> Html:
        """Check all servers, and answer with what was found."""
        await self.servers.run_check()
        return self._findings()

    async def kill(self, entered: Mapping[str, str]) -> Html:
        """Kill the process of a server."""
        self.servers.kill(self._server_of(entered))
        return join()

    async def cancel(self, entered: Mapping[str, str]) -> Html:
        """Cancel a call."""
        self.servers.cancel_call(entered.get("call", ""))
        return join()

    async def restart(self, entered: Mapping[str, str]) -> Html:
        """Drop the session of a server."""
        await self.servers.restart(self._server_of(entered))
        return join()

    async def call(self, entered: Mapping[str, str]) -> Html:
        """Call a tool with what was entered in its form, and answer with its result."""
        tools = self.servers.tools.get(entered.get("server", ""), ())
        tool = next((one for one in tools if one.wire_name == entered.get("tool")), None)
        if tool is None:
            raise _RefusedError("There is no such tool.", 404)
        arguments = arguments_from(tool.input_schema, entered)
        if entered.get("action") == "command":
            values = [tool.server, tool.wire_name, json.dumps(arguments, ensure_ascii=False)]
            command = shlex.join([*self.servers.command, "call", *values])
            return h("div", h("pre", command, class_="command"), data_copied=True)
        try:
            result = await self.servers.call(
                tool.server, tool.wire_name, arguments, proof=entered.get("approve")
            )
        except ApprovalNeededError as needed:
            reason = f"The policy requires approval: {needed.request.reason}"
            values = self.servers.redacted(dict(needed.request.arguments))
            button = h("button", "Approve and call", type="button", data_approve=needed.proof)
            return h("div", h("p", reason, class_="warning"), value_block(values), button)
        return self._result(result)

    async def read(self, entered: Mapping[str, str]) -> Html:
        """Read a resource; a template is read at the address that was entered."""
        uri = entered.get(field_key(_URI)) or entered.get(_URI, "")
        result = await self.servers.box.read_resource(self._server_of(entered), uri)
        contents = [
            image_block(ImageContent(data=one.blob, mime_type=one.mime_type or ""))
            if isinstance(one, BlobResourceContents)
            else result_block(self.servers.redacted(one.text))
            for one in result.contents
        ]
        return h("div", contents, class_="succeeded")

    async def prompt(self, entered: Mapping[str, str]) -> Html:
        """Get a prompt with the arguments that were entered."""
        name = entered.get("server", "")
        prompts = self.servers.offers.get(name, Offer()).prompts
        prompt = next((one for one in prompts if one.name == entered.get("prompt")), None)
        if prompt is None:
            raise _RefusedError("There is no such prompt.", 404)
        values = arguments_from(_prompt_schema(prompt), entered)
        texts = {key: as_text(value) for key, value in values.items()}
        result = await self.servers.box.get_prompt(name, prompt.name, texts)
        messages: list[Child] = []
        for message in result.messages:
            content = message.content
            if isinstance(content, TextContent):
                block = text_block(self.servers.redacted(content.text))
            else:
                data = content.model_dump(mode="json", by_alias=True)
                block = value_block(self.servers.redacted(data))
            messages += [h("p", message.role, class_="role"), block]
        return h("div", messages, class_="succeeded")

    def _server_of(self, entered: Mapping[str, str]) -> str:
        name = entered.get("server", "")
        if name not in self.servers.config.servers:
            raise _RefusedError("There is no such server.", 404)
        return name

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
        return folded("why the older protocol", h("p", text, class_="muted"))

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
        name, error, tail = server.name, server.last_error, server.stderr_tail
        restart = post_button("Restart", "/servers/restart", {"server": name})
        kill = post_button("Kill", "/servers/kill", {"server": name}, class_="danger")
        own = kill if server.pid is not None else None
        buttons = h("span", own, restart, class_="actions") if self.servers.allow_calls else None
        stderr = f"stderr, last {count_label(len(tail), 'line')}"
        return join(
            h("h1", name, " ", _state(server), " ", buttons),
            facts_list(rows),
            h("p", self._text(error, name), class_="warning") if error else None,
            self._era_note([server]),
            [h("p", f"repaired: {note}", class_="muted") for note in server.repaired],
            folded(stderr, text_block(self.servers.redacted("\n".join(tail)))) if tail else None,
        )

    def _tool(self, tool: Tool) -> _Card:
        hints = {"read_only_hint": "read-only", "destructive_hint": "destructive"}
        schemas = [("Input schema", dict(tool.input_schema))]
        if tool.output_schema:
            schemas.append(("Output schema", dict(tool.output_schema)))
        form = form_of(
            tool.input_schema,
            action="/servers/call",
            target={"server": tool.server, "tool": tool.wire_name},
            buttons=(
                submit_button("Call", class_="primary"),
                submit_button("Copy as plait call", "command"),
            ),
        )
        return self._card(
            f"tool-{tool.wire_name}",
            _signature(tool.wire_name, tool.input_schema),
            [word for key, word in hints.items() if tool.annotations.get(key)],
            tool.description,
            form,
            [folded(name, value_block(schema)) for name, schema in schemas],
        )

    def _card(
        self,
        key: str,
        title: Child,
        marks: Iterable[str | None],
        description: str | None,
        form: Html,
        more: Child = None,
    ) -> _Card:
        """Show a tool, resource or prompt with its form, or why there is none."""
        text = (description or "").strip()
        name = key.partition("-")[2]
        key = sanitize_for_terminal(key)  # as in the page, so that a link finds it
        badges = [h("span", mark, class_="badge") for mark in marks if mark]
        reason = h("p", "Start with --allow-calls to use it from here.", class_="muted")
        card = h(
            "article",
            h("h2", title, " ", badges),
            text_block(text) if text else None,
            form if self.servers.allow_calls else reason,
            more,
            class_="a-tool",
            id=key,
        )
        return _Card(key=key, name=name, peek=text.partition("\n")[0], html=card)

    def _offered(self, offer: Offer, server: str) -> list[tuple[str, list[_Card]]]:
        """Return the cards of the resources and prompts of a server."""
        found = [(str(one.uri), one, None) for one in offer.resources]
        found += [(one.uri_template, one, "template") for one in offer.templates]
        resources: list[_Card] = []
        for uri, one, template in found:
            address = {"type": "string", "maxLength": 200, "default": uri}
            field = {_URI: {**address, "description": "the address"}} if template else {}
            form = form_of(
                {"type": "object", "properties": field},
                action="/servers/read",
                target={"server": server, _URI: uri},
                buttons=submit_button("Read", class_="primary"),
            )
            title, marks = h("b", uri, class_="tool"), (one.mime_type, template)
            resources.append(self._card(f"resource-{uri}", title, marks, one.description, form))
        prompts: list[_Card] = []
        for prompt in offer.prompts:
            target = {"server": server, "prompt": prompt.name}
            schema = _prompt_schema(prompt)
            button = submit_button("Get", class_="primary")
            form = form_of(schema, action="/servers/prompt", target=target, buttons=button)
            title = _signature(prompt.name, schema)
            prompts.append(self._card(f"prompt-{prompt.name}", title, (), prompt.description, form))
        return [("resource", resources), ("prompt", prompts)]

    def _running_calls(self, server: str) -> Html:
        """Show the calls that pages have made and that go on, with their progress."""
        rows: list[Html] = []
        for one in self.servers.calls.values():
            if one.server != server:
                continue
            # Without a value, a progress bar only moves.
            known = {"value": one.done, "max": one.total} if one.total else {}
            cancel = post_button("Cancel", "/servers/cancel", {"call": one.key})
            bar = h("progress", **known, aria_label="progress")
            name = h("b", one.tool, class_="tool")
            rows.append(h("div", name, bar, h("span", one.message), cancel, class_="running"))
        return h("div", rows, id="running", data_part=True, role="status")

    def _past_calls(self, server: str) -> Html:
        """Show the calls that pages have made, the newest first."""
        past = [one for one in self.servers.history if one.server == server]
        title = h("h3", "Calls so far") if past else None
        return h("div", title, map(self._past_call, past), id="history", data_part=True)

    def _past_call(self, one: PastCall) -> Html:
        if isinstance(one.result, ToolResult):
            badge = status_badge("failed" if one.result.is_error else "completed")
            known, content = seconds_label(one.result.seconds), self._result(one.result)
        else:
            badge = h("span", "no result", class_="badge bad")
            known, content = None, h("p", self._text(one.result, one.server), class_="warning")
        arguments = preview(one.arguments)
        return h(
            "details",
            h(
                "summary",
                h("time", f"{one.at:%H:%M:%S}"),
                " ",
                h("b", one.tool, class_="tool"),
                " ",
                badge,
                " ",
                facts(known),
                h("span", arguments, class_="peek"),
            ),
            value_block(one.arguments) if one.arguments else None,
            h("div", content, class_="outcome"),
            class_="past",
            id=f"call-{one.at.timestamp():.6f}",
        )

    def _checks(self) -> Html | None:
        if self.servers.check is None:
            return None
        label = "Check all servers"
        button = h("button", label, type="button", data_post=_CHECK, data_into="findings")
        found = h("div", self._findings(), id="findings")
        return h("section", h("h2", "Doctor"), h("p", button), found)

    def _findings(self) -> Html:
        found = self.servers.findings
        if found is None:
            text = "Checks connections, schemas, names, cost, logins and the lockfile."
            return h("p", text, class_="muted")

        def item(one: CheckFinding) -> Html:
            fix = h("span", f"fix: {one.fix}", class_="fix") if one.fix else None
            level = h("span", one.level, class_=f"badge {_LEVELS.get(one.level, '')}")
            where = h("b", f"{one.server} ") if one.server else None
            return h("li", level, h("span", where, self._text(one.message, one.server)), fix)

        return h("ul", [item(one) for one in found], class_="checked")

    def _feed(self, server: str | None) -> Html:
        """Show notifications and what happened to connections, the newest first."""
        notices = list(self.servers.notices)
        for one in self.servers.status.events:
            text = self._text(one.detail, one.server)
            notices.append(Notice(at=one.at, server=one.server, kind=one.kind, text=text))
        chosen = [one for one in notices if server is None or one.server == server]
        newest = sorted(chosen, key=lambda one: one.at, reverse=True)
        rows: list[Html] = []
        # Equal notices that follow each other, such as attempts to connect, are one row.
        for _, group in groupby(newest, key=lambda one: (one.server, one.kind, one.text)):
            first, *others = group
            rows.append(
                h(
                    "tr",
                    h("td", h("time", f"{first.at:%H:%M:%S.%f}"[:-4])),
                    h("td", first.server) if server is None else None,
                    h("td", first.kind),
                    h("td", first.text, h("b", f" ×{len(others) + 1}") if others else None),
                )
            )
        listed = h("div", h("table", h("tbody", rows[:MAX_FEED_ROWS])), class_="wide")
        return h(
            "div",
            h("h2", "What happened"),
            listed if rows else h("p", "Nothing yet.", class_="muted"),
            id="feed",
            class_="feed",
            data_part=True,
        )

    def _text(self, text: str, server: str | None) -> str:
        """Return a text about a server without secrets, and without its name before it."""
        redacted: str = self.servers.redacted(text)
        return redacted.removeprefix(f"{server}: ") if server else redacted

    def _result(self, result: ToolResult) -> Html:
        redact = self.servers.redacted
        facts = [
            "the tool reports a failure" if result.is_error else "succeeded",
            seconds_label(result.seconds),
            f"{result.attempts} attempts" if result.attempts > 1 else None,
        ]
        content: list[Child] = []
        for block in result.content:
            data = block.model_dump(mode="json", by_alias=True, exclude_none=True)
            match data:
                case {"type": "text", "text": str() as text}:
                    content.append(result_block(redact(text)))
                case {"type": "image", "data": str() as image, "mimeType": str() as mime_type}:
                    content.append(image_block(ImageContent(data=image, mime_type=mime_type)))
                case _:
                    content.append(value_block(redact(data)))
        if result.structured_content is not None and not _repeats(result):
            structured = value_block(redact(result.structured_content))
            content.append(folded("structured content", structured))
        return h(
            "div",
            h("p", " · ".join(fact for fact in facts if fact), class_="muted"),
            content,
            [h("p", redact(note), class_="warning") for note in result.notes],
            class_="failed" if result.is_error else "succeeded",
        )


def _card_links(groups: Iterable[tuple[str, Sequence[_Card]]], *, is_listed: bool) -> Html:
    """List what a server offers, as links to the cards."""
    parts: list[Child] = []
    for noun, cards in groups:
        if cards or noun == "tool":
            parts.append(h("h2", count_label(len(cards), noun)))
        items = [
            h(
                "li",
                h(
                    "a",
                    h("b", one.name),
                    h("span", one.peek, class_="peek"),
                    href=f"#{quote(one.key)}",
                ),
                data_item=True,
                tabindex="-1",
            )
            for one in cards
        ]
        parts.append(h("ul", items, data_list=True) if items else None)
    waiting = h("p", "Listed once the server is ready.", class_="muted")
    return h("div", parts if is_listed else waiting, id="offer", data_part=True)


def _signature(name: str, schema: Mapping[str, Any]) -> list[Html]:
    names = [f"{one.name}{'' if one.required else '?'}" for one in fields_of(schema)]
    return [h("b", name, class_="tool"), h("code", f"({', '.join(names)})")]


def _prompt_schema(prompt: Prompt) -> dict[str, Any]:
    """Return the arguments of a prompt as a schema for its form."""
    arguments = prompt.arguments or ()
    fields = {
        one.name: {"type": "string", "description": one.description or ""} for one in arguments
    }
    required = [one.name for one in arguments if one.required]
    return {"type": "object", "properties": fields, "required": required}


def _repeats(result: ToolResult) -> bool:
    """Return whether a text of a result is its structured content as JSON."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    for text in texts:
        with suppress(ValueError):
            if json.loads(text) == result.structured_content:
                return True
    return False


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
