import asyncio
from concurrent.futures import ThreadPoolExecutor

from plait import MultiServerMCPClient
from plait.testing import server_stdio_config

client = MultiServerMCPClient({"clock": server_stdio_config()})
tools = {tool.name: tool for tool in client.get_tools_blocking()}
add = tools["add_numbers"]


def next_number(number: int) -> str:
    return add.invoke({"a": number, "b": 1})


print(next_number(2))

with ThreadPoolExecutor(8) as threads:
    print(*threads.map(next_number, range(10)))


async def notebook_cell() -> None:
    print("awaited:", await add.ainvoke({"a": 3, "b": 4}))
    print("blocking, in a loop:", add.invoke({"a": 5, "b": 6}))


asyncio.run(notebook_cell())
asyncio.run(notebook_cell())
print(client.status()["clock"].sessions, "session for all of it")
client.close()
