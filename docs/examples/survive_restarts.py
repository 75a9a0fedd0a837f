import asyncio

from plait import ConnectError, Toolbox
from plait.testing import eventually, fault_server


async def add(box: Toolbox, a: int, b: int) -> str:
    """Call the shop."""
    try:
        return (await box.call("shop", "add", {"a": a, "b": b})).text
    except ConnectError as down:  # nothing was sent
        return f"closed: {down}"


async def main() -> None:
    with fault_server("http", legacy_only=True) as server:
        async with Toolbox({"shop": {"url": server.url, "connect_timeout": 60}}) as box:
            print(await add(box, 1, 1))

            await asyncio.to_thread(server.restart)  # a deploy
            print(await add(box, 2, 2))

            await asyncio.to_thread(server.kill)  # an outage
            asking = asyncio.create_task(add(box, 3, 3))
            await eventually(lambda: box.status()["shop"].state == "waiting", timeout_seconds=15)
            await asyncio.to_thread(server.start)
            print(await asking)

            shop = box.status()["shop"]
            print(f"{shop.state}, {shop.sessions} sessions")


asyncio.run(main())
