import asyncio
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

from plait import MultiServerMCPClient, PermissionDeniedError, Toolbox
from plait.client import ApprovalRequest
from plait.testing import ScriptedChatModel, tool_call

POLICY = Path(__file__).with_name("policy.json")
files = MCPServer("files", log_level="ERROR")


@files.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_file(path: str) -> str:
    """Read a file."""
    return f"the text of {path}"


@files.tool()
def write_file(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {text!r} to {path}"


@files.tool()
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


async def by_interrupt() -> None:
    async with MultiServerMCPClient({"files": files}, policy=POLICY) as client:
        tools = await client.get_tools()
        print("offered:", ", ".join(tool.name for tool in tools))
        calls = [
            tool_call("read_file", path="a.txt"),
            tool_call("write_file", path="drafts/b.txt", text="hello"),
            tool_call("write_file", path="c.txt", text="hello"),
        ]
        model = ScriptedChatModel([calls, "Done."])
        agent = create_agent(model, tools, checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "1"}}
        question: Any = {"messages": [{"role": "user", "content": "Write it down."}]}

        paused = await agent.ainvoke(question, thread)
        for one in paused["__interrupt__"]:
            print("the graph waits:", one.value["tool_name"], one.value["arguments"])

        args = {"path": "c.txt", "text": "good morning"}
        resume = {one.id: {"decision": "edit", "args": args} for one in paused["__interrupt__"]}
        state = await agent.ainvoke(Command(resume=resume), thread)
        for message in state["messages"]:
            if message.type == "tool":
                print("-", message.text)


def on_approval(request: ApprovalRequest) -> bool:
    print("approve", request.where, "by", request.reason)
    return False


async def by_callback() -> None:
    async with Toolbox({"files": files}, policy=POLICY, on_approval=on_approval) as box:
        for tool in ("write_file", "delete_file"):
            try:
                await box.call("files", tool, {"path": "c.txt", "text": "bye"})
            except PermissionDeniedError as error:
                print(error)


asyncio.run(by_interrupt())
asyncio.run(by_callback())
