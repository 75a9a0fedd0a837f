import asyncio
import os
import signal
from pathlib import Path

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call

MODEL = ScriptedChatModel(
    [
        [tool_call("add_numbers", a=3, b=4)],
        [tool_call("add_note", text="buy 7 apples")],
        "I noted that you need 7 apples.",
        [tool_call("read_notes"), tool_call("burn_notes")],
        "Your note is still there: buy 7 apples.",
    ]
)


async def main() -> None:
    async with MultiServerMCPClient("mcp.json") as client:
        agent = create_agent(MODEL, await client.get_tools(), checkpointer=InMemorySaver())

        async def ask(question: str) -> None:
            state = await agent.ainvoke(
                {"messages": [{"role": "user", "content": question}]},
                {"configurable": {"thread_id": "1"}},
            )
            latest = max(
                n for n, message in enumerate(state["messages"]) if message.type == "human"
            )
            for message in state["messages"][latest:]:
                if message.text:
                    print(f"{message.type}: {message.text.strip()}")

        await ask("I need 3 red and 4 green apples. Note the sum.")

        if pid := client.status()["notes"].pid:
            os.kill(pid, signal.SIGKILL)  # the server crashes

        await ask("What did I want to buy?")
        print(client.status().summary)


Path("notes.txt").unlink(missing_ok=True)  # begin without the notes of step 4
asyncio.run(main())
