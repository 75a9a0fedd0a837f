"""Callers with tokens of their own never see each other's sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from plait.errors import ConfigError
from plait.reasoning import tokens_from_text
from tests.integration.reasoning.servers import http_server

pytestmark = pytest.mark.anyio

TOKENS = {"ann": "token-of-ann-1", "bob": "token-of-bob-2"}
VARIABLE = ",".join(f"{name}={token}" for name, token in TOKENS.items())


@asynccontextmanager
async def caller(url: str, name: str, era: Any = "auto") -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {TOKENS[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


async def structured(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name a database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "reasoning.db")
    return request.getfixturevalue("postgres_database")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_caller_finds_nothing_of_another(place: str, era: Any) -> None:
    with http_server(place, PLAIT_REASONING_TOKENS=VARIABLE) as server:
        async with caller(server.url, "ann", era) as ann, caller(server.url, "bob", era) as bob:
            thought = await structured(ann, "reasoning_linear", content="the canary sings")
            session = thought["session_id"]
            graph = await structured(ann, "reasoning_got_init", content="the canary sings")
            known = {session, graph["session_id"]}

            assert {one.name for one in (await ann.list_resources()).resources} == known
            assert (await bob.list_resources()).resources == []
            with pytest.raises(MCPError):
                await bob.read_resource(f"reasoning://sessions/{session}")
            seen = await structured(bob, "reasoning_session_list")
            assert "canary" not in str(seen)
            assert session not in str(seen)
            found = await structured(bob, "reasoning_session_search", query="canary")
            assert "canary sings" not in str(found)
            for tool, arguments in (
                ("reasoning_session_get", {"session_id": session}),
                ("reasoning_got_state", {"graph_id": graph["graph_id"]}),
                ("reasoning_session_export", {"session_id": session}),
                ("reasoning_session_fork", {"session_id": session}),
                ("reasoning_session_delete", {"session_id": session}),
            ):
                assert (await bob.call_tool(tool, arguments)).is_error, tool

            # The same id is another session for another caller.
            own = await structured(bob, "reasoning_linear", content="mine", session_id=session)
            assert own["previous_thought"] is None
            after = await ann.read_resource(f"reasoning://sessions/{session}")
            assert "mine" not in str(after.contents)


async def test_other_tokens_and_none_are_refused(tmp_path: Path) -> None:
    with http_server(tmp_path / "reasoning.db", PLAIT_REASONING_TOKENS=VARIABLE) as server:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx2.AsyncClient() as client:
            for header in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer"}):
                answer = await client.post(server.url, json=body, headers=header)
                assert answer.status_code == 401


@pytest.mark.parametrize(
    "text", ["ann", "ann=", "=token", "Ann=token", "../x=token", "ann=a,ann=b", "ann=a,bob=a"]
)
def test_tokens_that_name_no_callers_are_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="PLAIT_REASONING_TOKENS"):
        tokens_from_text(text)


def test_a_token_may_hold_anything_but_commas_and_spaces() -> None:
    assert tokens_from_text("ann=YWJj==, bob=x\nc-1=y=z") == {
        "ann": "YWJj==",
        "bob": "x",
        "c-1": "y=z",
    }
