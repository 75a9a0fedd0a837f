"""Tools and server information of a session or a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from plait._support import mcp_types as types
from plait.client.catalog.listing import sanitize_tool
from plait.client.catalog.names import NamePolicy, with_public_names
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_options
from plait.client.connections.status import ServerInfo
from plait.client.toolbox import Toolbox
from plait.langchain.client.sessions import SessionCaller, row_of_any
from plait.langchain.tools.callbacks import Callbacks
from plait.langchain.tools.content import HandlingLayer, OutputHandling
from plait.langchain.tools.runner import RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool

if TYPE_CHECKING:
    from datetime import timedelta

    from langchain_core.tools import BaseTool

    from plait.client.options import ClientOptions
    from plait.langchain.client.user_session import AnySession
    from plait.langchain.tools.caller import Caller
    from plait.langchain.tools.interceptors import ToolCallInterceptor
    from plait.models.schemas.for_provider import Profile


async def load_mcp_tools(
    session: AnySession | None,
    *,
    connection: Mapping[str, Any] | None = None,
    callbacks: Callbacks | None = None,
    tool_interceptors: Sequence[ToolCallInterceptor] | None = None,
    server_name: str | None = None,
    tool_name_prefix: bool = False,
    handle_tool_errors: bool = True,
    prefix_tool_name_with_server_name: bool = False,
    additional_tool_name_prefix: str = "",
    use_standard_content_blocks: bool = True,
    output_handling: HandlingLayer = None,
    profile: Profile | None = None,
    sanitize: bool = True,
    throw_on_load_error: bool = False,
    default_tool_timeout: float | timedelta | None = None,
) -> list[BaseTool]:
    """Load the tools of a session that you manage, or of a connection.

    Tools of a session work while it is open. Tools of a connection share one that reconnects; it
    is closed when the last of them is garbage collected. `default_tool_timeout` is in seconds.

    Raises:
        ValueError: There is neither a session nor a connection.
        ProtocolError: A tool cannot be loaded, and `throw_on_load_error` is set.
    """
    name = server_name or "unknown"
    settings = RunnerSettings(
        interceptors=tuple(tool_interceptors or ()),
        callbacks=callbacks or Callbacks(),
        handle_tool_errors=handle_tool_errors,
        standard_blocks=use_standard_content_blocks,
        sanitize=sanitize,
        handling=OutputHandling.of(output_handling),
    )
    prefixed = "" if server_name is None else "_" if tool_name_prefix else ""
    names = NamePolicy(
        separator="__" if prefix_tool_name_with_server_name and server_name else prefixed,
        extra=additional_tool_name_prefix,
    )
    own = {"throw_on_load_error": throw_on_load_error, "default_tool_timeout": default_tool_timeout}
    options = read_options({**own, "sanitize": sanitize})
    caller: Caller
    if session is None:
        toolbox = _toolbox(connection, name, callbacks, options)
        caller, listed = toolbox.calls, await toolbox.tools()
    else:
        caller = SessionCaller(session, name, timeout_seconds=options.get("default_tool_timeout"))
        listed = await caller.list_tools(strict=throw_on_load_error, sanitize=sanitize)
    runner = ToolRunner(caller, settings)
    return [MCPTool(tool, runner, profile=profile) for tool in with_public_names(listed, names)]


def convert_mcp_tool_to_langchain_tool(
    session: AnySession | None,
    tool: types.Tool,
    *,
    connection: Mapping[str, Any] | None = None,
    callbacks: Callbacks | None = None,
    tool_interceptors: Sequence[ToolCallInterceptor] | None = None,
    server_name: str | None = None,
    tool_name_prefix: bool = False,
    handle_tool_errors: bool = True,
) -> BaseTool:
    """Make a LangChain tool of an MCP tool.

    With a session, call this in the session's loop, which blocking calls of the tool use.

    Raises:
        ValueError: There is neither a session nor a connection.
    """
    name = server_name or "unknown"
    named = sanitize_tool(Tool.from_row(name, row_of_any(tool)))[0]
    caller: Caller
    if session is None:
        caller = _toolbox(connection, name, callbacks, {}).calls
    else:
        caller = SessionCaller(session, name, tools=[named])
    settings = RunnerSettings(
        interceptors=tuple(tool_interceptors or ()),
        callbacks=callbacks or Callbacks(),
        handle_tool_errors=handle_tool_errors,
    )
    names = NamePolicy(separator="_" if tool_name_prefix and server_name else "")
    (named,) = with_public_names([named], names)
    return MCPTool(named, ToolRunner(caller, settings))


async def load_mcp_server_info(
    session: AnySession | None,
    *,
    connection: Mapping[str, Any] | None = None,
    callbacks: Callbacks | None = None,
    server_name: str | None = None,
) -> ServerInfo:
    """Return the name, version, capabilities and instructions of a server.

    Initializes a session that is not initialized yet.

    Raises:
        ValueError: There is neither a session nor a connection.
    """
    if session is not None:
        from plait.langchain.client.user_session import info_of  # noqa: PLC0415  # the SDK is there

        return await info_of(session)
    name = server_name or "unknown"
    async with _toolbox(connection, name, callbacks, {}) as toolbox:
        return await toolbox.server_info(name)


def _toolbox(
    connection: Mapping[str, Any] | None,
    name: str,
    callbacks: Callbacks | None,
    options: Mapping[str, Any],
) -> Toolbox:
    if connection is None:
        raise ValueError("Either a session or a connection is needed")
    callbacks = callbacks or Callbacks()
    options = {**callbacks.notification_callbacks(), **options}
    return Toolbox(
        {"servers": {name: connection}},
        on_log=callbacks.log_callback(),
        on_elicitation=callbacks.elicitation_callback,
        **cast("ClientOptions", options),
    )
