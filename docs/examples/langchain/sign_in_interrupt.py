import asyncio
import threading
from typing import Any

import httpx2
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from plait import MultiServerMCPClient, OAuth, Toolbox
from plait.client import FileTokenStore
from plait.testing import ScriptedChatModel, oauth_server, tool_call

LOGINS = FileTokenStore("logins")  # the default is a folder among your own data
SAID: Any = {"messages": [{"role": "user", "content": "Who am I?"}]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


def visit(address: str) -> None:
    """Stand in for the browser, and for the person who says yes in it."""

    def follow() -> None:
        httpx2.get(address, follow_redirects=True)

    threading.Thread(target=follow).start()


async def sign_in(url: str) -> None:
    """Do what `plait auth login notes` does, in another process."""
    login = OAuth(store=LOGINS, on_redirect=visit)
    async with Toolbox({"notes": {"url": url, "auth": login}}) as box:
        await box.tools()


async def main() -> None:
    with oauth_server() as server:
        await sign_in(server.url)
        notes = {"url": server.url, "auth": OAuth(store=LOGINS)}
        async with MultiServerMCPClient({"notes": notes}) as client:
            model = ScriptedChatModel([[tool_call("whoami")], "There you are."])
            agent = create_agent(model, await client.get_tools(), checkpointer=InMemorySaver())

            server.revoke()  # the login is over while the agent runs
            paused = await agent.ainvoke(SAID, THREAD)
            value = paused["__interrupt__"][0].value
            print(value["type"], value["server_name"], value["tool_name"], value["scopes"])
            print("sign in:", value["login"])

            await sign_in(server.url)
            state = await agent.ainvoke(Command(resume=True), THREAD)
            print(state["messages"][2].content)


asyncio.run(main())
