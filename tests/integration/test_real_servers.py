"""Servers that were not written here, used as their users use them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plait import Toolbox
from plait.testing import eventually
from tests.servers import everything_stdio_config, node_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BIN = Path(sys.executable).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file and a git repository, by its real path: the servers compare it."""
    folder = tmp_path.resolve()
    (folder / "hello.txt").write_text("hello from a file")
    subprocess.run(["git", "init", "-q", folder / "repo"], check=True)
    return folder


async def test_one_toolbox_over_five_foreign_servers_keeps_working_when_each_is_killed(
    folder: Path,
) -> None:
    servers: dict[str, Any] = {
        "everything": everything_stdio_config(),
        "files": node_stdio_config("filesystem", str(folder)),
        "memory": node_stdio_config("memory", env={"MEMORY_FILE_PATH": str(folder / "m.jsonl")}),
        "time": {"command": str(BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "git": {"command": str(BIN / "mcp-server-git"), "args": ["-r", str(folder / "repo")]},
    }
    entity = {"name": "plait", "entityType": "library", "observations": ["heals"]}
    calls: dict[str, tuple[str, dict[str, Any], str]] = {
        "everything": ("echo", {"message": "hi"}, "Echo: hi"),
        "files": ("read_text_file", {"path": str(folder / "hello.txt")}, "hello from a file"),
        "memory": ("create_entities", {"entities": [entity]}, "plait"),
        "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
        "git": ("git_status", {"repo_path": str(folder / "repo")}, "No commits yet"),
    }
    async with Toolbox(servers) as box:
        tools = await box.tools()
        assert {tool.server for tool in tools} == set(servers)
        assert len({tool.name for tool in tools}) == len(tools)
        for name, (tool, arguments, expected) in calls.items():
            assert expected in (await box.call(name, tool, arguments)).text

        for name in servers:
            pid = box.status()[name].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        for name, (tool, arguments, expected) in calls.items():
            if name != "memory":
                assert expected in (await box.call(name, tool, arguments)).text
        assert "heals" in (await box.call("memory", "read_graph")).text
        assert all(server.sessions == 2 for server in box.status().servers.values())
        # Servers without resources or prompts are no error, they just have none.
        assert {one.server for one in await box.list_resources()} >= {"everything"}
        assert {one.server for one in await box.list_prompts()} == {"everything"}


async def test_a_wrapper_that_is_killed_does_not_take_its_calls_along() -> None:
    config = everything_stdio_config()
    command = " ".join([str(config["command"]), *map(str, config["args"])])  # pyright: ignore[reportArgumentType]
    async with Toolbox({"wrapped": {"command": "bash", "args": ["-c", f"{command}; true"]}}) as box:
        assert (await box.call("wrapped", "echo", {"message": "1"})).text == "Echo: 1"
        long = {"duration": 2, "steps": 2}
        calling = asyncio.create_task(box.call("wrapped", "trigger-long-running-operation", long))
        await eventually(lambda: box.status()["wrapped"].in_flight == 1)
        pid = box.status()["wrapped"].pid
        assert pid is not None

        os.kill(pid, signal.SIGKILL)  # the server itself, its child, lives on

        assert (await box.call("wrapped", "echo", {"message": "2"})).text == "Echo: 2"
        assert "completed" in (await calling).text
        assert box.status()["wrapped"].sessions == 2
