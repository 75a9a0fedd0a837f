"""Runs make as many calls as they may; what is too much never reaches the server."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from plait import BudgetExceededError, MultiServerMCPClient, Toolbox
from plait.client import run_budget
from plait.testing import ScriptedChatModel, ServerProcess, tool_call
from tests.integration.agents.helpers import END, arun, at_once, named, one_by_one, run
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PAY_ONCE = {"calls": 50, "tools": {"bank/pay*": 1}}


@pytest.fixture(scope="module")
def server() -> Generator[ServerProcess]:
    with fault_server() as server:
        yield server


class Payments:
    """Counts what was paid since it was made."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._before = len(server.state.ledger())

    @property
    def made(self) -> int:
        return len(self._server.state.ledger()) - self._before


def pay(amount: int) -> Any:
    return tool_call("pay", amount=amount)


async def test_a_run_pays_once_however_often_the_model_asks(server: ServerProcess) -> None:
    payments = Payments(server)
    async with MultiServerMCPClient({"bank": {"url": server.url}}, call_budget=PAY_ONCE) as c:
        tools = await c.get_tools()
        answers = await arun([[pay(1)], [pay(2), tool_call("echo", text="x")], END], tools)
        again = await arun(at_once(pay(3), pay(4), pay(5)), tools)

    assert [answer.status for answer in answers] == ["success", "error", "success"]
    assert "budget of this run is used up" in answers[1].text
    assert answers[1].artifact["error"]["error"] == "BudgetExceededError"
    assert sorted(answer.status for answer in again) == ["error", "error", "success"]
    assert payments.made == 2


async def test_agents_inside_of_tools_belong_to_the_run(server: ServerProcess) -> None:
    payments = Payments(server)
    async with MultiServerMCPClient({"bank": {"url": server.url}}, call_budget=PAY_ONCE) as c:
        tools = await c.get_tools()

        @tool
        async def helper() -> str:
            """Ask another agent."""
            inner: Any = create_agent(ScriptedChatModel(one_by_one(pay(2))), tools)
            state = await inner.ainvoke({"messages": [("user", "pay")]})
            return state["messages"][-2].text

        own: list[BaseTool] = [*tools, helper]
        answers = await arun(one_by_one(pay(1), tool_call("helper")), own)

    assert "budget of this run is used up" in answers[1].text
    assert payments.made == 1


async def test_a_run_that_is_resumed_has_what_is_left_and_the_next_has_all(
    server: ServerProcess,
) -> None:
    payments = Payments(server)

    @tool
    def confirm() -> str:
        """Ask a person."""
        return str(interrupt("sure?"))

    async with MultiServerMCPClient({"bank": {"url": server.url}}, call_budget=PAY_ONCE) as c:
        script = [[pay(1)], [tool_call("confirm")], [pay(2)], END, [pay(3)], END]
        own: list[BaseTool] = [*await c.get_tools(), confirm]
        agent: Any = create_agent(ScriptedChatModel(script), own, checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "1"}}
        await agent.ainvoke({"messages": [("user", "go")]}, config)
        resumed = await agent.ainvoke(Command(resume="yes"), config)
        state = await agent.ainvoke({"messages": [("user", "again")]}, config)

    assert "budget of this run is used up" in resumed["messages"][-2].text
    assert state["messages"][-2].status == "success"
    assert payments.made == 2


async def test_a_block_limits_calls_of_any_client(server: ServerProcess) -> None:
    payments = Payments(server)
    async with Toolbox({"bank": {"url": server.url}}) as box:
        with run_budget(2, tools={"bank/pay": 1}):
            await box.call("bank", "pay", {"amount": 1})
            with pytest.raises(BudgetExceededError):
                await box.call("bank", "pay", {"amount": 2})
            await box.call("bank", "echo", {"text": "x"})
            with pytest.raises(BudgetExceededError):
                await box.call("bank", "echo", {"text": "x"})
        await box.call("bank", "pay", {"amount": 3})

    assert payments.made == 2


def test_a_block_limits_code_without_a_loop(server: ServerProcess) -> None:
    payments = Payments(server)
    with MultiServerMCPClient({"bank": {"url": server.url}}) as client:
        tools = client.get_tools_blocking()
        with run_budget(tools={"pay": 1}):
            answers = run(one_by_one(pay(1), pay(2)), tools)
            third = named(tools, "pay").invoke(pay(3))

        assert [answer.status for answer in (*answers, third)] == ["success", "error", "error"]
        assert payments.made == 1
