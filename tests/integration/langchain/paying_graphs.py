"""Graphs that make payments, in every layout in which a graph can call tools.

As a program, it takes one step of a graph: it begins, or answers what the graph waits for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from plait import MultiServerMCPClient
from tests.servers.till import SIGNED_IN

THREAD: Any = {"configurable": {"thread_id": "1"}}
POLICY = {"rules": [{"tool": "pay_approved", "do": "ask"}], "default": "allow"}

Payment = tuple[str, int]
"""The name of a tool, and an amount."""


class Paid(TypedDict):
    """The state of graphs whose nodes call the tools themselves."""

    texts: list[str]


def message_of(payments: Sequence[Payment]) -> AIMessage:
    calls = [
        {"type": "tool_call", "id": f"call_{number}", "name": name, "args": {"amount": amount}}
        for number, (name, amount) in enumerate(payments)
    ]
    return AIMessage("", tool_calls=calls)


def compiled(state: type, node: Any, saver: Any = None) -> Any:
    builder: Any = StateGraph(state)
    builder.add_node("pay", node)
    builder.add_edge(START, "pay")
    return builder.compile(checkpointer=saver)


def tool_node(tools: Mapping[str, BaseTool], payments: Sequence[Payment], saver: Any) -> Any:
    """All calls of a message in one task."""
    return compiled(MessagesState, ToolNode(list(tools.values())), saver)


def tool_node_in_subgraph(tools: Any, payments: Sequence[Payment], saver: Any) -> Any:
    """The same in a graph within a graph."""
    return compiled(MessagesState, tool_node(tools, payments, None), saver)


def by_send(tools: Mapping[str, BaseTool], payments: Sequence[Payment], saver: Any) -> Any:
    """Each call of a message in a task of its own."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("pay", ToolNode(list(tools.values())))
    builder.add_conditional_edges(
        START, lambda state: [Send("pay", [call]) for call in state["messages"][-1].tool_calls]
    )
    return builder.compile(checkpointer=saver)


def one_after_the_other(tools: Any, payments: Sequence[Payment], saver: Any) -> Any:
    """A node that makes the calls itself."""

    async def node(state: Paid) -> Paid:
        return {"texts": [await tools[name].ainvoke({"amount": of}) for name, of in payments]}

    return compiled(Paid, node, saver)


def at_the_same_time(tools: Any, payments: Sequence[Payment], saver: Any) -> Any:
    """A node that makes the calls itself, each time in another order."""
    orders = [list(payments), [*reversed(payments)], [*payments[1:], payments[0]]]

    async def node(state: Paid) -> Paid:
        order = orders[len(rounds) % len(orders)]
        rounds.append(None)
        made = await asyncio.gather(
            *(tools[name].ainvoke({"amount": amount}) for name, amount in order)
        )
        texts = dict(zip(order, made, strict=True))
        return {"texts": [texts[payment] for payment in payments]}

    rounds: list[None] = []
    return compiled(Paid, node, saver)


def before_a_subgraph(tools: Any, payments: Sequence[Payment], saver: Any) -> Any:
    """A node that makes the first call itself, and the others in a graph of its own."""
    inner = at_the_same_time(tools, payments[1:], None)

    async def node(state: Paid) -> Paid:
        (name, amount) = payments[0]
        first = await tools[name].ainvoke({"amount": amount})
        return {"texts": [first, *(await inner.ainvoke({"texts": []}))["texts"]]}

    return compiled(Paid, node, saver)


def functional(tools: Any, payments: Sequence[Payment], saver: Any) -> Any:
    """An entry point that makes the calls itself."""

    @entrypoint(checkpointer=saver)
    async def pay(texts: Any) -> Paid:
        del texts
        calls = [tools[name].ainvoke({"amount": amount}) for name, amount in payments]
        return {"texts": list(await asyncio.gather(*calls))}

    return pay


def functional_tasks(tools: Any, payments: Sequence[Payment], saver: Any) -> Any:
    """An entry point with a task for each call."""

    @task
    async def one(name: str, amount: int) -> str:
        return await tools[name].ainvoke({"amount": amount})

    @entrypoint(checkpointer=saver)
    async def pay(texts: Any) -> Paid:
        del texts
        return {"texts": list(await asyncio.gather(*(one(*payment) for payment in payments)))}

    return pay


LAYOUTS: dict[str, Callable[..., Any]] = {
    layout.__name__: layout
    for layout in (
        tool_node,
        tool_node_in_subgraph,
        by_send,
        one_after_the_other,
        at_the_same_time,
        before_a_subgraph,
        functional,
        functional_tasks,
    )
}


def answer_to(value: Mapping[str, Any], folder: Path) -> Any:
    """Answer an interrupt as a user does who wants to pay."""
    match value["type"]:
        case "mcp_requests":
            return [answer_to(request, folder) for request in value["requests"]]
        case "mcp_approval":
            return {"decision": "approve"}
        case "mcp_auth":
            (folder / SIGNED_IN).touch()
            return {"action": "retry"}
        case _:
            sure = {"action": "accept", "content": {"sure": True}}
            return {"responses": {request["key"]: sure for request in value["requests"]}}


async def step(graph: Any, payments: Sequence[Payment], folder: Path) -> list[str] | None:
    """Begin, or answer what the graph waits for; return the results when all are there."""
    waiting = (await graph.aget_state(THREAD)).interrupts
    given: Any = {"messages": [message_of(payments)], "texts": []}
    if waiting:
        given = Command(resume={one.id: answer_to(one.value, folder) for one in waiting})
    state = await graph.ainvoke(given, THREAD)
    if (await graph.aget_state(THREAD)).interrupts:
        return None
    if "messages" in state:
        found = [one for one in state["messages"] if isinstance(one, ToolMessage)]
        by_id = {one.tool_call_id: one.text for one in found}
        assert len(found) == len(by_id)
        return [by_id[call["id"] or ""] for call in message_of(payments).tool_calls]
    return state["texts"]


async def with_tools(
    url: str, database: str, use: Callable[[dict[str, BaseTool], Any], Coroutine[Any, Any, Any]]
) -> Any:
    """Use the tools of a server, and a checkpointer with a database."""
    servers: Any = {"till": {"url": url}}
    async with (
        MultiServerMCPClient(servers, policy=POLICY) as client,
        AsyncSqliteSaver.from_conn_string(database) as saver,
    ):
        return await use({tool.name: tool for tool in await client.get_tools()}, saver)


async def opened(
    url: str,
    layout: str,
    payments: Sequence[Payment],
    database: str,
    use: Callable[[Any], Coroutine[Any, Any, Any]],
) -> Any:
    """Use a graph on a server, whose state is in a database."""
    return await with_tools(
        url, database, lambda tools, saver: use(LAYOUTS[layout](tools, payments, saver))
    )


def main() -> None:
    url, layout, payments, database, folder = sys.argv[1:]
    chosen = [(name, amount) for name, amount in json.loads(payments)]
    outcome = asyncio.run(
        opened(url, layout, chosen, database, lambda graph: step(graph, chosen, Path(folder)))
    )
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main()
