"""A storm through `plait serve`: four clients, six servers behind, a fault a second.

`make soak-serve SECONDS=180 SEED=1` runs it. It fails when an answer belongs to another question,
when a call that must not be repeated ran twice, when an acknowledged call is missing from the
ledger, when fewer calls are answered than promised, when the process grows, or when its end leaves
a process behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from mcp import Client, MCPError, types

from plait.serve.journal import read_states, state_folder
from plait.testing import ServerProcess
from tests.soak.__main__ import (
    BOUND_SECONDS,
    CONNECT_SECONDS,
    TIMEOUT_SECONDS,
    conclude,
    main,
    weather,
)
from tests.soak.records import Book, Record, Verdict
from tests.soak.storm import PROGRAM, Storm

CLIENTS = ("one", "two", "three", "four")
SERVERS = ("http", "http_legacy", "sse", "websocket")
"""Those on a port; two more are on stdio, with a process for each client."""
PAUSE_SECONDS = 0.1
READY = r"serving (?P<url>http://\S+)"
ERRORS = {
    "not known": "OutcomeUnknownError",
    "401": "AuthRequiredError",
    "credentials": "AuthRequiredError",
    "429": "RateLimitedError",
    "500": "ServerError",
}
"""The errors whose texts have these words: clients get the text only."""

_questions = count()


async def _ask(client: Client, name: str, server: str, tool: str, book: Book) -> None:
    question, began = f"s{next(_questions)}", time.monotonic()
    text = error = None
    detail = ""
    try:
        result = await client.call_tool(f"{server}__{tool}", {"question": question})
        block = result.content[0]
        said = block.text if isinstance(block, types.TextContent) else str(block)
        if result.is_error:
            kinds = (kind for words, kind in ERRORS.items() if words in said)
            error, detail = next(kinds, "error"), said[:200]
        else:
            text = said
    except MCPError as failure:
        error, detail = f"MCPError {failure.code}", str(failure)[:200]
    seconds = time.monotonic() - began
    book.add(Record(name, server, tool, question, began, seconds, text, error, detail))


async def _client(url: str, name: str, book: Book, stop: asyncio.Event) -> None:
    servers = (*SERVERS, "stdio", "stdio_2")
    # Two clients of each era.
    mode: Any = "legacy" if name in CLIENTS[:2] else "2026-07-28"
    async with Client(url, mode=mode, read_timeout_seconds=BOUND_SECONDS + 10) as client:

        async def keep_asking(server: str, tool: str) -> None:
            while not stop.is_set():
                await _ask(client, name, server, tool, book)
                await asyncio.sleep(PAUSE_SECONDS)

        async with asyncio.TaskGroup() as group:
            for server in servers:
                for tool in ("read", "write"):
                    group.create_task(keep_asking(server, tool))


def _config(storm: Storm, folder: Path) -> Path:
    limits = {"timeout": TIMEOUT_SECONDS, "connect_timeout": CONNECT_SECONDS}
    known: Mapping[str, dict[str, Any]] = storm.config("serve", limits)
    servers = {name: known[name] for name in SERVERS}
    for name in ("stdio", "stdio_2"):
        files = ["--ledger", str(storm.ledger), "--control", str(folder / f"{name}-serve.fault")]
        arguments = [PROGRAM, "stdio", "--era", "legacy", *files]
        servers[name] = {"command": sys.executable, "args": arguments, **limits}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    return config


async def soak(options: argparse.Namespace, folder: Path) -> Verdict:
    """Run the storm, and judge it."""
    clients: Sequence[str] = options.mode or CLIENTS
    stop, book, chance = asyncio.Event(), Book(folder / "calls"), random.Random(options.seed)
    env = {**os.environ, "XDG_STATE_HOME": str(folder), "PLAIT_CACHE_DIR": str(folder / "cache")}
    states = state_folder(env)

    def a_process(server: str) -> int | None:
        clients = [client for state in read_states(states) for client in state["clients"]]
        every = [one for client in clients for one in client["servers"] if one["name"] == server]
        pids = [one["pid"] for one in every if one["pid"]]
        return chance.choice(pids) if pids else None

    with Storm(folder, chance) as storm:
        command = [sys.executable, "-m", "plait", "serve", "--config", str(_config(storm, folder))]
        serve = ServerProcess([*command, "--http", "127.0.0.1:0"], ready=READY, env=env)
        with serve:
            assert serve.pid is not None
            for name in ("stdio", "stdio_2"):
                storm.pids[f"{name}:serve"] = lambda name=name: a_process(name)
            callers = asyncio.gather(*(_client(serve.url, name, book, stop) for name in clients))
            seconds = options.seconds
            held = await weather(storm, seconds, book, callers, clients, stop, serve.pid)
            behind = psutil.Process(serve.pid).children(recursive=True)
            serve.kill()
            _, left = psutil.wait_procs(behind, timeout=20)
    return conclude(book, storm, held, left)


if __name__ == "__main__":
    main(soak, __doc__ or "", CLIENTS)
