"""Mock tools and servers: each file of mocks is an MCP server on Streamable HTTP."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from plait._support.mappings import entries_of
from plait._support.threads import in_thread
from plait.errors import ConfigError

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
