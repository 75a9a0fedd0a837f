"""The modes in which a program uses the client, each with callers on every server."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from mcp.server import MCPServer

from plait import MultiServerMCPClient, PlaitError, Toolbox
from plait.testing import ScriptedChatModel, tool_call
from tests.soak.records import Book, Record

MODES = ("caller's loop", "own loop", "threads", "agent")
_PAUSE_SECONDS = 0.1
_MOST_DETAIL = 200
_questions = itertools.count()

Servers = Mapping[str, Any]
Call = Callable[[str, str, str], Awaitable[str]]
"""Calls a tool (server, tool, question), and returns the text of its answer."""


@dataclass(frozen=True)
class Shift:
    """What the callers of a mode have in common."""

    mode: str
    servers: Servers
    book: Book
    stop: threading.Event
    pids: dict[str, Callable[[], int | None]]


def in_process_server(ledger: Path) -> MCPServer:
    """Make the server that runs in this process."""
    server = MCPServer("soak", log_level="ERROR")
    written = ledger.open("a", buffering=1)

    @server.tool()
    def write(question: str) -> str:
        written.write(f"{question}\n")
        return f"write:{question}"

    @server.tool(annotations=_read_only())
    def read(question: str) -> str:
        return f"read:{question}"

    return server


def _read_only() -> Any:
    from mcp_types import ToolAnnotations

    return ToolAnnotations(read_only_hint=True)


async def _ask(shift: Shift, call: Call, server: str, tool: str) -> None:
    """Make one call, and write down what it came to."""
    question = f"q{next(_questions)}"
    began = time.monotonic()
    text = error = None
    detail = ""
    try:
        text = await call(server, tool, question)
    except PlaitError as failure:
        error, detail = type(failure).__name__, str(failure)[:_MOST_DETAIL]
    except Exception as failure:  # noqa: BLE001  # boundary: no other error is promised
        error, detail = f"unexpected {type(failure).__name__}", str(failure)[:_MOST_DETAIL]
    seconds = time.monotonic() - began
    shift.book.add(Record(shift.mode, server, tool, question, began, seconds, text, error, detail))


async def _call_on(shift: Shift, call: Call) -> None:
    """Have a reader and a writer call every server until the shift ends."""

    async def keep_asking(server: str, tool: str) -> None:
        while not shift.stop.is_set():
            await _ask(shift, call, server, tool)
            await asyncio.sleep(_PAUSE_SECONDS)

    await asyncio.gather(
        *(keep_asking(server, tool) for server in shift.servers for tool in ("read", "write"))
    )


async def run_mode(shift: Shift) -> None:
    """Make calls in one mode until the shift ends."""
    match shift.mode:
        case "caller's loop":
            await _in_callers_loop(shift)
        case "own loop":
            await _in_own_loop(shift)
        case "threads":
            await _in_threads(shift)
        case _:
            await _by_agent(shift)


async def _in_callers_loop(shift: Shift) -> None:
    async with Toolbox(shift.servers) as box:
        shift.pids[f"stdio:{shift.mode}"] = lambda: box.status()["stdio"].pid

        async def call(server: str, tool: str, question: str) -> str:
            return (await box.call(server, tool, {"question": question})).text

        await _call_on(shift, call)


@asynccontextmanager
async def _tools(shift: Shift) -> AsyncGenerator[dict[str, BaseTool]]:
    """Yield the tools of a client that has an event loop of its own."""
    client = MultiServerMCPClient(shift.servers, tool_name_prefix=True, handle_tool_errors=False)
    shift.pids[f"stdio:{shift.mode}"] = lambda: client.status()["stdio"].pid
    try:
        yield {tool.name: tool for tool in await client.get_tools()}
    finally:
        await client.aclose()


async def _in_own_loop(shift: Shift) -> None:
    async with _tools(shift) as tools:

        async def call(server: str, tool: str, question: str) -> str:
            return str(await tools[f"{server}_{tool}"].ainvoke({"question": question}))

        await _call_on(shift, call)


async def _in_threads(shift: Shift) -> None:
    async with _tools(shift) as tools:

        async def call(server: str, tool: str, question: str) -> str:
            named = tools[f"{server}_{tool}"]
            return str(await asyncio.to_thread(named.invoke, {"question": question}))

        await _call_on(shift, call)


async def _by_agent(shift: Shift) -> None:
    async with _tools(shift) as tools:

        async def call(server: str, tool: str, question: str) -> str:
            turn = [tool_call(f"{server}_{tool}", question=question)]
            agent = create_agent(ScriptedChatModel([turn, "done"]), [tools[f"{server}_{tool}"]])
            state = await agent.ainvoke({"messages": [HumanMessage("go")]})
            answers = [one for one in state["messages"] if isinstance(one, ToolMessage)]
            assert isinstance(state["messages"][-1], AIMessage)
            return str(answers[0].text)

        await _call_on(shift, call)
