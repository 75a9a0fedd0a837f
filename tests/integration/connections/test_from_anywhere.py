"""One client, used from any loop, any thread, and without a loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp.server import MCPServer

from plait import BlockingCallError, Toolbox
from plait.testing import eventually
from tests.nursery import stdio_config

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def box() -> Generator[Toolbox]:
    with Toolbox({"server": stdio_config()}) as box:
        box.tools_blocking()  # starts the server, which all tests share
        yield box


def test_a_program_without_a_loop_calls_tools(box: Toolbox) -> None:
    assert "echo" in {tool.wire_name for tool in box.tools_blocking()}
    assert box.call_blocking("server", "echo", {"text": "sync"}).text == "sync"
    assert box.ready_blocking()["server"].state == "ready"


def test_one_client_serves_one_loop_after_the_other(box: Toolbox) -> None:
    pids = {
        asyncio.run(box.call("server", "pid")).text,
        asyncio.run(box.call("server", "pid")).text,
        box.call_blocking("server", "pid").text,
    }
    assert len(pids) == 1


def test_a_pool_of_threads_shares_one_session(box: Toolbox) -> None:
    def call(n: int) -> str:
        return box.call_blocking("server", "echo", {"text": str(n)}).text

    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(call, range(100))) == [str(n) for n in range(100)]
    assert box.status()["server"].sessions == 1


def test_a_blocking_call_inside_a_loop_that_does_not_own_the_connections_works(
    box: Toolbox,
) -> None:
    async def main() -> str:
        return box.call_blocking("server", "echo", {"text": "nested"}).text

    assert asyncio.run(main()) == "nested"


def test_a_blocking_call_on_the_owning_loop_fails_at_once_and_says_what_to_do() -> None:
    async def main() -> None:
        async with Toolbox({"server": MCPServer("empty", log_level="ERROR")}) as box:
            await box.tools()
            began = time.monotonic()
            with pytest.raises(BlockingCallError, match="await"):
                box.call_blocking("server", "echo")
            assert time.monotonic() - began < 1

    asyncio.run(main())


def test_a_call_from_another_loop_reaches_connections_in_this_one() -> None:
    async def main() -> None:
        async with Toolbox({"server": stdio_config()}) as box:
            await box.tools()

            def elsewhere() -> str:
                return asyncio.run(box.call("server", "echo", {"text": "over there"})).text

            assert await asyncio.to_thread(elsewhere) == "over there"
            blocking = box.call_blocking
            assert (await asyncio.to_thread(blocking, "server", "echo", {"text": "x"})).text == "x"

    asyncio.run(main())


def test_progress_arrives_in_the_loop_and_the_context_of_the_caller(box: Toolbox) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")

    async def main() -> list[tuple[str, bool]]:
        who.set("the caller")
        here = threading.get_ident()
        seen: list[tuple[str, bool]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append((who.get(), threading.get_ident() == here))

        arguments = {"steps": 3, "delay": 0.01}
        await box.call("server", "sleep_progress", arguments, on_progress=on_progress)
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == [("the caller", True)] * 3


def test_a_cancelled_caller_in_another_loop_cancels_the_call(box: Toolbox) -> None:
    async def main() -> None:
        before = int((await box.call("server", "cancelled_calls")).text)
        calling = asyncio.create_task(box.call("server", "hang"))
        await eventually(lambda: box.status()["server"].in_flight == 1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        async def heard() -> bool:
            return int((await box.call("server", "cancelled_calls")).text) == before + 1

        await eventually(heard)

    asyncio.run(main())
