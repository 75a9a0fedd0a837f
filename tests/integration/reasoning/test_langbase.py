"""The server with Langbase behind it, from the tool to the pipe and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from sqlalchemy import select
from starlette.responses import Response

from plait.errors import BackendError
from plait.reasoning.backends.settings import read_settings
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.serving.mcp_server import build_server
from plait.reasoning.serving.service import open_service
from plait.reasoning.storage import tables
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.values import Invocation
from plait.testing.llm.langbase import LangbaseServer
from plait.testing.llm.model_server import ApiRequest
from plait.testing.llm.turns import Refuse, Turn

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
    assert len(langbase.pipes) == len(PROMPTS)
    assert langbase.pipes["tree-reasoning-v1"]["messages"][0]["content"] == PROMPTS["tree"]
    run = langbase.requests[-1].body
    assert run["name"] == "linear-reasoning-v1"
    assert run["messages"][-1] == {"role": "user", "content": "begin"}


class DownServer(LangbaseServer):
    """Langbase while it is down."""

    is_down = True

    def answer(self, request: ApiRequest) -> Response | Turn:
        return Refuse(status=503) if self.is_down else super().answer(request)


async def test_the_server_starts_while_langbase_is_not_there_and_makes_the_pipes_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DownServer(['{"thought": "at last"}'], key=KEY) as langbase:
        environ = {"LANGBASE_API_KEY": KEY, "LANGBASE_BASE_URL": langbase.url, "MAX_RETRIES": "0"}
        database = database_from_text(str(tmp_path / "reasoning.db"))
        async with (
            open_service(read_settings(environ), database=database) as service,
            Client(build_server(service)) as client,
        ):
            listed = await client.call_tool("reasoning_session_list", {})
            refused = await client.call_tool("reasoning_linear", {"content": "begin"})
            langbase.is_down = False
            result = await client.call_tool("reasoning_linear", {"content": "begin"})

    assert not listed.is_error
    assert refused.is_error
    assert result.structured_content["content"] == "at last"
    assert len(langbase.pipes) == len(PROMPTS)
    assert "langbase is tried again when it is needed" in caplog.text


async def test_a_key_that_langbase_refuses_ends_the_start(tmp_path: Path) -> None:
    with LangbaseServer(key="another") as langbase:
        environ = {"LANGBASE_API_KEY": KEY, "LANGBASE_BASE_URL": langbase.url}
        database = database_from_text(str(tmp_path / "reasoning.db"))
        with pytest.raises(BackendError) as refused:
            async with open_service(read_settings(environ), database=database):
                pass

    assert refused.value.status == 401
