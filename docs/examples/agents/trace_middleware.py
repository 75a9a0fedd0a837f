import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from plait.agents import GraphLimitError, TraceMiddleware
from plait.testing import ScriptedChatModel, tool_call
from plait.traces import read_traces


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


again = [[tool_call("add", a=1, b=1)] for _ in range(100)]
trace = TraceMiddleware("runs.jsonl", max_turns=10, max_tool_calls=3)


async def main() -> None:
    careful: Any = create_agent(
        ScriptedChatModel([[tool_call("add", a=20, b=22)], "It is 42."]), [add], middleware=[trace]
    )
    await careful.ainvoke({"messages": [("user", "What is 20 + 22?")]})

    stubborn: Any = create_agent(ScriptedChatModel(again), [add], middleware=[trace])
    try:
        await stubborn.ainvoke({"messages": [("user", "Add for ever.")]})
    except GraphLimitError as error:
        print(error)

    for run in read_traces("runs.jsonl"):
        print(run.status, run.turns, [result.content for _, result in run.calls if result])


asyncio.run(main())
