"""A compiled agent picks up the tools of its gateway at run time, for the user of each turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from microsoft_agents.activity import TokenResponse
from microsoft_agents.hosting.core import TurnContext

from plait import ConfigError
from plait.client.config.servers import ReconnectPolicy
from plait.gateway import GatewayToolsMiddleware, McpToolRegistrationService
from plait.gateway.credentials import claim
from plait.testing import MockGateway, ScriptedChatModel, tool_call
from tests.integration.gateway.hosting import authorization, jwt, turn

QUICK = ReconnectPolicy(first_delay_seconds=0.01, longest_delay_seconds=0.02)
HELLO: Any = {"messages": [{"role": "user", "content": "Hello"}]}


@dataclass
class Context:
    """The context of the agents in these tests."""

    turn_context: Any


@tool
def send(to: str) -> str:
    """Send by hand."""
    return f"by hand to {to}"


def service(gateway: MockGateway) -> McpToolRegistrationService:
    return McpToolRegistrationService(
        endpoint=gateway.url,
        environ={},
        retry=QUICK,
        server_options={"reconnect": {"max_attempts": 1}},
    )


def agent_for(
    registering: McpToolRegistrationService, model: Any, tokens: Any, *tools: Any
) -> CompiledStateGraph[Any, Any]:
    middleware = GatewayToolsMiddleware(registering, tokens, "agentic")
    return create_agent(model, tools, middleware=[middleware], context_schema=Context)


def signed_in(user: str = "ann") -> tuple[TurnContext, Any, list[str]]:
    """Return a turn of a user, an authorization for it, and the scopes it is asked for."""
    context = turn(**{"from": {"id": user}})
    return context, *authorization(context, lambda _: jwt(oid=user))


@pytest.mark.anyio
async def test_an_agent_gets_the_tools_of_the_user_it_answers(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        for user in ("ann", "bob"):
            context, tokens, asked = signed_in(user)
            model = ScriptedChatModel([[tool_call("mail__send", to=user)], "done"])
            agent = agent_for(registering, model, tokens, send)

            state = await agent.ainvoke(HELLO, context=Context(context))

            assert model.bound[0] == ["send", "book", "find", "mail__send"]
            assert state["messages"][2].text == f"sent to {user}"
            assert len(asked) == 1, "a turn of two model calls exchanges once"

    calls = [one for one in gateway.requests("mail") if one.rpc_method == "tools/call"]
    owners = [claim(one.headers["authorization"][7:], "oid") for one in calls]
    assert owners == ["ann", "bob"]
    assert len(gateway.requests("discovery")) == 2


def test_an_agent_in_blocking_code_gets_them_too(gateway: MockGateway) -> None:
    registering = service(gateway)
    context, tokens, _ = signed_in()
    model = ScriptedChatModel([[tool_call("send", to="bob"), tool_call("nothing")], "done"])
    agent = agent_for(registering, model, tokens)
    try:
        state = agent.invoke(HELLO, {"configurable": {"turn_context": context}})
    finally:
        registering.close()

    assert state["messages"][2].text == "sent to bob"
    assert state["messages"][3].status == "error"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "name", "tools"),
    [("discovery=500", "the gateway", []), ("mail=500", "mail", ["book", "find"])],
)
async def test_what_is_down_is_named_to_the_model_and_the_agent_goes_on(
    gateway: MockGateway, fault: str, name: str, tools: list[str]
) -> None:
    gateway.faults.set(fault)
    context, tokens, _ = signed_in()
    model = ScriptedChatModel(["done"])
    async with service(gateway) as registering:
        agent = agent_for(registering, model, tokens)
        state = await agent.ainvoke(HELLO, {"configurable": {"turn_context": context}})

    assert state["messages"][-1].text == "done"
    assert (model.bound[0] if model.bound else []) == tools
    assert f"unavailable at the moment: {name}." in model.seen[0][0].text


@pytest.mark.anyio
async def test_a_run_without_a_turn_is_an_error(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        agent = agent_for(registering, ScriptedChatModel(["done"]), None)

        with pytest.raises(ConfigError, match="turn_context"):
            await agent.ainvoke(HELLO)


class EqualTurn(TurnContext):
    """A turn of a host that compares turns by something that several users have in common."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualTurn)

    def __hash__(self) -> int:
        return 1


class TokensOfSender:
    """Exchanges tokens for the sender of a turn."""

    async def exchange_token(
        self, context: Any, scopes: list[str] | None = None, auth_handler_id: str | None = None
    ) -> TokenResponse:
        return TokenResponse(token=jwt(oid=context.activity.from_property.id))


@pytest.mark.anyio
async def test_turns_that_are_equal_do_not_share_their_tools(gateway: MockGateway) -> None:
    turns: list[Any] = []
    async with service(gateway) as registering:
        middleware = GatewayToolsMiddleware(registering, TokensOfSender(), "agentic")
        for user in ("ann", "bob"):
            turns.append(turn(**{"from": {"id": user}}))
            turns[-1].__class__ = EqualTurn
            model = ScriptedChatModel([[tool_call("send", to=user)], "done"])
            agent = create_agent(model, middleware=[middleware], context_schema=Context)
            await agent.ainvoke(HELLO, context=Context(turns[-1]))

    calls = [one for one in gateway.requests("mail") if one.rpc_method == "tools/call"]
    assert [claim(one.headers["authorization"][7:], "oid") for one in calls] == ["ann", "bob"]
