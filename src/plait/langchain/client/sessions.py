"""Sessions that the user opens and closes, and calls of tools over them."""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from plait._support import mcp_types as types
from plait._support.front_door import needing_extras
from plait._support.gather import resolve
from plait._support.own_types import own_type
from plait._support.redact import Redactor
from plait.client.calls.arguments import checked_arguments
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall, call_deadline, within_run
from plait.client.catalog.listing import sanitize_tool
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_config
from plait.client.config.secrets import secret_values
from plait.client.config.servers import ServerConfig, Timeouts, connect_seconds_of
from plait.client.connections.error_mapping import (
    connect_timeout,
    leaf_of,
    request_failure,
    with_cause,
)
from plait.client.connections.loop_bridge import LoopBridge, running_loop
from plait.client.connections.opening import enter_stock_session, stock_transport
from plait.client.connections.operations import call_tool, list_tools
from plait.client.connections.session_keeper import ServerMemory, SessionOptions
from plait.client.protocol.exchange import Exchanges
from plait.client.protocol.tool_rows import row_of
from plait.client.transports.wire import Wire
from plait.client.transports.wire_log import make_wire
from plait.errors import ProtocolError
from plait.langchain.tools.callbacks import MCPCallbacks
from plait.langchain.tools.caller import Caller

if TYPE_CHECKING:
    from mcp import ClientSession

    from plait.client.connections.credentials import CallerCredentials
    from plait.langchain.client.user_session import AnySession

logger = logging.getLogger("plait.langchain")


@asynccontextmanager
async def create_session(
    connection: Mapping[str, Any] | ServerConfig, *, mcp_callbacks: MCPCallbacks | None = None
) -> AsyncGenerator[ClientSession]:
    """Open a session that is not initialized; it is closed when the block ends.

    Raises:
        PlaitError: The connection is wrong, or the server cannot be reached.
    """
    with needing_extras("a session of one's own"):
        from mcp import ClientSession  # noqa: PLC0415  # the SDK is an extra
    server = read_config({"servers": {"server": connection}}).servers["server"]
    callbacks = mcp_callbacks or MCPCallbacks()
    options: dict[str, Any] = {
        "logging_callback": callbacks.logging_callback,
        "elicitation_callback": callbacks.elicitation_callback,
        **server.client_options,
    }
    wire = make_wire("server", Redactor(secret_values(server)), lambda: None)
    async with (
        await stock_transport(server, wire) as (read_stream, write_stream),
        ClientSession(read_stream, write_stream, **options) as session,
    ):
        yield session


@asynccontextmanager
async def opened_session(
    name: str, server: ServerConfig, *, mcp_callbacks: MCPCallbacks | None = None
) -> AsyncGenerator[ClientSession]:
    """Open and initialize a session with a server; it is closed when the block ends."""
    callbacks = mcp_callbacks or MCPCallbacks()
    options = SessionOptions(
        on_log=callbacks.logging_callback,
        on_elicitation=callbacks.elicitation_callback,
        answers=callbacks.elicitation_callback is not None,
    )
    wire = make_wire(name, Redactor(secret_values(server)), lambda: None)
    limit = connect_seconds_of(server)
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(limit):
                session = await enter_stock_session(stack, server, wire, ServerMemory(), options)
        except TimeoutError as error:
            raise connect_timeout(limit, wire, name) from error
        yield session


def row_of_any(tool: object) -> dict[str, Any]:
    """Write a tool of any SDK as it is listed; of a mock, what has the type of its field."""
    # A mock with a spec passes `isinstance`, but has only the fields that were set.
    if issubclass(type(tool), BaseModel):
        return row_of(own_type(types.Tool, tool))
    kinds = {"name": str, "description": str, "title": str, "inputSchema": dict, "_meta": dict}
    row: dict[str, Any] = {"inputSchema": {"type": "object"}}
    for key, kind in kinds.items():
        own_name = {"inputSchema": "input_schema", "_meta": "meta"}.get(key, key)
        for value in (getattr(tool, own_name, None), getattr(tool, key, None)):
            if isinstance(value, kind):
                row[key] = value
    return row


class SessionCaller(Caller):
    """Calls tools over a session that the user manages, without reconnects and retries."""

    def __init__(
        self,
        session: AnySession,
        name: str,
        *,
        timeout_seconds: float | None = None,
        tools: Sequence[Tool] = (),
    ) -> None:
        with needing_extras("a session of one's own"):
            from plait.langchain.client.user_session import user_session  # noqa: PLC0415  # the SDK
        self._session = session
        self._bare = user_session(session)
        self._client = cast("Any", self._bare)
        self._timeout_seconds = timeout_seconds
        self._schemas = {tool.wire_name: tool.wire_schema for tool in tools}
        """What arguments are checked by before they are sent, by the tool."""
        self._wire = Wire(name, Redactor(()), lambda: None)
        bridge = LoopBridge()
        if running_loop() is not None:  # else the session is none of the SDK's, which need a loop
            bridge.use_current_loop()
        self.run_blocking = bridge.run_blocking
        # Ends the thread that a call without a loop has started; there is nothing to wait for.
        weakref.finalize(self, bridge.forget)

    async def list_tools(self, *, strict: bool, sanitize: bool) -> list[Tool]:
        """List the tools of all pages, up to 1,000 pages; `strict` raises if one is not valid."""
        with Exchanges() as exchanges:
            listed = await list_tools(self._client)
        for note in (*self._bare.notes, *exchanges.notes):
            if strict and note.startswith("tool "):
                raise ProtocolError(note, server=self._wire.server, retryable=False)
            logger.warning("%s: %s", self._wire.server, note)
        tools = [Tool.from_row(self._wire.server, row) for row in listed.tools]
        if sanitize:
            tools = [sanitize_tool(tool)[0] for tool in tools]
        self._schemas = {tool.wire_name: tool.wire_schema for tool in tools}
        return tools

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make a call; without a result, raise a `PlaitError`."""
        began = time.perf_counter()
        deadline = call_deadline(call, Timeouts(), self._timeout_seconds)
        if (schema := self._schemas.get(call.tool)) is not None:
            arguments = await checked_arguments(schema, call.arguments, tool=call.tool)
            call = replace(call, arguments=arguments)
        if call.recorder is not None:
            await call.recorder.send()

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            deadline.extend()
            if call.on_progress is not None:
                await resolve(call.on_progress(progress, total, message))

        with Exchanges(held=deadline.held) as exchanges:
            try:
                async with within_run(call), deadline:
                    if self._bare.overrides("call_tool"):
                        # Mocks expect no callback where there is nothing to call.
                        method, name = self._session.call_tool, call.tool
                        progress = None if call.on_progress is None else progressed
                        made = await method(name, dict(call.arguments), progress_callback=progress)
                        result = own_type(types.CallToolResult, made)
                    else:
                        result = await call_tool(
                            self._client, call.tool, call.arguments, on_progress=progressed
                        )
            except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
                cause = leaf_of(error, exchanges)
                if deadline.expired:
                    failure = deadline.error(call.server, call.tool, sent=True)
                else:
                    failure = request_failure(
                        error, exchanges, self._wire, method="tools/call", tool=call.tool
                    ).error
            else:
                return ToolResult.from_mcp(
                    call.server,
                    call.tool,
                    result,
                    attempts=1,
                    notes=exchanges.notes,
                    seconds=time.perf_counter() - began,
                )
        raise with_cause(failure, cause, self._wire)

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource, or raise a `PlaitError`."""
        del server, access
        with Exchanges() as exchanges:
            try:
                read = await self._session.read_resource(cast("Any", uri))
                return own_type(types.ReadResourceResult, read)
            except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
                cause = leaf_of(error, exchanges)
                failure = request_failure(error, exchanges, self._wire, method="resources/read")
        raise with_cause(failure.error, cause, self._wire)
