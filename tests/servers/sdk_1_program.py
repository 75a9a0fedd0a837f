"""A program on MCP SDK 1.x that uses plait, run by the Python of `.legacy/venv`.

Its arguments are the URL of a fault server, and folders of packages which that environment does
not have: plait, and what plait needs beside the SDK. Without them it is the server that it uses.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false
# The SDK of the checked environment is 2.x.
from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any
from unittest.mock import AsyncMock

import mcp.types as sdk_types
from mcp.server import Server
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel


class Color(BaseModel):
    name: str


server = FastMCP("old", instructions="Ask me.")
low, deaf = Server("low"), Server("deaf")
"""Servers of the lower level: the second one lists a tool that it does not let anybody call."""
hanging, cancelled = asyncio.Event(), asyncio.Event()
"""Set when a call of `hang` begins, and when it is cancelled."""


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Which color?", Color)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def work(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    return "done"


@server.tool()
async def hang() -> str:
    hanging.set()
    try:
        await asyncio.sleep(60)
    finally:
        cancelled.set()
    return "never"


@server.tool()
async def fail() -> str:
    raise ValueError("nothing there")


@server.resource("memo://one")
def memo() -> str:
    return "remember"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


@deaf.list_tools()
@low.list_tools()
async def list_tools() -> list[sdk_types.Tool]:
    return [sdk_types.Tool(name="low", inputSchema={"type": "object"})]


@low.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> list[sdk_types.TextContent]:
    return [sdk_types.TextContent(type="text", text=f"{name} {arguments}")]


async def answer(_context: Any, params: Any) -> sdk_types.ElicitResult:
    return sdk_types.ElicitResult(action="accept", content={"name": "blue"})


async def main() -> None:
    _, url, *folders = sys.argv
    sys.path += folders
    import plait

    warnings: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    answers = {"session_kwargs": {"elicitation_callback": answer}}
    stdio = {"command": sys.executable, "args": [__file__], **answers}
    here = {"server": server, **answers}
    async with plait.Toolbox({"low": low}) as box:
        lowest = (await box.call("low", "low", {"a": 1})).text
    seen = {
        "session over stdio": await by_a_session_of_the_user(plait, stdio),
        "session in process": await by_a_session_of_the_user(plait, here),
        "session over HTTP": await version_headers(plait, url),
        "tools of a session": await by_a_session_of_the_client(plait, here),
        "error of a server": await by_a_server_that_refuses(plait),
        "tools": await by_tools(plait, here),
        "values of the SDK": await with_its_values(plait, here),
        "low-level server": lowest,
        "cancelled calls": await by_cancelled_calls(plait),
        "was served over HTTP": is_served_over_http(),
        "warnings": warnings,
    }
    sys.stdout.write(json.dumps(seen))


async def by_a_session_of_the_user(plait: Any, entry: dict[str, Any]) -> list[Any]:
    steps: list[Any] = []

    async def progressed(*step: Any) -> None:
        steps.append(step)

    async with plait.create_session(entry) as session:
        declared = await session.initialize()
        tools = await session.list_tools()
        added = await session.call_tool("add", {"a": 1, "b": 2})
        asked = await session.call_tool("ask", {})
        worked = await session.call_tool("work", {}, progress_callback=progressed)
        return [
            declared.serverInfo.name,
            [tool.name for tool in tools.tools],
            added.structuredContent,
            [asked.content[0].text, worked.content[0].text],
            steps,
        ]


async def version_headers(plait: Any, url: str) -> list[str]:
    async with plait.create_session({"transport": "http", "url": url}) as session:
        declared = await session.initialize()
        received = (await session.call_tool("headers", {})).structuredContent
        return [declared.protocolVersion, received["mcp-protocol-version"]]


def is_served_over_http() -> bool:
    """Return whether the server has a manager of HTTP sessions."""
    try:
        return server.session_manager is not None
    except RuntimeError:
        return False


async def by_a_session_of_the_client(plait: Any, entry: dict[str, Any]) -> list[Any]:
    async with (
        plait.MultiServerMCPClient({"old": entry}) as client,
        client.session("old") as session,
    ):
        tools = {tool.name: tool for tool in await plait.load_mcp_tools(session)}
        info = await plait.load_mcp_server_info(session)
        return [
            [await tools["add"].ainvoke({"a": 3, "b": 4}), await tools["fail"].ainvoke({})],
            (await plait.load_mcp_prompt(session, "greet", arguments={"name": "Ann"}))[0].content,
            [blob.as_string() for blob in await plait.load_mcp_resources(session)],
            info.capabilities.tools is not None,
        ]


async def by_a_server_that_refuses(plait: Any) -> list[Any]:
    async with plait.create_session({"server": deaf}) as session:
        await session.initialize()
        (tool,) = await plait.load_mcp_tools(session, handle_tool_errors=False)
        try:
            return [await tool.ainvoke({})]
        except plait.PlaitError as error:
            return [type(error).__name__, str(error)]


async def by_tools(plait: Any, entry: dict[str, Any]) -> list[Any]:
    async with plait.MultiServerMCPClient({"old": entry}) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        info = await plait.load_mcp_server_info(None, connection=entry)
        return [
            await tools["add"].ainvoke({"a": 5, "b": 6}),
            await tools["ask"].ainvoke({}),
            [info.name, info.instructions],
        ]


async def with_its_values(plait: Any, entry: dict[str, Any]) -> list[Any]:
    """Pass values of the SDK to plait, as interceptors and users of the converters do."""

    def said(text: str) -> Any:
        return sdk_types.TextContent(type="text", text=text)

    async def intercepted(request: Any, handler: Any) -> Any:
        return sdk_types.CallToolResult(content=[said("intercepted")])

    def hooked(end: Any, *_: Any) -> Any:
        return sdk_types.CallToolResult(content=[said("hooked")])

    texts: list[str] = []
    for options in ({"tool_interceptors": [intercepted]}, {"after_tool_call": hooked}):
        async with plait.MultiServerMCPClient({"old": entry}, **options) as client:
            tools = {tool.name: tool for tool in await client.get_tools()}
            texts.append(await tools["add"].ainvoke({"a": 1, "b": 2}))
    message = sdk_types.PromptMessage(role="assistant", content=said("prompted"))
    texts.append(plait.convert_mcp_prompt_message_to_langchain_message(message).content)
    text = sdk_types.TextResourceContents(uri="memo://one", text="read")
    data = sdk_types.BlobResourceContents(uri="memo://one", blob="Yml0cw==")
    for contents in (text, data):
        blob = plait.convert_mcp_resource_to_langchain_blob("memo://one", contents)
        texts.append(blob.as_string())
    listed = sdk_types.ListResourcesResult(
        resources=[sdk_types.Resource(uri="memo://one", name="one")]
    )
    session = AsyncMock(name="session")
    session.list_resources.return_value = listed
    session.read_resource.return_value = sdk_types.ReadResourceResult(contents=[data])
    session.get_prompt.return_value = AsyncMock(messages=[message])
    texts += [blob.as_string() for blob in await plait.load_mcp_resources(session)]
    texts += [one.content for one in await plait.load_mcp_prompt(session, "greet")]
    return texts


async def by_cancelled_calls(plait: Any) -> list[str]:
    seen: list[str] = []
    async with asyncio.timeout(10):
        async with plait.Toolbox({"old": server}) as box:
            first = asyncio.create_task(box.call("old", "hang"))
            await hanging.wait()
            first.cancel()
            await cancelled.wait()
            seen.append("by the caller")
            hanging.clear()
            cancelled.clear()
            second = asyncio.create_task(box.call("old", "hang"))
            await hanging.wait()
        await asyncio.gather(first, second, return_exceptions=True)
        await cancelled.wait()
        seen.append("by the end of the session")
    return seen


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(main())
    else:
        server.run()
