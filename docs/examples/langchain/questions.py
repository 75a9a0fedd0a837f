import asyncio
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp_types import ElicitResult

from plait import CallbackContext, Callbacks, MultiServerMCPClient
from plait.testing import ScriptedChatModel, stdio_config, tool_call

SERVERS = {"desk": stdio_config()}  # its tool `ask` asks the user before it answers
SAID: Any = {"messages": [{"role": "user", "content": "Ask me something."}]}


async def answer(mcp_context: Any, params: Any, context: CallbackContext) -> ElicitResult:
    del mcp_context
    print(f"{context.server_name}/{context.tool_name} asks: {params.message}")
    return ElicitResult(action="accept", content={"text": "Ada"})


async def by_callback() -> None:
    callbacks = Callbacks(on_elicitation=answer)
    async with MultiServerMCPClient(SERVERS, callbacks=callbacks) as client:
        (ask,) = await client.get_tools(include="ask")
        print(await ask.ainvoke({"question": "Your name?"}))


async def by_interrupt() -> None:
    async with MultiServerMCPClient(SERVERS) as client:
        model = ScriptedChatModel([[tool_call("ask", question="Your town?")], "Thanks."])
        tools = await client.get_tools(include="ask")
        agent = create_agent(model, tools, checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "1"}}

        paused = await agent.ainvoke(SAID, thread)
        (question,) = paused["__interrupt__"][0].value["requests"]
        print("the graph waits:", question["message"])

        reply = {"action": "accept", "content": {"text": "London"}}
        state = await agent.ainvoke(Command(resume={"responses": {question["key"]: reply}}), thread)
        print(state["messages"][2].content)


asyncio.run(by_callback())
asyncio.run(by_interrupt())
