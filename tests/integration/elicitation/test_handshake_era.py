"""On servers of the handshake era a question pauses the graph too, and the call waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from mcp_types import ElicitResult

from plait import MultiServerMCPClient
from plait.client.calls import call_routing
from plait.testing import ScriptedChatModel, ServerProcess, eventually, tool_call
from tests.integration.elicitation.test_interrupts import SAID, THREAD, tool_texts
from tests.nursery import entry, python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

PROGRAM = str(Path(__file__).parents[2] / "servers" / "asking.py")


@asynccontextmanager
async def opened(
    tmp_path: Path, *, over: str = "stdio", **options: Any
) -> AsyncGenerator[MultiServerMCPClient]:
    ledger = tmp_path / "ledger"
    ledger.touch()
    stdio = entry(PROGRAM, str(ledger), "stdio", protocol="legacy")
    if over == "stdio":
        async with MultiServerMCPClient({"desk": {**stdio, **options}}) as client:
            yield client
        return
    with ServerProcess([*python(), PROGRAM, str(ledger), "http"]) as running:
        config = {"url": running.url, "protocol": "legacy", **options}
        async with MultiServerMCPClient({"desk": config}) as client:
            yield client


def done_by(tmp_path: Path) -> list[str]:
    return (tmp_path / "ledger").read_text().splitlines()


def answers(state: Any, texts: dict[str, str]) -> Command[Any]:
    return Command(
        resume={
            one.id: {
                "responses": {
                    request["key"]: {
                        "action": "accept",
                        "content": {"text": texts[request["message"]]},
                    }
                    for request in one.value["requests"]
                }
            }
            for one in state["__interrupt__"]
        }
    )


def asked(state: Any) -> list[str]:
    found = [one.value["requests"][0]["message"] for one in state.get("__interrupt__", ())]
    return sorted(found)


async def agent_of(client: MultiServerMCPClient, turns: list[Any]) -> Any:
    tools = await client.get_tools()
    return create_agent(ScriptedChatModel(turns), tools, checkpointer=InMemorySaver())


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_call_with_two_questions_runs_once(tmp_path: Path, over: str) -> None:
    async with opened(tmp_path, over=over) as client:
        agent = await agent_of(client, [[tool_call("book", name="ada")], "ok"])
        first = await agent.ainvoke(SAID, THREAD)
        second = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)
        done = await agent.ainvoke(answers(second, {"meal for ada?": "soup"}), THREAD)
        sessions = client.status().servers["desk"].sessions

    assert (asked(first), asked(second)) == (["seat for ada?"], ["meal for ada?"])
    assert tool_texts(done) == ["ada: 4a, soup"]
    assert done_by(tmp_path) == ["began ada", "booked ada"]
    assert sessions == 1


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_calls_that_ask_at_once_never_swap_answers(tmp_path: Path, over: str) -> None:
    names = ["ada", "bob", "cy"]
    async with opened(tmp_path, over=over) as client:
        calls = [*(tool_call("book", name=name) for name in names), tool_call("plain", name="x")]
        agent = await agent_of(client, [calls, "ok"])
        state = await agent.ainvoke(SAID, THREAD)
        seats = {f"seat for {name}?": f"seat-{name}" for name in names}
        assert asked(state) == sorted(seats)
        state = await agent.ainvoke(answers(state, seats), THREAD)
        meals = {f"meal for {name}?": f"meal-{name}" for name in names}
        assert asked(state) == sorted(meals)
        state = await agent.ainvoke(answers(state, meals), THREAD)

    assert tool_texts(state) == [*(f"{n}: seat-{n}, meal-{n}" for n in names), "plain x"]
    assert sorted(done_by(tmp_path)) == sorted(
        f"{w} {n}" for w in ("began", "booked") for n in names
    )


async def test_a_direct_call_takes_another_session_than_a_call_that_waits(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        (plain,) = [tool for tool in await client.get_tools() if tool.name == "plain"]
        await plain.ainvoke({"name": "x"})  # the next call can be direct
        agent = await agent_of(client, [[tool_call("book", name="ada")], "ok"])
        first = await agent.ainvoke(SAID, THREAD)
        before = client.status().servers["desk"].sessions
        await plain.ainvoke({"name": "y"})
        after = client.status().servers["desk"].sessions
        second = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)

    assert (before, after) == (1, 2)
    assert asked(second) == ["meal for ada?"]


async def test_a_server_that_takes_one_call_at_a_time_can_ask_in_two(tmp_path: Path) -> None:
    async with opened(tmp_path, max_concurrency=1) as client:
        calls = [tool_call("book", name="ada"), tool_call("book", name="bob")]
        agent = await agent_of(client, [calls, "ok"])
        state = await agent.ainvoke(SAID, THREAD)
        seats = {"seat for ada?": "1", "seat for bob?": "2"}
        state = await agent.ainvoke(answers(state, seats), THREAD)
        meals = {"meal for ada?": "1", "meal for bob?": "2"}
        state = await agent.ainvoke(answers(state, meals), THREAD)

    assert tool_texts(state) == ["ada: 1, 1", "bob: 2, 2"]


async def test_a_waiting_call_does_not_count_its_time_and_leaves_the_server_to_others(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, timeout=1) as client:
        agent = await agent_of(client, [[tool_call("book", name="ada")], "ok"])
        first = await agent.ainvoke(SAID, THREAD)
        (plain,) = await client.get_tools(include="plain")
        others = [await plain.ainvoke({"name": "x", "seconds": 0.6}) for _ in range(2)]
        second = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)
        done = await agent.ainvoke(answers(second, {"meal for ada?": "soup"}), THREAD)

    assert others == ["plain x"] * 2
    assert tool_texts(done) == ["ada: 4a, soup"]


@pytest.mark.parametrize(("tool", "repeated"), [("book", False), ("look", True)])
async def test_an_answer_that_comes_too_late_repeats_only_what_can_do_no_harm(
    tmp_path: Path, tool: str, repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_routing, "ANSWER_TIMEOUT_SECONDS", 0.2)
    async with opened(tmp_path) as client:
        agent = await agent_of(client, [[tool_call(tool, name="ada")], "ok"])
        first = await agent.ainvoke(SAID, THREAD)
        await eventually(lambda: "booked ada" in done_by(tmp_path))  # both questions were cancelled
        monkeypatch.setattr(call_routing, "ANSWER_TIMEOUT_SECONDS", 60)
        state = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)
        if repeated:
            state = await agent.ainvoke(answers(state, {"meal for ada?": "soup"}), THREAD)

    (text,) = tool_texts(state)
    assert done_by(tmp_path).count("began ada") == (2 if repeated else 1)
    assert (text == "ada: 4a, soup") if repeated else ("too late" in text and "check first" in text)


@pytest.mark.parametrize(("tool", "repeated"), [("book", False), ("look", True)])
async def test_in_another_client_only_what_can_do_no_harm_is_repeated(
    tmp_path: Path, tool: str, repeated: bool
) -> None:
    saver = InMemorySaver()
    async with opened(tmp_path) as client:
        model = ScriptedChatModel([[tool_call(tool, name="ada")]])
        agent = create_agent(model, await client.get_tools(), checkpointer=saver)
        first = await agent.ainvoke(SAID, THREAD)
    async with opened(tmp_path) as client:
        model = ScriptedChatModel(["ok", "again"])
        agent: Any = create_agent(model, await client.get_tools(), checkpointer=saver)
        state = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)
        if repeated:
            state = await agent.ainvoke(answers(state, {"meal for ada?": "soup"}), THREAD)
        more = await agent.ainvoke(SAID, THREAD)

    (text,) = tool_texts(state)
    assert (text == "ada: 4a, soup") if repeated else ("another process" in text)
    assert done_by(tmp_path).count("began ada") == (2 if repeated else 1)
    assert more["messages"][-1].content == "again"


async def test_a_server_that_dies_while_it_waits_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        agent = await agent_of(client, [[tool_call("book", name="ada")], "ok"])
        first = await agent.ainvoke(SAID, THREAD)
        pid = client.status().servers["desk"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        state = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)

    (text,) = tool_texts(state)
    assert "check" in text
    assert done_by(tmp_path) == ["began ada"]


async def test_a_call_after_another_interrupt_of_its_task_is_made(tmp_path: Path) -> None:
    async def confirmed(request: Any, handler: Any) -> Any:
        interrupt("sure?")
        return await handler(request)

    saver = InMemorySaver()
    async with opened(tmp_path) as client:
        client.tool_interceptors.append(confirmed)
        model = ScriptedChatModel([[tool_call("book", name="ada")], "ok"])
        agent: Any = create_agent(model, await client.get_tools(), checkpointer=saver)
        (sure,) = (await agent.ainvoke(SAID, THREAD))["__interrupt__"]
        first = await agent.ainvoke(Command(resume={sure.id: True}), THREAD)
        second = await agent.ainvoke(answers(first, {"seat for ada?": "4a"}), THREAD)
        done = await agent.ainvoke(answers(second, {"meal for ada?": "soup"}), THREAD)

    assert tool_texts(done) == ["ada: 4a, soup"]
    assert done_by(tmp_path) == ["began ada", "booked ada"]


async def test_a_run_that_is_cancelled_takes_its_call_along(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        agent = await agent_of(client, [[tool_call("plain", name="x", seconds=60)], "ok"])
        running = asyncio.ensure_future(agent.ainvoke(SAID, THREAD))
        await eventually(lambda: client.status().servers["desk"].in_flight == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await eventually(lambda: client.status().servers["desk"].in_flight == 0)


@pytest.mark.parametrize(("action", "text"), [("accept", "fetched ada"), ("decline", "-32042")])
async def test_an_address_to_visit_first_is_a_question_too(
    tmp_path: Path, action: str, text: str
) -> None:
    async with opened(tmp_path) as client:
        agent = await agent_of(client, [[tool_call("fetch", name="ada")], "ok"])
        (asks,) = (await agent.ainvoke(SAID, THREAD))["__interrupt__"]
        (request,) = asks.value["requests"]
        resume = {"responses": {request["key"]: {"action": action}}}
        done = await agent.ainvoke(Command(resume=resume), THREAD)

    assert (request["mode"], request["url"]) == ("url", "https://example.com/sign-in")
    assert text in tool_texts(done)[0]
    assert done_by(tmp_path) == (["fetched ada"] if action == "accept" else [])


async def test_an_address_to_visit_first_is_put_to_the_callback(tmp_path: Path) -> None:
    seen: list[str] = []

    async def visit(mcp_context: Any, params: Any, context: Any) -> ElicitResult:
        seen.append(f"{context.tool_name} {params.url}")
        return ElicitResult(action="accept")

    async with opened(tmp_path) as client:
        client.callbacks.on_elicitation = visit
        (fetch,) = await client.get_tools(include="fetch")
        answer = await fetch.ainvoke({"name": "ada"})

    assert (answer, seen) == ("fetched ada", ["fetch https://example.com/sign-in"])
