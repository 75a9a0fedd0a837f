"""Nobody is told anything but the servers of the configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from plait.testing import stdio_config
from tests.integration.canaries.mirror import Mirror

PROGRAM = """
import asyncio, json, socket, sys

contacted = []

def listen(event, args):
    if event == "socket.connect":
        contacted.append(list(args[1]) if isinstance(args[1], tuple) else str(args[1]))
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        contacted.append([event, *map(str, args[:2])])

sys.addaudithook(listen)

import plait
from langchain.agents import create_agent
from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call

async def main(servers):
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = await client.get_tools()
        turn = [tool_call("program_echo", text="hello"), tool_call("mirror_look")]
        agent = create_agent(ScriptedChatModel([turn, "done"]), tools)
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]})
        assert [one.status for one in state["messages"] if one.type == "tool"] == ["success"] * 2

asyncio.run(main(json.loads(sys.argv[1])))
print(json.dumps(contacted))
"""


@pytest.mark.timeout(120)
def test_a_run_of_an_agent_talks_to_its_servers_and_to_nobody_else(mirror: Mirror) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LANGSMITH_", "LANGCHAIN_", "OTEL_"))
    }
    servers = {"program": stdio_config(), "mirror": {"url": mirror.url}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(servers)],
        env=kept,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    host, port = mirror.origin.removeprefix("http://").split(":")
    contacted = json.loads(done.stdout)
    assert {tuple(one[-2:]) for one in contacted} <= {(host, int(port)), (host, port)}
    assert [host, int(port)] in contacted
