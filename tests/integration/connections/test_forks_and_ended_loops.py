"""Clients in forked processes, and clients whose event loop has ended."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import partial

import psutil
import pytest

from plait import ClientClosedError, MultiServerMCPClient, Toolbox, load_mcp_tools
from tests.nursery import stdio_config

FORKING = """
import asyncio, json, multiprocessing, os, sys, threading, time
from plait import MultiServerMCPClient
from plait._support import threads


def is_importing():
    if not threads._import_lock.acquire(blocking=False):
        return True
    threads._import_lock.release()
    return False


client = MultiServerMCPClient({"server": {**json.loads(sys.argv[1]), "timeout": 20}})
first = threading.Thread(target=client.get_tools_blocking)
first.start()
while not is_importing():
    assert first.is_alive()
    time.sleep(0.001)
early = os.fork()
if early == 0:
    echo = {tool.name: tool for tool in client.get_tools_blocking()}["echo"]
    os._exit(7 if echo.invoke({"text": "early"}) == "early" else 1)
assert os.waitstatus_to_exitcode(os.waitpid(early, 0)[1]) == 7
first.join()
echo = {tool.name: tool for tool in client.get_tools_blocking()}["echo"]
assert echo.invoke({"text": "parent"}) == "parent"


def child():
    assert echo.invoke({"text": "child"}) == "child"
    assert asyncio.run(echo.ainvoke({"text": "awaited"})) == "awaited"
    assert client.status()["server"].pid != server


server = client.status()["server"].pid
forked = os.fork()
if forked == 0:
    child()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 7
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(30)
assert process.exitcode == 0, process.exitcode
assert echo.invoke({"text": "parent again"}) == "parent again"
assert client.status()["server"].pid == server
assert client.status()["server"].sessions == 1
client.close()
"""


@pytest.mark.timeout(90)
def test_a_client_that_was_used_works_in_forked_processes() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING, json.dumps(stdio_config())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=80, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.timeout(60)
def test_a_client_may_be_closed_after_its_loop_has_ended() -> None:
    box = Toolbox({"server": stdio_config()})

    async def use() -> int | None:
        await box.__aenter__()
        await box.call("server", "counter")
        return box.status()["server"].pid

    pid = asyncio.run(use())
    box.close()
    asyncio.run(box.aclose())

    assert pid is None or not psutil.pid_exists(pid)
    with pytest.raises(ClientClosedError):
        box.call_blocking("server", "counter")


@pytest.mark.timeout(60)
def test_a_client_may_be_closed_while_its_loop_is_only_stopped() -> None:
    box = Toolbox({"server": stdio_config()})
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(box.__aenter__())
        loop.run_until_complete(box.call("server", "counter"))
        pid = box.status()["server"].pid
        assert pid is not None
        box.close()
        assert not psutil.pid_exists(pid)
    finally:
        loop.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("blocks", [False, True])
def test_a_tool_says_what_to_do_while_the_loop_of_its_client_is_stopped(blocks: bool) -> None:
    """As when a fixture of all tests enters the client, and each test has a loop of its own."""
    client = MultiServerMCPClient({"server": stdio_config()})
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(client.__aenter__())
        tools = {tool.name: tool for tool in loop.run_until_complete(client.get_tools())}
        counter = tools["counter"]
        with pytest.raises(ClientClosedError, match="do not enter it"):
            counter.invoke({}) if blocks else asyncio.run(counter.ainvoke({}))
        assert loop.run_until_complete(counter.ainvoke({})) == "1"
    finally:
        client.close()
        loop.close()


@pytest.mark.anyio
@pytest.mark.timeout(60)
async def test_a_session_says_that_it_belongs_to_another_loop() -> None:
    """It waited for an answer that the other loop would read."""
    client = MultiServerMCPClient({"server": stdio_config()})
    async with client.session("server") as session:
        tools = await load_mcp_tools(session, handle_tool_errors=False)
        counter = next(tool for tool in tools if tool.name == "counter")
        for use in (session.list_tools, partial(counter.ainvoke, {})):
            with pytest.raises(ClientClosedError, match="another event loop"):
                await asyncio.to_thread(lambda use=use: asyncio.run(use()))
        assert await counter.ainvoke({}) == "1"
    await client.aclose()
