import asyncio
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from plait import CallbackContext, Callbacks, MultiServerMCPClient
from plait.testing import ScriptedChatModel, stdio_config, tool_call

MODEL = ScriptedChatModel(
    [[tool_call("sleep_progress", steps=2, delay=0.01)], "Both steps are done."]
)


async def progress(
    done: float, total: float | None, message: str | None, context: CallbackContext
) -> None:
    text = f"{context.tool_name}: {message}, {done:g} of {total:g}"
    get_stream_writer()(text)  # becomes a part of the stream


async def main() -> None:
    callbacks = Callbacks(on_progress=progress)
    async with MultiServerMCPClient({"jobs": stdio_config()}, callbacks=callbacks) as client:
        tools = await client.get_tools(include="sleep_progress")
        model = MODEL.bind_tools(tools)

        async def answer(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder: Any = StateGraph(MessagesState)
        builder.add_node("answer", answer)
        builder.add_node("tools", ToolNode(tools))
        builder.add_edge(START, "answer")
        builder.add_conditional_edges("answer", tools_condition)
        builder.add_edge("tools", "answer")
        graph = builder.compile()

        question = {"messages": [{"role": "user", "content": "Do both steps."}]}
        async for mode, part in graph.astream(question, stream_mode=["updates", "custom"]):
            if mode == "custom":
                print("progress:", part)
            else:
                for node, update in part.items():
                    print(f"{node}:", update["messages"][-1].text or "calls a tool")


asyncio.run(main())
