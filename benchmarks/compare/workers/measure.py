"""What a worker measures; times are in seconds, CPU is that of its own process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.workers.peer import (
    Connection,
    Peer,
    Server,
    Unsupported,
    find_tool,
    text_of,
    tool_call,
)

Sample = dict[str, Any]
"""`samples`: seconds or bytes of each operation; `cpu`: CPU seconds of an operation."""

WARM_UP_CALLS = 30
WARM_UP_SECONDS = 1.0
KILL_SECONDS = 0.05
"""How long a killed process may take to be gone."""
HEAL_SECONDS = 10.0
"""How long a call right after a crash may take before the connection counts as lost."""


def one(work: Callable[[], object]) -> Sample:
    """Measure a function once."""
    cpu, began = time.process_time(), time.perf_counter()
    work()
    took = time.perf_counter() - began
    return {"samples": [took], "cpu": time.process_time() - cpu}


async def warm(kind: str, connection: Connection, request: dict[str, Any]) -> Sample:
    """Measure calls on an open connection."""
    name, arguments = request["tool"], request["arguments"]
    count, seconds = request["n"], request["seconds"]
    if kind == "call":

        async def call() -> str:
            return await connection.call(name, arguments)

        check(await call(), arguments)
        return await repeat(call, count, seconds)
    if kind == "throughput":
        check(await connection.call(name, arguments), arguments)
        return await throughput(
            lambda: connection.call(name, arguments), count, seconds, request["at_once"]
        )
    if kind == "blocking":
        blocking = getattr(connection, "call_blocking", None) or blocking_call(connection)
        check(await asyncio.to_thread(blocking, name, arguments), arguments)
        return await asyncio.to_thread(repeat_blocking, blocking, name, arguments, count, seconds)
    tool = find_tool(connection.tools(), name)
    work = graph_call(tool, arguments) if kind == "graph" else listened_call(tool, arguments)
    check(await work(), arguments)
    return await repeat(work, count, seconds)


def check(text: str, arguments: dict[str, Any]) -> None:
    """Refuse a fast but wrong answer.

    Raises:
        ValueError: The result is not the one that the server sends.
    """
    if "size" in arguments:
        if len(text) != arguments["size"]:
            raise ValueError(f"got {len(text)} characters instead of {arguments['size']}")
    elif text != arguments["text"]:
        raise ValueError(f"got {text[:80]!r} instead of {arguments['text']!r}")


async def repeat(work: Callable[[], Awaitable[object]], count: int, seconds: float) -> Sample:
    """Run one after the other, at least once, for at most `seconds`."""
    limit = time.perf_counter() + min(WARM_UP_SECONDS, seconds / 4)
    for _ in range(min(WARM_UP_CALLS, count - 1)):
        await work()
        if time.perf_counter() > limit:
            break
    samples: list[float] = []
    end = time.perf_counter() + seconds
    cpu = time.process_time()
    while len(samples) < count and (not samples or time.perf_counter() < end):
        began = time.perf_counter()
        await work()
        samples.append(time.perf_counter() - began)
    return {"samples": samples, "cpu": (time.process_time() - cpu) / len(samples)}


def repeat_blocking(
    call: Callable[[str, dict[str, Any]], str],
    name: str,
    arguments: dict[str, Any],
    count: int,
    seconds: float,
) -> Sample:
    """Run a blocking call again and again."""
    for _ in range(min(WARM_UP_CALLS, count)):
        call(name, arguments)
    samples: list[float] = []
    end = time.perf_counter() + seconds
    cpu = time.process_time()
    while len(samples) < count and (not samples or time.perf_counter() < end):
        began = time.perf_counter()
        call(name, arguments)
        samples.append(time.perf_counter() - began)
    return {"samples": samples, "cpu": (time.process_time() - cpu) / len(samples)}


async def throughput(
    work: Callable[[], Awaitable[object]], count: int, seconds: float, at_once: int
) -> Sample:
    """Keep `at_once` calls in flight for at most `seconds`; the sample is the time per call."""
    await asyncio.gather(*(work() for _ in range(at_once)))
    end = time.perf_counter() + seconds
    started = 0

    async def caller() -> None:
        nonlocal started
        while started < count and time.perf_counter() < end:
            started += 1
            await work()

    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    took = time.perf_counter() - began
    return {"samples": [took / started], "cpu": (time.process_time() - cpu) / started}


def blocking_call(connection: Connection) -> Callable[[str, dict[str, Any]], str]:
    """Call a LangChain tool with `invoke`, from a thread without event loop."""
    tools = connection.tools()

    def call(name: str, arguments: dict[str, Any]) -> str:
        tool = find_tool(tools, name)
        try:
            message = tool.invoke(tool_call(tool, arguments))
        except NotImplementedError:
            raise Unsupported("its tools have no blocking form") from None
        return text_of(message.content)

    return call


def listened_call(tool: Any, arguments: dict[str, Any]) -> Callable[[], Awaitable[str]]:
    """Call a tool while one callback handler listens."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Listener(BaseCallbackHandler):
        def __init__(self) -> None:
            self.ended = 0

        def on_tool_start(self, *_: Any, **__: Any) -> None:
            pass

        def on_tool_end(self, *_: Any, **__: Any) -> None:
            self.ended += 1

    listener = Listener()
    request = tool_call(tool, arguments)

    async def call() -> str:
        before = listener.ended
        message = await tool.ainvoke(request, config={"callbacks": [listener]})
        if listener.ended == before:
            raise ValueError("the listener was not called")
        return text_of(message.content)

    return call


def graph_call(tool: Any, arguments: dict[str, Any]) -> Callable[[], Awaitable[str]]:
    """Call a tool in a graph of one ToolNode with a checkpointer, each time in a new thread."""
    from itertools import count

    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    builder: Any = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([tool]))
    builder.add_edge(START, "tools")
    graph = builder.compile(checkpointer=InMemorySaver())
    request = AIMessage(content="", tool_calls=[tool_call(tool, arguments)])
    threads = count()

    async def call() -> str:
        config = {"configurable": {"thread_id": str(next(threads))}}
        state = await graph.ainvoke({"messages": [request]}, config)
        return text_of(state["messages"][-1].content)

    return call


async def catalogue(peer: Peer, servers: Sequence[Server], count: int) -> dict[str, Sample]:
    """Connect to a server with many tools, make LangChain tools of them, and bind these.

    The first of the two servers has hardly any tools; it is used first, so that the measurement
    is free of imports.
    """
    small, large = servers
    async with peer.connect([small]) as connection:
        await connection.call("echo", {"text": "hello"})
        bind_if_possible(connection)
    gc.collect()
    before = resident_bytes()
    cpu, began = time.process_time(), time.perf_counter()
    async with peer.connect([large]) as connection:
        listed = len(connection.tools()) if makes_tools(connection) else count
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        if listed < count:
            raise ValueError(f"got {listed} tools instead of {count}")
        rows: dict[str, Sample] = {f"tools-{count}": {"samples": [took], "cpu": cpu}}
        bound = bind_if_possible(connection)
        if bound is not None:
            rows[f"bind-{count}"] = bound
        gc.collect()
        grown = max(0, resident_bytes() - before)
        rows[f"memory-{count}"] = {"samples": [grown], "cpu": None}
        return rows


def makes_tools(connection: Connection) -> bool:
    """Whether the contender makes LangChain tools."""
    try:
        connection.tools()
    except Unsupported:
        return False
    return True


def bind_if_possible(connection: Connection) -> Sample | None:
    """Convert the tools as `bind_tools` of a chat model does."""
    if not makes_tools(connection):
        return None
    from langchain_core.utils.function_calling import convert_to_openai_tool

    tools = connection.tools()
    return one(lambda: [convert_to_openai_tool(tool) for tool in tools])


def resident_bytes() -> int:
    """Return the memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


async def heal(connection: Connection) -> Sample:
    """Kill the server and measure the next call; no sample when it fails."""
    await connection.call("echo", {"text": "hello"})
    os.kill(int(await connection.call("pid", {})), signal.SIGKILL)
    # Blocks the loop on purpose: nothing may heal before the call, only notice that it has to.
    time.sleep(KILL_SECONDS)  # noqa: ASYNC251
    cpu, began = time.process_time(), time.perf_counter()
    try:
        async with asyncio.timeout(HEAL_SECONDS):
            check(await connection.call("echo", {"text": "again"}), {"text": "again"})
    except TimeoutError:
        return {"samples": [], "cpu": None, "lost": f"no answer in {HEAL_SECONDS:g} s"}
    except Exception as error:  # noqa: BLE001 - boundary: a library may raise anything
        return {"samples": [], "cpu": None, "lost": f"{type(error).__name__}: {error}"[:200]}
    return {"samples": [time.perf_counter() - began], "cpu": time.process_time() - cpu}
