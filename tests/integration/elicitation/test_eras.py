"""Which era is used with servers that speak both, and what becomes of a question in each."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp_types import ElicitResult

from plait import CallbackContext, Callbacks, MultiServerMCPClient, ProtocolError
from plait.testing import ScriptedChatModel, ServerProcess, eventually, tool_call
from tests.integration.elicitation.test_interrupts import SAID, THREAD, tool_texts
from tests.nursery import entry, python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

PROGRAM = str(Path(__file__).parents[2] / "servers" / "both_eras.py")
MODERN = "2026-07-28"


async def seat(mcp_context: Any, params: Any, context: CallbackContext) -> ElicitResult:
    del mcp_context, params, context
    return ElicitResult(action="accept", content={"seat": "4a"})


@asynccontextmanager
async def opened(
    over: str, kind: str = "both", protocol: str = "auto", **options: Any
) -> AsyncGenerator[MultiServerMCPClient]:
    if over == "stdio":
        server = entry(PROGRAM, kind, "stdio", protocol=protocol)
        async with MultiServerMCPClient({"desk": server}, **options) as client:
            yield client
        return
    with ServerProcess([*python(), PROGRAM, kind, "http"]) as running:
        server = {"url": running.url, "protocol": protocol}
        async with MultiServerMCPClient({"desk": server}, **options) as client:
            yield client


async def said(client: MultiServerMCPClient, *names: str) -> list[Any]:
    tools = {tool.name: tool for tool in await client.get_tools()}
    return [await tools[name].ainvoke({}) for name in names]


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_callback_answers_what_a_server_of_both_eras_asks_during_a_call(over: str) -> None:
    logs: list[Any] = []
    steps: list[Any] = []

    async def log(params: Any, context: CallbackContext) -> None:
        logs.append((params.data, context.tool_name))

    async def step(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        steps.append((progress, total, message, context.tool_name))

    callbacks = Callbacks(on_elicitation=seat, on_logging_message=log, on_progress=step)
    async with opened(over, callbacks=callbacks) as client:
        assert await said(client, "book", "reserve", "choose") == ["seat 4a"] * 3
        await eventually(lambda: bool(logs and steps))

    assert logs == [("looking", "book")]
    assert steps == [(1, 2, "half", "book")]


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_server_of_both_eras_may_use_the_model_during_a_call(over: str) -> None:
    async with opened(over, sampling=ScriptedChatModel(["deep"])) as client:
        assert await said(client, "think") == ["thought deep"]


async def test_without_a_callback_the_modern_era_is_used() -> None:
    async with opened("stdio") as client:
        assert await said(client, "era") == [MODERN]


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_server_without_the_handshake_is_used_in_the_modern_era(over: str) -> None:
    async with opened(over, "modern-only", callbacks=Callbacks(on_elicitation=seat)) as client:
        assert await said(client, "era", "reserve") == [MODERN, "seat 4a"]
        refused = await said(client, "book", "book")
        assert client.status().servers["desk"].sessions == 1

    assert all('"protocol": "legacy"' in text for text in refused)


async def test_a_server_that_keeps_no_sessions_asks_by_its_results() -> None:
    callbacks = Callbacks(on_elicitation=seat)
    options: dict[str, Any] = {"callbacks": callbacks, "handle_tool_errors": False}
    async with opened("http", "stateless", **options) as client:
        with pytest.raises(ProtocolError) as refused:
            await said(client, "reserve")
        assert await said(client, "era", "reserve") == [MODERN, "seat 4a"]

    assert '"protocol"' not in str(refused.value)


@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize("tool", ["book", "choose"])
async def test_after_a_question_that_could_not_be_asked_the_next_one_is_asked(
    over: str, tool: str
) -> None:
    async with opened(over) as client:
        model = ScriptedChatModel([[tool_call(tool)], [tool_call(tool)], "ok"])
        agent = create_agent(model, await client.get_tools(), checkpointer=InMemorySaver())
        first = await agent.ainvoke(SAID, THREAD)
        (asked,) = first["__interrupt__"]
        (request,) = asked.value["requests"]
        answer = {request["key"]: {"action": "accept", "content": {"seat": "4a"}}}
        done = await agent.ainvoke(Command(resume={"responses": answer}), THREAD)

    refused, answered = tool_texts(done)
    assert '"protocol": "legacy"' in refused
    assert (request["message"], answered) == ("which seat?", "seat 4a")


async def test_a_configured_era_is_kept() -> None:
    callbacks = Callbacks(on_elicitation=seat)
    async with opened("stdio", protocol=MODERN, callbacks=callbacks) as client:
        refused, after = await said(client, "book", "era")
        assert client.status().servers["desk"].sessions == 1

    assert '"protocol": "legacy"' in refused
    assert after == MODERN
