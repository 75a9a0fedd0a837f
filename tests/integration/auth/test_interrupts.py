"""A call for which nobody has signed in pauses the graph, and no thread is left broken."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from plait import AuthRequiredError, MCPToolsMiddleware, MultiServerMCPClient
from plait.cli.logins import sign_in
from plait.client import finish_sign_in
from plait.client.transports.auth.sign_in import prompt_in_terminal
from plait.testing import OAuthServer, ScriptedChatModel, oauth_server, tool_call
from tests.integration.auth.helpers import Keeper, Shop, offering, paste_from
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

THREAD: Any = {"configurable": {"thread_id": "1"}}


def said(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def tool_texts(state: Any) -> list[tuple[str, str]]:
    return [(one.status, one.content) for one in state["messages"] if one.type == "tool"]


def answers_every_call(state: Any) -> bool:
    """Check what providers insist on: after a call comes its result."""
    asked = [call["id"] for one in state["messages"] if one.type == "ai" for call in one.tool_calls]
    got = [one.tool_call_id for one in state["messages"] if one.type == "tool"]
    return asked == got


async def agent_on(client: MultiServerMCPClient, turns: list[Any], saver: Any = None) -> Any:
    return create_agent(ScriptedChatModel(turns), await client.get_tools(), checkpointer=saver)


def add_turns(*more: Any) -> list[Any]:
    return [[tool_call("add", a=1, b=2)], *more]


@offering(scopes=("read", "list"))
@pytest.mark.parametrize("resume", [True, {"action": "retry"}, "done"])
async def test_a_call_without_a_login_pauses_the_graph_until_somebody_has_signed_in(
    resume: Any, shop: Shop
) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry()) as client:
        agent = await agent_on(client, add_turns("ok"), InMemorySaver())
        shop.server.revoke()

        began = time.monotonic()
        paused = await agent.ainvoke(said("go"), THREAD)
        took = time.monotonic() - began
        assert client.status()["shop"].needs_auth
        await shop.sign_in()
        done = await agent.ainvoke(Command(resume=resume), THREAD)

    (interrupt,) = paused["__interrupt__"]
    value = interrupt.value
    message = value.pop("message")
    assert value == {
        "type": "mcp_auth",
        "server_name": "shop",
        "tool_name": "add",
        "scopes": ["read", "list"],
        "login": "plait auth login shop",
    }
    assert "revoked" in message
    assert took < 5  # a second on a machine that has nothing else to do
    assert [token for token in shop.server.issued if token in json.dumps(value) + message] == []
    assert tool_texts(done) == [("success", "3")]
    assert done["messages"][-1].content == "ok"


def test_blocking_code_is_paused_too(shop: Shop) -> None:
    asyncio.run(shop.sign_in())
    with MultiServerMCPClient(shop.entry()) as client:
        tools = client.get_tools_blocking()
        model = ScriptedChatModel(add_turns("ok"))
        agent: Any = create_agent(model, tools, checkpointer=InMemorySaver())
        shop.server.revoke()
        paused = agent.invoke(said("go"), THREAD)
        asyncio.run(shop.sign_in())
        done = agent.invoke(Command(resume=True), THREAD)

    assert paused["__interrupt__"][0].value["type"] == "mcp_auth"
    assert tool_texts(done) == [("success", "3")]


async def test_who_goes_on_without_signing_in_is_asked_again(shop: Shop) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry()) as client:
        agent = await agent_on(client, add_turns("ok"), InMemorySaver())
        shop.server.revoke()

        await agent.ainvoke(said("go"), THREAD)
        for _ in range(2):
            again = await agent.ainvoke(Command(resume=True), THREAD)
            assert again["__interrupt__"][0].value["type"] == "mcp_auth"
        await shop.sign_in()
        done = await agent.ainvoke(Command(resume=True), THREAD)

    assert tool_texts(done) == [("success", "3")]


@pytest.mark.parametrize("resume", [False, {"action": "decline"}, {"action": "cancel"}])
async def test_a_thread_goes_on_after_the_user_declined(resume: Any, shop: Shop) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry()) as client:
        agent = await agent_on(client, add_turns("a pity", "hello"), InMemorySaver())
        shop.server.revoke()

        await agent.ainvoke(said("go"), THREAD)
        declined = await agent.ainvoke(Command(resume=resume), THREAD)
        after = await agent.ainvoke(said("hi"), THREAD)

    ((status, text),) = tool_texts(declined)
    assert status == "error"
    assert "the user declined" in text
    assert declined["messages"][-1].content == "a pity"
    assert after["messages"][-1].content == "hello"
    assert answers_every_call(after)


async def test_a_call_that_was_declined_is_not_made_after_somebody_signed_in_for_another(
    shop: Shop,
) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry()) as client:
        both = [tool_call("add", a=1, b=2), tool_call("add", a=3, b=4)]
        agent = await agent_on(client, [both, "ok"], InMemorySaver())
        shop.server.revoke()

        paused = await agent.ainvoke(said("go"), THREAD)
        await shop.sign_in()
        first, second = (one.id for one in paused["__interrupt__"])
        resume = {first: {"action": "retry"}, second: {"action": "decline"}}
        done = await agent.ainvoke(Command(resume=resume), THREAD)

    (made, declined) = tool_texts(done)
    assert made == ("success", "3")
    assert declined[0] == "error"
    assert "declined" in declined[1]


async def test_scopes_that_are_missing_pause_the_graph_too(shop: Shop) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry()) as client:
        turns = [[tool_call("write_note", text="x")], "ok"]
        agent = await agent_on(client, turns, InMemorySaver())
        paused = await agent.ainvoke(said("go"), THREAD)
        await sign_in_again(shop, "write")
        done = await agent.ainvoke(Command(resume=True), THREAD)

    value = paused["__interrupt__"][0].value
    assert value["scopes"] == ["write"]
    assert value["login"] == "plait auth login shop --scope write"
    assert tool_texts(done) == [("success", "noted: x")]


async def sign_in_again(shop: Shop, scope: str) -> None:
    shown: list[str] = []
    ask = prompt_in_terminal(shown.append, lambda: paste_from(shown))
    await sign_in("shop", shop.http(), ask, scope)


async def test_where_the_graph_keeps_no_state_the_model_is_told(shop: Shop) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry()) as client:
        agent = await agent_on(client, add_turns("ok"))
        shop.server.revoke()
        state = await agent.ainvoke(said("go"))

        assert client.status()["shop"].needs_auth
        after = await next_turn_after(state["messages"])

    ((status, text),) = tool_texts(state)
    assert status == "error"
    assert "plait auth login shop" in text
    assert after["messages"][-1].content == "hello"


async def next_turn_after(messages: list[Any]) -> Any:
    """Take the next turn of a conversation that the caller keeps."""
    agent: Any = create_agent(ScriptedChatModel(["hello"]), [])
    return await agent.ainvoke({"messages": [*messages, *said("hi")["messages"]]})


@pytest.mark.parametrize("options", [{"on_auth_error": "raise"}, {"handle_tool_errors": False}])
async def test_who_wants_the_error_gets_it(options: Any, shop: Shop) -> None:
    await shop.sign_in()
    async with MultiServerMCPClient(shop.entry(), **options) as client:
        agent = await agent_on(client, add_turns("ok"), InMemorySaver())
        shop.server.revoke()
        with pytest.raises(AuthRequiredError) as caught:
            await agent.ainvoke(said("go"), THREAD)

        assert caught.value.scopes == ("read",)
        assert caught.value.login == "plait auth login shop"
        await shop.sign_in()
        done = await agent.ainvoke(None, THREAD)

    assert tool_texts(done) == [("success", "3")]


async def test_a_provider_object_says_in_the_interrupt_where_the_person_was_sent() -> None:
    keeper = Keeper()
    with oauth_server() as server:
        await sign_in_with(keeper, server)
        servers = {"shop": {"url": server.url, "auth": keeper}}
        async with MultiServerMCPClient(servers) as client:
            agent = await agent_on(client, add_turns("ok"), InMemorySaver())
            server.revoke()
            keeper.sent_to.clear()
            paused = await agent.ainvoke(said("go"), THREAD)
            (address,) = keeper.sent_to
            answer = paste_from([address])
            await finish_sign_in(keeper, server.url, answer)
            done = await agent.ainvoke(Command(resume=True), THREAD)

        value = paused["__interrupt__"][0].value
        assert value["authorization_url"] == address
        assert [token for token in server.issued if token in json.dumps(value)] == []
        assert tool_texts(done) == [("success", "3")]


async def sign_in_with(keeper: Keeper, server: OAuthServer) -> None:
    async with MultiServerMCPClient({"shop": {"url": server.url, "auth": keeper}}) as client:
        with pytest.raises(AuthRequiredError):
            await client.get_tools()
    answer = paste_from(keeper.sent_to)
    await finish_sign_in(keeper, server.url, answer)


async def test_an_agent_goes_on_with_the_tools_of_the_other_servers(shop: Shop) -> None:
    servers = {**shop.entry(), "other": stdio_config()}
    async with MultiServerMCPClient(servers) as client:
        model = ScriptedChatModel([[tool_call("echo", text="x")], "ok"])
        agent: Any = create_agent(
            model, middleware=[MCPToolsMiddleware(client)], checkpointer=InMemorySaver()
        )
        state = await agent.ainvoke(said("go"), THREAD)

        assert client.status()["shop"].needs_auth
    assert tool_texts(state) == [("success", "x")]
    assert "write_note" not in model.bound[0]
    assert "need the user to sign in first: shop" in model.seen[0][0].text


async def test_an_agent_whose_only_server_lacks_a_login_goes_on_and_finds_it_later(
    shop: Shop,
) -> None:
    async with MultiServerMCPClient(shop.entry()) as client:
        model = ScriptedChatModel(["sign in, please", *add_turns("ok")])
        agent: Any = create_agent(
            model, middleware=[MCPToolsMiddleware(client)], checkpointer=InMemorySaver()
        )
        await agent.ainvoke(said("go"), THREAD)
        await shop.sign_in()
        state = await agent.ainvoke(said("again"), THREAD)

    assert tool_texts(state) == [("success", "3")]
