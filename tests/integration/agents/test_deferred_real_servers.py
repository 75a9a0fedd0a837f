"""Deferring the tools of servers that were not written here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from plait import MCPToolsMiddleware, MultiServerMCPClient, Toolbox
from plait.client.catalog.deferral import ToolIndex, tokens_of
from plait.langchain.tools.tool import MCPTool
from tests.integration.agents.helpers import agent_of, answers_of, one_by_one, question, tool_call
from tests.servers import everything_stdio_config, node_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BIN = Path(sys.executable).parent
QUERIES: dict[str, str] = json.loads(
    (Path(__file__).parents[2] / "data" / "tool_queries.json").read_text("utf-8")
)


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Five servers, and a cache that is empty."""
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path.resolve()
    subprocess.run(["git", "init", "-q", folder / "repo"], check=True)
    return {
        "everything": everything_stdio_config(),
        "filesystem": node_stdio_config("filesystem", str(folder)),
        "memory": node_stdio_config("memory", env={"MEMORY_FILE_PATH": str(folder / "m.jsonl")}),
        "time": {"command": str(BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "git": {"command": str(BIN / "mcp-server-git"), "args": ["-r", str(folder / "repo")]},
    }


async def test_real_tools_are_found_cost_little_and_start_only_their_own_server(
    servers: dict[str, Any],
) -> None:
    async with Toolbox(servers, defer=True) as box:
        index = ToolIndex(await box.tools())
    missed = [
        query
        for query, wanted in QUERIES.items()
        if wanted not in [match.tool.full_name for match in index.search(query)]
    ]
    assert len(missed) <= 0.05 * len(QUERIES), missed

    async with MultiServerMCPClient(servers, defer=True) as client:
        every = [one for one in await client.get_tools(defer=False) if isinstance(one, MCPTool)]
        (search,) = await client.get_tools(messages=[HumanMessage("go")])
        assert isinstance(search, MCPTool)
        assert tokens_of(search.tool) < 0.02 * sum(tokens_of(one.tool) for one in every)

        call = tool_call("git_status", repo_path=servers["git"]["args"][1])
        script = one_by_one(tool_call("search_tools", query="state of the working tree"), call)
        agent, model = agent_of(script, MCPToolsMiddleware(client))
        _, answer = answers_of(await agent.ainvoke(question()))
        assert "No commits yet" in answer.text
        assert "git_status" in model.bound[1]
        status = client.status()
        assert [name for name in servers if status[name].pid is not None] == ["git"]
