"""Compare `plait serve` with FastMCP's proxy and mcp-proxy: `python -m benchmarks.serve`.

All three stand between the same client, over HTTP, and the same trivially fast server, on stdio.
What a proxy adds is its time less that of the server alone. They take turns, and the ratios of one
run count: a busy machine is slow for all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import psutil

from plait.testing.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / ".bench"
HERE = Path(__file__).parent
SERVER = ROOT / "benchmarks" / "compare" / "server.py"
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
START_SECONDS = 30.0
AT_ONCE = 64
ROUNDS = 20
MAX_SECONDS = 10.0
"""FastMCP starts the server for each request."""

PROXIES = ("plait", "fastmcp", "mcp-proxy")


def install(name: str) -> Path:
    """Return the Python of an environment with a proxy, which is made if it is not there."""
    folder, pins = BENCH / f"serve-{name}", HERE / "pins" / f"{name}.txt"
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    if not (folder / ".installed").exists():
        make = [str(uv), "venv", "--quiet", "--allow-existing", "--python", sys.executable]
        subprocess.run([*make, str(folder)], check=True)
        line = [str(uv), "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)]
        subprocess.run(line, check=True)
        (folder / ".installed").touch()
    return python


def behind(*words: str) -> dict[str, Any]:
    """Return the entry of the server behind."""
    return {"command": sys.executable, "args": ["-ES", str(SERVER), "stdio", *words]}


def hanging() -> dict[str, Any]:
    """Return the entry of a server that never answers."""
    return {"command": "sleep", "args": ["600"]}


class Peer:
    """The client, over HTTP."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http, self._url = http, url
        self._ids = count(1)
        self._session: dict[str, str] = {}

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request."""
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        answer = await self._http.post(self._url, json=body, headers=HEADERS | self._session)
        answer.raise_for_status()
        if (key := answer.headers.get("mcp-session-id")) is not None:
            self._session = {"Mcp-Session-Id": key}
        text = answer.text
        if "event-stream" in answer.headers["content-type"]:
            lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
            text = next(line for line in lines if '"result"' in line or '"error"' in line)
        message = json.loads(text)
        if "error" in message:
            raise RuntimeError(message["error"])
        result: dict[str, Any] = message["result"]
        return result

    async def open(self) -> None:
        """Shake hands."""
        await self.ask("initialize", **HANDSHAKE)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._http.post(self._url, json=note, headers=HEADERS | self._session)


def command_of(proxy: str, config: Path, port: int) -> list[str]:
    """Return the command of a proxy in front of a configuration."""
    if proxy == "plait":
        serve = [sys.executable, "-m", "plait", "serve", "--config", str(config)]
        return [*serve, "--http", str(port)]
    if proxy == "fastmcp":
        return [str(install(proxy)), str(HERE / "fastmcp_proxy.py"), str(config), str(port)]
    (entry,) = json.loads(config.read_text())["mcpServers"].values()
    program = install(proxy).with_name("mcp-proxy")
    return [str(program), "--port", str(port), "--", entry["command"], *entry["args"]]


@asynccontextmanager
async def running(
    proxy: str, servers: dict[str, Any], folder: Path
) -> AsyncGenerator[tuple[Peer, psutil.Process]]:
    """Start a proxy, and yield a client that has not shaken hands."""
    config, port = folder / "mcp.json", free_port()
    config.write_text(json.dumps({"mcpServers": servers}))
    env = {**os.environ, "HOME": str(folder), "PLAIT_CACHE_DIR": str(folder / "cache")}
    process = await asyncio.create_subprocess_exec(
        *command_of(proxy, config, port), stdout=asyncio.subprocess.DEVNULL, stderr=2, env=env
    )
    try:
        async with httpx2.AsyncClient(timeout=START_SECONDS) as http:
            url = f"http://127.0.0.1:{port}/mcp"
            async with asyncio.timeout(START_SECONDS):
                while True:
                    with suppress(httpx2.TransportError):
                        await http.get(url, headers={"Accept": "text/plain"})
                        break
                    await asyncio.sleep(0.005)
            yield Peer(http, url), psutil.Process(process.pid)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(15):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def milliseconds(work: Callable[[], Awaitable[object]], times: int) -> list[float]:
    """Return the times of some work, done so often unless that takes too long."""
    taken: list[float] = []
    ends = time.monotonic() + MAX_SECONDS
    while len(taken) < times and (not taken or time.monotonic() < ends):
        began = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def measure(folders: dict[str, Path], calls: int) -> dict[str, dict[str, float]]:
    """Return the figures of every proxy in front of one server, each measured in turn.

    They take turns of a few calls, so that what else the machine does slows all of them down.
    """
    taken = {proxy: defaultdict[str, list[float]](list) for proxy in folders}
    found: dict[str, dict[str, float]] = {}
    async with AsyncExitStack() as stack:
        peers: dict[str, tuple[Peer, str]] = {}
        for proxy, folder in folders.items():
            print(f"measuring {proxy}", file=sys.stderr, flush=True)
            servers = {"bench": behind("--tools", "1000")}
            peer, own = await stack.enter_async_context(running(proxy, servers, folder / "one"))
            await peer.open()
            tools = (await peer.ask("tools/list"))["tools"]
            echo = next(tool["name"] for tool in tools if tool["name"].endswith("echo"))
            peers[proxy] = peer, echo
            found[proxy] = {"memory, MB": own.memory_info().rss / 1e6}
            await milliseconds(partial(call_echo, peer, echo), 20)
        for _ in range(ROUNDS):
            for proxy, (peer, echo) in peers.items():
                one = partial(call_echo, peer, echo)
                rows = taken[proxy]
                rows["warm call, ms"] += await milliseconds(one, calls // ROUNDS)
                rows[f"{AT_ONCE} calls at once, ms"] += await milliseconds(
                    lambda one=one: asyncio.gather(*(one() for _ in range(AT_ONCE))), 1
                )
                rows["1,000 tools listed, ms"] += await milliseconds(
                    partial(peer.ask, "tools/list"), 1
                )
    for proxy, folder in folders.items():
        medians = {name: statistics.median(times) for name, times in taken[proxy].items()}
        found[proxy] = medians | found[proxy]
        if proxy != "mcp-proxy":  # which has one server
            found[proxy]["eight servers, one hangs: first list, s"] = await first_list(
                proxy, folder / "eight"
            )
    return found


async def call_echo(peer: Peer, name: str) -> None:
    """Call the tool that returns its argument."""
    await peer.ask("tools/call", name=name, arguments={"text": "hi"})


async def first_list(proxy: str, folder: Path) -> float:
    """Return the seconds to the first list of eight servers of which one hangs."""
    servers = {f"s{number}": behind() for number in range(7)} | {"hangs": hanging()}
    began = time.perf_counter()
    async with running(proxy, servers, folder) as (peer, _):
        # The comments that keep a stream open also keep the client's own timeout from ending it.
        with suppress(TimeoutError, httpx2.HTTPStatusError):
            async with asyncio.timeout(START_SECONDS):
                await peer.open()
                await peer.ask("tools/list")
        return time.perf_counter() - began


async def alone(calls: int) -> float:
    """Return the milliseconds of a call of the server without a proxy, over its pipe."""
    pipe = asyncio.subprocess.PIPE
    entry = behind()
    process = await asyncio.create_subprocess_exec(
        entry["command"], *entry["args"], stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    writer, reader = process.stdin, process.stdout

    async def call() -> None:
        params = {"name": "echo", "arguments": {"text": "hi"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        writer.write(json.dumps(body).encode() + b"\n")
        await reader.readline()

    found = await milliseconds(call, calls)
    writer.close()
    await process.wait()
    return statistics.median(found)


def start_seconds(folder: Path) -> tuple[float, float]:
    """Return the seconds to a warm `initialize` and `tools/list` on stdio, and to an import."""
    config = folder / "one" / "mcp.json"
    env = {**os.environ, "HOME": str(folder), "PLAIT_CACHE_DIR": str(folder / "one" / "cache")}
    line = [sys.executable, "-m", "plait", "serve", "--config", str(config)]
    hello: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
    listing: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    served: list[float] = []
    imported: list[float] = []
    for _ in range(7):
        began = time.perf_counter()
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (hello, listing):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while b'"id":2' not in process.stdout.readline()[:40]:
            pass
        served.append(time.perf_counter() - began)
        process.stdin.close()
        process.wait()
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import anyio, msgspec"], check=True)
        imported.append(time.perf_counter() - began)
    return statistics.median(served[1:]), statistics.median(imported)


async def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--only", action="append", choices=PROXIES)
    options = parser.parse_args()
    names = tuple(options.only or PROXIES)
    with tempfile.TemporaryDirectory(prefix="plait-bench-serve-") as name:
        folders = {proxy: Path(name) / proxy for proxy in names}
        for folder in folders.values():
            for part in ("one", "eight"):
                (folder / part).mkdir(parents=True)  # nothing runs yet
        base = await alone(options.calls)
        figures = await measure(folders, options.calls)
        rows = list(figures[names[0]])
        print(f"| | {' | '.join(names)} |")
        print(f"| --- |{' --- |' * len(names)}")
        added = [f"{figures[one]['warm call, ms'] - base:.2f}" for one in names]
        print(f"| added to a warm call, ms | {' | '.join(added)} |")
        for row in rows:
            cells = [f"{figures[one][row]:.2f}" if row in figures[one] else "–" for one in names]
            print(f"| {row} | {' | '.join(cells)} |")
        if "plait" in names:
            served, imported = start_seconds(Path(name) / "plait")
            print(
                f"\nWarm start on stdio: {served:.2f} s to `tools/list`, {imported:.2f} s for "
                f"`import anyio, msgspec`: {served / imported:.1f} times as long."
            )


if __name__ == "__main__":
    asyncio.run(main())
