"""The server with Langbase behind it, from the tool to the pipe and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from sqlalchemy import select

from plait.reasoning.backends.settings import read_settings
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.serving.server import build_server
from plait.reasoning.serving.service import open_service
from plait.reasoning.storage import tables
from plait.reasoning.storage.engine import database_from_text
from plait.reasoning.values import Invocation
from plait.testing.llm.langbase import LangbaseServer

pytestmark = pytest.mark.anyio

KEY = "pipe-key-for-tests-123456"


async def test_a_step_goes_through_a_pipe_that_was_made_at_the_start(tmp_path: Path) -> None:
    with LangbaseServer(['{"thought": "from the pipe", "confidence": 0.9}'], key=KEY) as langbase:
        environ = {"LANGBASE_API_KEY": KEY, "LANGBASE_BASE_URL": langbase.url}
        database = database_from_text(str(tmp_path / "reasoning.db"))
        async with open_service(read_settings(environ), database=database) as service:
            async with Client(build_server(service)) as client:
                result = await client.call_tool("reasoning_linear", {"content": "begin"})
            every = select(tables.invocations)
            (record,) = await service.store.read_all(Invocation, every)
            told = f"{service.start_line()} {record}"

    assert result.structured_content["content"] == "from the pipe"
    assert result.structured_content["backend"] == "langbase"
    assert (record.pipe_name, record.success) == ("linear-reasoning-v1", True)
    assert "backend langbase" in told
    assert KEY not in told
    assert len(langbase.pipes) == 10
    assert langbase.pipes["tree-reasoning-v1"]["messages"][0]["content"] == PROMPTS["tree"]
    run = langbase.requests[-1].body
    assert run["name"] == "linear-reasoning-v1"
    assert run["messages"][-1] == {"role": "user", "content": "begin"}
