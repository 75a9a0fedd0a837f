"""A local gateway for development and tests: discovery, mock servers and chat history."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import unquote

import anyio
import anyio.abc
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from plait._support.http_servers import KnownHostsOnly, LocalServer, buffer_body, listen
from plait._support.mappings import entries_of
from plait._support.threads import in_thread
from plait.errors import ConfigError, TokenError
from plait.gateway.credentials import check_token, claims_of
from plait.html.elements import Child, Html, h
from plait.html.page import page
from plait.html.pieces import table, table_row
from plait.html.text import value_block

DEFAULT_TEMPLATE = "Mock response from {{name}}"

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")

_OVERRIDES = ("responseTemplate", "response", "mockResponse", "text", "value", "output")
"""Arguments that replace the default template."""


class MockTool(BaseModel):
    """A mock tool, as its file describes it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    name: str = Field(pattern=r"\S")
    description: str = ""
    input_schema: dict[str, Any] = {"type": "object"}
    response_template: str = DEFAULT_TEMPLATE
    delay_ms: float = 0
    error_rate: float = 0
    """The share of calls that fail, from 0 to 1."""
    status_code: int = 200
    """From 400 on, the result is an error."""
    enabled: bool = True

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, entry: object) -> dict[str, Any]:
        """Take a key without a value for a missing one."""
        return {key: value for key, value in entries_of(entry).items() if value is not None}


@dataclass(frozen=True, slots=True)
class MockAnswer:
    """The reply of a mock tool."""

    text: str
    template: str
    missing: tuple[str, ...]
    """Placeholders without an argument."""


def read_mocks(path: Path) -> tuple[MockTool, ...]:
    """Read the tools of one server."""
    try:
        return _TOOLS.validate_json(path.read_text("utf-8-sig"))
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {place}: {first['msg']}".replace(": :", ":")) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


_TOOLS = TypeAdapter(tuple[MockTool, ...])


def answer_of(tool: MockTool, arguments: Mapping[str, Any]) -> MockAnswer:
    """Fill in the template of a tool; placeholders without an argument stay."""
    template = tool.response_template
    if template == DEFAULT_TEMPLATE:
        texts = (arguments.get(name) for name in _OVERRIDES)
        template = next((text for text in texts if isinstance(text, str) and text), template)
    values = {
        name.lower(): value for name, value in ({"name": tool.name} | dict(arguments)).items()
    }
    missing: list[str] = []

    def fill(match: re.Match[str]) -> str:
        key = match[1].lower()
        if key not in values:
            missing.append(match[1])
            return match[0]
        value: object = values[key]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    text = _PLACEHOLDER.sub(fill, template)
    return MockAnswer(text, template, tuple(dict.fromkeys(missing)))


_FAILED_FROM = 400


class MockServers:
    """Serves the files of a folder; changes take effect with the next request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._starting = anyio.Lock()

    def names(self) -> list[str]:
        """Return the names of all servers."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    @asynccontextmanager
    async def running(self, _app: object) -> AsyncGenerator[None]:
        """Serve until the block ends: the lifespan of an application."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the server that its path names."""
        name = scope["path_params"]["name"]
        if name not in self.names():
            answer = PlainTextResponse(f"there is no mock server {name!r}", 404)
            await answer(scope, receive, send)
            return
        async with self._starting:
            if name not in self._managers:
                assert self._group is not None, "not running"  # noqa: S101
                manager = StreamableHTTPSessionManager(self._server(name))
                await self._group.start(_run, manager)
                self._managers[name] = manager
        await self._managers[name].handle_request(scope, receive, send)

    def _server(self, name: str) -> Server[Any]:
        async def enabled_tools() -> dict[str, MockTool]:
            tools = await in_thread(read_mocks, self.folder / f"{name}.json")
            return {tool.name: tool for tool in tools if tool.enabled}

        async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
            return types.ListToolsResult(
                tools=[
                    types.Tool(
                        name=tool.name,
                        description=tool.description,
                        input_schema=dict(tool.input_schema),
                    )
                    for tool in (await enabled_tools()).values()
                ]
            )

        async def call_tool(
            _context: object, params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            tool = (await enabled_tools()).get(params.name)
            if tool is None:
                raise MCPError(404, f"Mock tool '{params.name}' not found")
            await anyio.sleep(tool.delay_ms / 1000)
            if random.random() < tool.error_rate:
                raise MCPError(500, f"Simulated error for mock tool '{tool.name}'")
            arguments = params.arguments or {}
            answer = answer_of(tool, arguments)
            return types.CallToolResult(
                content=[types.TextContent(text=answer.text)],
                is_error=tool.status_code >= _FAILED_FROM,
                _meta={
                    "isMock": True,
                    "tool": tool.name,
                    "usedArguments": arguments,
                    "template": answer.template,
                    "missingPlaceholders": list(answer.missing),
                },
            )

        return Server(name, version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)


async def _run(
    manager: StreamableHTTPSessionManager,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()


_SERVERS = "/agents/servers/"
_HISTORY = "/agents/real-time-threat-protection/chat-message"
_CATALOGUE = "/agents/discoverToolServers"
_TOO_MANY = 429

MAX_RECORDS = 2000
"""How many requests are kept."""

_SYNTAX = re.compile(
    r"(?P<target>[^=]+)=(?P<kind>\d{3}|slow|garbage|malformed|duplicate)"
    r"(?::(?P<seconds>\d+(?:\.\d+)?))?(?:x(?P<times>\d+))?"
)

FORMS = "TARGET=KIND[:SECONDS][xTIMES]"


@dataclass(slots=True)
class Fault:
    """A simulated fault."""

    target: str
    """`discovery`, `history`, or the name of a server."""
    kind: str
    """A status, `slow`, `garbage`, and for `discovery` `malformed` or `duplicate`."""
    seconds: float | None = None
    """The delay, or the value of `Retry-After`."""
    times: int | None = None
    """For how many requests; `None` means all."""


def fault_from(text: str) -> Fault:
    """Parse a fault: `discovery=429:1x2`, `history=slow:5`, `mcp_MailTools=500`."""
    match = _SYNTAX.fullmatch(text.strip())
    if match is None:
        kinds = "a status, slow, garbage, malformed or duplicate"
        raise ConfigError(f"a fault is written {FORMS}, with {kinds} as the kind: {text!r}")
    seconds, times = match["seconds"], match["times"]
    return Fault(
        match["target"].strip(),
        match["kind"],
        None if seconds is None else float(seconds),
        None if times is None else int(times),
    )


class Faults:
    """The faults to simulate; may be changed from any thread."""

    def __init__(self, faults: Iterable[str] = ()) -> None:
        self.set(*faults)

    def set(self, *faults: str) -> None:
        """Simulate these faults from now on, and no others."""
        self._faults = [fault_from(fault) for fault in faults]

    def take(self, target: str) -> Fault | None:
        """Return the fault for a request, if there is one, and count it."""
        for fault in self._faults:
            if fault.target == target and fault.times != 0:
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None


class MockGateway:
    """A local gateway; entering its context starts it.

    `mocks` is a folder with a file of mock tools for each server.
    """

    def __init__(
        self,
        mocks: str | os.PathLike[str],
        *,
        port: int = 0,
        fail: Iterable[str] = (),
        details: Mapping[str, Mapping[str, Any]] | None = None,
        require_token: bool = False,
    ) -> None:
        """Take the folder and the faults; `details` are more keys for the entries of servers.

        With `require_token` requests need a token that is not expired, with the audience of the
        server.
        """
        folder = Path(mocks)
        for path in folder.glob("*.json"):
            read_mocks(path)
        self.url = ""
        self.faults = Faults(fail)
        """The simulated faults; `faults.set("discovery=500x2")` changes them."""
        self._port = port
        self._details = details or {}
        self._require_token = require_token
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._servers = MockServers(folder)
        self._app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/requests", self._requests),
                Route("/health", self._health),
                Route("/agents/{agent}/mcpServers", self._discovery),
                Route("/agents/v2/{agent}/mcpServers", self._discovery),
                Route(_CATALOGUE, self._catalogue),
                Route(_HISTORY, self._history, methods=["POST"]),
                Route(f"{_SERVERS}{{name}}", endpoint=self._servers),
                Route(f"{_SERVERS}{{name}}/", endpoint=self._servers),
            ],
            lifespan=self._servers.running,
        )

    def requests(self, target: str | None = None) -> list[Record]:
        """Return the requests to `discovery`, `history`, or a server; oldest first."""
        # A copy, since the server adds requests in its own thread.
        records = self._records.copy()
        return [record for record in records if target is None or record.target == target]

    def clear(self) -> None:
        """Forget all requests."""
        self._records.clear()

    def histories(self) -> list[Any]:
        """Return the bodies of chat history that were accepted."""
        return [each.json for each in self.requests("history") if each.status == 200]

    def add_server(self, name: str, tools: Iterable[Mapping[str, Any]]) -> None:
        """Add a server with mock tools."""
        path = self._servers.folder / f"{name}.json"
        path.write_text(json.dumps([dict(tool) for tool in tools]), "utf-8")

    def __enter__(self) -> Self:
        listener = self._listen()
        self._server = self._local_server()
        self._server.start(listener, name="the mock gateway")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop()

    def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve until a signal ends it; `on_ready` gets the URL."""
        listener = self._listen()
        self._local_server(lambda: on_ready(self.url)).run([listener])

    def _local_server(self, on_ready: Callable[[], None] = lambda: None) -> LocalServer:
        app = KnownHostsOnly(self._handle)
        return LocalServer(app, on_ready=on_ready, lifespan="on", interface="asgi3")

    def _listen(self) -> socket.socket:
        try:
            listener = listen(port=self._port)
        except OSError as error:
            reason = error.strerror
            raise ConfigError(f"port {self._port} cannot be listened on: {reason}") from error
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        return listener

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Record a request, simulate its fault, check its token, and answer it."""
        target = _target(scope)
        if target is None:
            await self._app(scope, receive, send)
            return
        body, receive = await buffer_body(receive)
        request = Request(scope)
        path, headers = request.url.path, dict(request.headers)
        record = Record(target, request.method, path, headers, body, datetime.now(UTC))
        self._records.append(record)
        fault = self.faults.take(target)
        scope["plait.fault"] = fault
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds or 0)
        answer = None if fault is None else _failing(fault)
        answer = answer or self._refusal(target, request)

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
            await send(message)

        await (answer or self._app)(scope, receive, send_recorded)

    def _refusal(self, target: str, request: Request) -> Response | None:
        if not self._require_token or target == "history":
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            check_token(token if scheme.lower() == "bearer" else "")
            audience = self._details.get(target, {}).get("audience")
            if audience and claims_of(token).get("aud") not in {audience, f"api://{audience}"}:
                raise TokenError("the token is for another audience")
        except TokenError as error:
            return PlainTextResponse(error.message, 401, {"WWW-Authenticate": "Bearer"})
        return None

    def _entries(self, request: Request) -> list[dict[str, Any]]:
        return [
            {
                "mcpServerName": name,
                "mcpServerUniqueName": name,
                "url": f"{_base(request)}{_SERVERS}{name}",
                **self._details.get(name, {}),
            }
            for name in self._servers.names()
        ]

    async def _discovery(self, request: Request) -> Response:
        entries = self._entries(request)
        fault = cast("Fault | None", request.scope.get("plait.fault"))
        if fault is not None and fault.kind == "malformed":
            entries.insert(0, {"mcpServerName": "malformed", "url": 7})
        if fault is not None and fault.kind == "duplicate" and entries:
            entries.append({**entries[0], "url": f"{entries[0]['url']}?again"})
        return JSONResponse(entries)

    async def _catalogue(self, request: Request) -> Response:
        return JSONResponse({"mcpServers": self._entries(request)})

    async def _history(self, _: Request) -> Response:
        return JSONResponse({})

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "servers": self._servers.names()})

    async def _page(self, request: Request) -> Response:
        text = inspection_page(_base(request), self._servers.names(), self.requests())
        return HTMLResponse(text, headers={"Refresh": "3"})

    async def _requests(self, _: Request) -> Response:
        return JSONResponse([record.to_dict() for record in self.requests()])


def _target(scope: Scope) -> str | None:
    """Return the target of a request; `None` for those that only inspect the mock."""
    if scope["type"] != "http":
        return None
    path: str = scope["path"]
    if path.startswith(_SERVERS):
        return unquote(path.removeprefix(_SERVERS).strip("/"))
    if path == _HISTORY:
        return "history"
    if path == _CATALOGUE:
        return "catalogue"
    return "discovery" if path.endswith("/mcpServers") else None


def _failing(fault: Fault) -> Response | None:
    if fault.kind == "garbage":
        return HTMLResponse("<html>this is not what you asked for")
    if not fault.kind.isdigit():
        return None
    status = int(fault.kind)
    seconds = 1.0 if fault.seconds is None and status == _TOO_MANY else fault.seconds
    headers = {} if seconds is None else {"Retry-After": f"{seconds:g}"}
    return PlainTextResponse(f"simulated fault {status}", status, headers)


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


@dataclass(slots=True)
class Record:
    """A request, and the status of its reply."""

    target: str
    """`discovery`, `catalogue`, `history`, or the name of a server."""
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    at: datetime
    status: int = 0

    @property
    def json(self) -> Any:
        """The body as JSON, or `None`."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def rpc_method(self) -> str:
        """The MCP method of the request, if it has one."""
        return str(entries_of(self.json).get("method", ""))

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data, without tokens and keys."""
        shown = {
            name: value if name in _SHOWN_HEADERS else "***" for name, value in self.headers.items()
        }
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "target": self.target,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "rpc": self.rpc_method or None,
            "headers": shown,
            "body": self.json if self.target == "history" else None,
        }


_SHOWN_HEADERS = frozenset(
    {"accept", "content-type", "host", "user-agent"}
    | {"mcp-method", "mcp-name", "mcp-protocol-version"}
    | {"x-ms-agentid", "x-ms-channel-id", "x-ms-correlation-id", "x-ms-subchannel-id"}
)
"""Headers whose values are shown on the page."""

_FIRST_BAD = 400
MAX_ROWS = 100
"""The page shows no more requests of a kind."""


def inspection_page(endpoint: str, servers: Sequence[str], records: Sequence[Record]) -> str:
    """Render the page, newest requests first."""
    newest = list(reversed(records))
    addresses = [(h("b", name), h("code", f"{endpoint}{_SERVERS}{name}")) for name in servers]
    histories = [
        (f"{one.at:%H:%M:%S}", _status(one), value_block(one.json))
        for one in newest
        if one.target == "history"
    ]
    others: list[tuple[Child, ...]] = []
    for one in newest:
        if one.target == "history":
            continue
        shown: dict[str, str] = one.to_dict()["headers"]
        ours = [f"{name}: {shown[name]}" for name in shown if name.startswith(("x-ms", "auth"))]
        request = h("code", f"{one.method} {one.path} {one.rpc_method}")
        time, headers = f"{one.at:%H:%M:%S}", h("code", ", ".join(ours))
        others.append((time, one.target, request, _status(one), headers))
    return page(
        "plait gateway mock",
        h("h1", "plait gateway mock"),
        h("p", "Set ", h("code", f"MCP_PLATFORM_ENDPOINT={endpoint}"), " to use it."),
        _section("Servers", ("name", "address"), addresses),
        _section("Chat history", ("time", "status", "body"), histories[:MAX_ROWS]),
        _section("Requests", ("time", "target", "request", "status", "headers"), others[:MAX_ROWS]),
    )


def _section(title: str, titles: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    columns = [(one, None) for one in titles]
    listed = table(columns, [table_row(columns, row) for row in rows])
    none = h("p", "none yet", class_="muted")
    return h("section", h("h2", title), listed if rows else none, class_="wide")


def _status(record: Record) -> Html:
    kind = "bad" if record.status >= _FIRST_BAD or not record.status else "good"
    return h("span", str(record.status or "…"), class_=f"badge {kind}")
