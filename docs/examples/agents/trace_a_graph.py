import asyncio
import subprocess
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from plait.agents import GraphTracer
from plait.testing import ScriptedChatModel, tool_call


@tool
async def population(city: str) -> str:
    """Return the population of a city."""
    await asyncio.sleep(0.1)  # a request to a registry
    return {"Bern": "134 000", "Basel": "178 000"}[city]


both = [tool_call("population", city="Bern"), tool_call("population", city="Basel")]
researcher = ScriptedChatModel([both, "Basel is larger."])  # or any chat model of LangChain
critic = ScriptedChatModel(["The figures are from 2024."])
editor = ScriptedChatModel(["The answer can be shorter."])


async def criticise(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await critic.ainvoke(state["messages"])]}


async def edit(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await editor.ainvoke(state["messages"])]}


builder: Any = StateGraph(MessagesState)
builder.add_node("research", create_agent(researcher, [population]))  # a sub-graph
builder.add_node("criticise", criticise)  # two branches at the same time
builder.add_node("edit", edit)
builder.add_edge(START, "research")
builder.add_edge("research", "criticise")
builder.add_edge("research", "edit")
graph = builder.compile()

tracer = GraphTracer("graph.jsonl", max_turns=20, max_tool_calls=50, max_tokens_total=100_000)
question = HumanMessage("Which is larger, Bern or Basel?")
asyncio.run(graph.ainvoke({"messages": [question]}, {"callbacks": [tracer]}))

subprocess.run(["plait", "trace", "show", "graph.jsonl"], check=True)
