"""The first connection of a process, which imports what connections need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.servers import Era, raw_stdio_config

pytestmark = pytest.mark.timeout(150)

_SERVER = """
import os, pathlib, runpy, sys
marker = pathlib.Path(sys.argv[1])
marker.with_suffix(".new").write_text(str(os.getpid()))
marker.with_suffix(".new").rename(marker)
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Writes its process id to a file, and is a server then."""

_HOOK = """
import asyncio, json, sys, threading, time
from importlib.machinery import PathFinder
from pathlib import Path

servers = json.loads(sys.argv[1])
markers = [Path(name) for name in sys.argv[2:]]
before_import = []
# Functions to call before the module that opens sessions is imported.


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


class Hook:
    def find_spec(self, name, path=None, target=None):
        if name != "plait.client.connections.opening":
            return None
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            for function in before_import:
                function()
            run(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Hook())
"""
"""Reads the arguments of a program, and notices when it imports what opens sessions."""


def _run(program: str, *servers: str, folder: Path, era: Era = "legacy") -> str:
    """Run a program with the configuration of servers, and the files that they write."""
    raw = raw_stdio_config("no-content", era=era)
    script = cast("list[str]", raw["args"])
    markers = {name: str(folder / name) for name in servers}
    config = {
        name: {"command": raw["command"], "args": ["-c", _SERVER, marker, *script]}
        for name, marker in markers.items()
    }
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-c", _HOOK + program),
            *(json.dumps(config), *markers.values()),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=140,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_processes_are_started_before_what_opens_sessions_is_imported(tmp_path: Path) -> None:
    program = """
from plait import MultiServerMCPClient

before_import.append(lambda: wait_for(lambda: all(marker.exists() for marker in markers)))


async def main():
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        assert "plait.client.connections.opening" not in sys.modules
        print(sorted(tool.name for tool in await client.get_tools()))


asyncio.run(main())
"""
    listed = _run(program, "one", "two", "three", folder=tmp_path)

    assert "one_good" in listed
    assert "three_good" in listed


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_program_that_lists_and_calls_tools_does_without_the_sdk(
    tmp_path: Path, era: Era
) -> None:
    program = """
from plait import MultiServerMCPClient, Toolbox

async def main():
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        print(await tools["one_good"].ainvoke({}))
        print(await tools["two_good"].ainvoke({}))
        assert client.status()["one"].server_info
    with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = {tool.name: tool for tool in client.get_tools_blocking()}
        print(tools["one_good"].invoke({}))
    async with Toolbox(servers) as box:
        print((await box.call("one", "good")).text)
    assert "mcp" not in sys.modules


asyncio.run(main())
"""
    printed = _run(program, "one", "two", folder=tmp_path, era=era)

    assert printed.split() == ["good"] * 4


_PLAIN_SERVER = """
import json, sys

answers = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "plain", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {
                "name": "repeat",
                "inputSchema": {
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                },
            }
        ]
    },
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        text = message["params"]["arguments"]["text"]
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    elif message["method"] in answers:
        answer["result"] = answers[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(
    ("program", "late"),
    [
        (
            """
    from plait import MultiServerMCPClient

    async with MultiServerMCPClient(servers) as client:
        [tool] = await client.get_tools()
        call = {"name": "repeat", "args": {"text": "good"}, "id": "1", "type": "tool_call"}
        print((await tool.ainvoke(call)).text)
        assert client.status()["plain"].server_info == {"name": "plain", "version": "1"}
""",
            {"mcp", "mcp_types", "jsonschema", "langchain_core.language_models.chat_models"},
        ),
        (
            """
    from plait import Toolbox

    async with Toolbox(servers) as box:
        assert [tool.name for tool in await box.tools()] == ["repeat"]
        print((await box.call("plain", "repeat", {"text": "good"})).text)
""",
            {"mcp", "mcp_types", "jsonschema", "opentelemetry", "langchain_core"},
        ),
    ],
    ids=["MultiServerMCPClient", "Toolbox"],
)
def test_a_first_plain_call_imports_only_what_it_needs(program: str, late: set[str]) -> None:
    servers = {"plain": {"command": sys.executable, "args": ["-c", _PLAIN_SERVER]}}
    program = f"""
import asyncio, json, sys

servers = json.loads(sys.argv[1])


async def main():{program}

asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, json.dumps(servers)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    printed, modules = done.stdout.splitlines()
    assert printed == "good"
    assert late & set(json.loads(modules)) == set()


def test_a_tape_is_recorded_and_played_without_the_sdk(tmp_path: Path) -> None:
    program = """
from plait import Toolbox


async def main():
    tape = markers[0].with_suffix(".jsonl")
    for options in ({"record": tape}, {"replay": tape}):
        async with Toolbox(servers, **options) as box:
            print((await box.call("one", "good")).text)
    assert "mcp" not in sys.modules


asyncio.run(main())
"""
    printed = _run(program, "one", folder=tmp_path, era="modern")

    assert printed.split() == ["good"] * 2


def test_importing_does_not_count_as_connecting(tmp_path: Path) -> None:
    program = """
from plait import Toolbox

for server in servers.values():
    server["connect_timeout"] = 20
box = Toolbox(servers)
states = []
before_import.append(lambda: wait_for(markers[0].exists))
before_import.append(lambda: states.append(box.status()["one"].state))
print(box.call_blocking("one", "good").text, *states)
box.close()
"""
    assert _run(program, "one", folder=tmp_path) == "good connecting"


def test_a_client_closed_while_modules_are_imported_leaves_no_process(tmp_path: Path) -> None:
    program = """
import psutil
from plait import ClientClosedError, ConnectError, Toolbox

closed = threading.Event()
before_import.append(lambda: closed.wait(60))


async def main():
    box = await Toolbox(servers).__aenter__()
    listing = asyncio.ensure_future(box.tools())
    await asyncio.to_thread(wait_for, lambda: markers[0].exists() and box.status()["one"].state)
    pid = int(markers[0].read_text())
    assert psutil.pid_exists(pid)
    await box.aclose()
    assert not psutil.pid_exists(pid)
    closed.set()
    try:
        await listing
    except (ClientClosedError, ConnectError) as error:
        print(type(error).__name__)


asyncio.run(main())
"""
    assert _run(program, "one", folder=tmp_path) == "ClientClosedError"


def test_threads_and_loops_may_connect_first_at_the_same_time(tmp_path: Path) -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
from plait import MultiServerMCPClient, Toolbox

start = threading.Barrier(6)
shared = MultiServerMCPClient({"one": servers["one"]})


def with_shared_client(_):
    start.wait()
    return [tool.name for tool in shared.get_tools_blocking()]


def with_own_loop(_):
    async def main():
        async with MultiServerMCPClient({"two": servers["two"]}) as client:
            tools = await client.get_tools()
            good = next(tool for tool in tools if tool.name == "good")
            assert "good" in str(await good.ainvoke({}))
            return [tool.name for tool in tools]

    start.wait()
    return asyncio.run(main())


def with_toolbox(_):
    start.wait()
    with Toolbox({"three": servers["three"]}) as box:
        assert box.call_blocking("three", "good").text == "good"
        return [tool.name for tool in box.tools_blocking()]


with ThreadPoolExecutor(6) as threads:
    works = [with_shared_client, with_own_loop, with_toolbox] * 2
    listed = list(threads.map(lambda work: work(None), works))
shared.close()
assert all("good" in names for names in listed), listed
print(len(listed))
"""
    assert _run(program, "one", "two", "three", folder=tmp_path) == "6"


def test_a_stdio_server_needs_no_library_of_other_transports(tmp_path: Path) -> None:
    program = """
from plait import MultiServerMCPClient

with MultiServerMCPClient(servers) as client:
    tools = {tool.name: tool for tool in client.get_tools_blocking()}
    assert "good" in str(tools["good"].invoke({}))
unused = ("websockets", "jwt", "keyring", "yaml", "langchain", "langgraph.prebuilt", "rich")
print([name for name in unused if name in sys.modules])
"""
    assert _run(program, "one", folder=tmp_path) == "[]"
