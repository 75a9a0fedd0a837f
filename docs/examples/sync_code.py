import asyncio
from concurrent.futures import ThreadPoolExecutor

from plait import Toolbox
from plait.testing import server_stdio_config


def double(number: int) -> str:
    return box.call_blocking("clock", "add_numbers", {"a": number, "b": number}).text


async def triple(number: int) -> str:
    result = await box.call("clock", "add_numbers", {"a": number, "b": 2 * number})
    return result.text


with Toolbox({"clock": server_stdio_config()}) as box:
    print(*(tool.wire_name for tool in box.tools_blocking()))
    print(double(1))

    with ThreadPoolExecutor(8) as threads:
        print(*threads.map(double, range(10)))

    print(asyncio.run(triple(5)))
    print(asyncio.run(triple(6)))
    print(f"{box.status()['clock'].sessions} session for all of it")
