"""Direct calls: the same outcome as the long way, and nothing runs twice when one fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from mcp.server import MCPServer

import plait
from plait import MultiServerMCPClient, Toolbox, testing
from plait.client import run_budget, run_deadline
from plait.client.calls.executor import ToolExecutor
from plait.errors import PlaitError
from plait.testing import StateDir, eventually
from tests.nursery import fault_server, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "tool_call", "id": "1", "name": name, "args": arguments}


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools whose calls took the long way."""
    taken: list[str] = []
    plain = ToolExecutor.run_attempts

    async def run(self: ToolExecutor, one: Any, first: Any = None) -> Any:
        taken.append(one.tool)
        return await plain(self, one, first)

    monkeypatch.setattr(ToolExecutor, "run_attempts", run)
    return taken


@asynccontextmanager
async def opened(
    *names: str, options: dict[str, Any] | None = None, **faults: Any
) -> AsyncGenerator[tuple[MultiServerMCPClient, dict[str, BaseTool]]]:
    """Yield a client and its tools, each called once, so that its calls can be direct."""
    settings: Any = dict(options or {})
    server: Any = {**stdio_config(**faults), **settings.pop("server", {})}
    async with MultiServerMCPClient({"server": server}, **settings) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        for name in names:
            await tools[name].ainvoke(_WARM[name])
        yield client, tools


_WARM: dict[str, Any] = {
    "echo": {"text": "warm"},
    "pid": {},
    "slow": {"seconds": 0},
    "pay": {"amount": 1},
    "fail": {"text": "no"},
    "sleep_progress": {"steps": 1, "delay": 0},
    "protocol_error": {"code": -32000},
    "pay_and_die": {"amount": 1},
}


@pytest.mark.parametrize("era", ["legacy_only", "modern_only"])
async def test_the_second_call_of_a_tool_is_direct(era: str, long_way: list[str]) -> None:
    faults: Any = {era: True}
    async with opened("echo", **faults) as (client, tools):
        long_way.clear()
        message = await tools["echo"].ainvoke(call("echo", text="ünï"))
        assert await tools["echo"].ainvoke({"text": "hello"}) == "hello"
        result = await client.toolbox.call("server", "echo", {"text": "there"})

        assert isinstance(message, ToolMessage)
        assert message.status == "success"
        assert message.tool_call_id == "1"
        assert message.artifact["server"] == "server"
        assert result.text == "there"
        assert long_way == []


async def test_the_message_is_that_of_the_long_way() -> None:
    samples = [
        ("echo", {"text": "x"}),
        ("echo", {"text": ""}),
        ("echo", {"text": " \n"}),
        ("echo", {"text": "hid\u200bden"}),
        ("echo", {"text": "\u202eover"}),
        ("fail", {"text": "sorry"}),
    ]
    async with opened("echo", "fail") as (_, tools):
        for name, arguments in samples:
            direct = await tools[name].ainvoke(call(name, **arguments))
            with run_deadline(60):
                other = await tools[name].ainvoke(call(name, **arguments))
            assert direct.artifact.pop("seconds") > 0
            assert other.artifact.pop("seconds") > 0
            assert direct == other


async def test_what_needs_more_takes_the_long_way(long_way: list[str]) -> None:
    async with opened("echo") as (_, tools):
        long_way.clear()
        with run_deadline(5):
            await tools["echo"].ainvoke(call("echo", text="1"))
        with run_budget(5):
            await tools["echo"].ainvoke(call("echo", text="2"))
        await tools["echo"].ainvoke(call("echo", text="3"), {"configurable": {"timeout": 3}})
        await tools["echo"].ainvoke(call("echo", text=4))  # to be repaired or refused

        assert long_way == ["echo"] * 4


@pytest.mark.parametrize(
    "options",
    [
        {"policy": {"default": "ask"}, "on_approval": lambda request: True},
        {"call_budget": 10},
        {"on_progress": lambda *seen: None},
        {"server": {"max_concurrency": 1}},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_options_for_calls_need_the_long_way(
    options: dict[str, Any], long_way: list[str]
) -> None:
    async with opened("echo", options=dict(options)) as (_, tools):
        long_way.clear()
        assert await tools["echo"].ainvoke({"text": "x"}) == "x"

        assert long_way == ["echo"]


async def test_the_first_attempt_is_direct_whatever_runs_around_the_call(
    long_way: list[str],
) -> None:
    seen: list[str] = []

    async def intercept(request: Any, handler: Any) -> Any:
        seen.append("interceptor")
        return await handler(request)

    options = {
        "result_budget": 1000,
        "tool_interceptors": [intercept],
        "before_tool_call": lambda *_: seen.append("hook"),
    }
    async with opened("echo", options=options) as (_, tools):
        long_way.clear()
        seen.clear()
        assert await tools["echo"].ainvoke({"text": "x"}) == "x"

        assert long_way == []
        assert seen == ["hook", "interceptor"]


async def test_a_policy_that_allows_the_arguments_is_no_obstacle(long_way: list[str]) -> None:
    policy = {"rules": [{"tool": "echo", "when": {"text": ["ok"]}, "do": "allow"}]}
    server: Any = stdio_config()
    async with MultiServerMCPClient(
        {"server": server}, policy={**policy, "default": "deny"}
    ) as client:
        (echo,) = await client.get_tools(include="echo")
        await echo.ainvoke({"text": "ok"})
        long_way.clear()
        assert await echo.ainvoke({"text": "ok"}) == "ok"
        assert long_way == []
        assert "denied" in await echo.ainvoke({"text": "other"})
        assert long_way == ["echo"]


async def test_rules_about_large_arguments_take_the_long_way(long_way: list[str]) -> None:
    policy: Any = {"rules": [{"tool": "echo", "when": {"text": ["*"]}, "do": "allow"}]}
    server: Any = stdio_config()
    async with MultiServerMCPClient({"server": server}, policy=policy) as client:
        (echo,) = await client.get_tools(include="echo")
        for size in (1, 1, 200_000):
            long_way.clear()
            assert await echo.ainvoke({"text": "x" * size}) == "x" * size
            if size > 1:
                assert long_way == ["echo"]


async def test_a_callback_hears_of_the_call(long_way: list[str]) -> None:
    class Listener(AsyncCallbackHandler):
        ended: list[object]

        async def on_tool_end(self, output: object, **_rest: object) -> None:
            self.ended.append(output)

    listener = Listener()
    listener.ended = []
    async with opened("echo") as (_, tools):
        long_way.clear()
        await tools["echo"].ainvoke(call("echo", text="x"), {"callbacks": [listener]})

    assert len(listener.ended) == 1
    assert long_way == []


async def test_a_killed_server_is_healed_and_a_call_that_was_not_read_is_made_again(
    long_way: list[str],
) -> None:
    async with opened("pid", "echo", options={"server": testing.stdio_config()}) as (
        client,
        tools,
    ):
        for _ in range(3):
            long_way.clear()
            pid = int(await tools["pid"].ainvoke({}))
            assert long_way == []
            os.kill(pid, signal.SIGKILL)
            assert await tools["echo"].ainvoke({"text": "again"}) == "again"
            await tools["pid"].ainvoke({})
            await tools["echo"].ainvoke({"text": "again"})
        assert client.toolbox.status()["server"].sessions == 4


async def test_a_payment_whose_answer_is_lost_is_never_made_twice(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    async with opened(state_dir=tmp_path) as (_, tools):
        first = await tools["pay_and_die"].ainvoke(call("pay_and_die", amount=1))
        assert first.status == "error"
        await tools["pay"].ainvoke(call("pay", amount=2))
        second = await tools["pay_and_die"].ainvoke(call("pay_and_die", amount=3))

        assert "not known whether the call took effect" in second.content
        assert state.ledger() == ["1", "2", "3"]


async def cancelled_calls(tools: dict[str, BaseTool], count: int) -> None:
    """Wait until the server has seen so many calls of `hang` cancelled."""

    async def seen() -> bool:
        return int(await tools["cancelled_calls"].ainvoke({})) == count

    await eventually(seen)


async def test_a_timeout_names_the_limit_and_cancels_the_call_on_the_server(
    long_way: list[str],
) -> None:
    async with opened(options={"server": {"tool_timeouts": {"hang": 0.4}}}) as (client, tools):
        await tools["hang"].ainvoke(call("hang"))
        long_way.clear()
        began = time.monotonic()
        message = await tools["hang"].ainvoke(call("hang"))

        assert 0.3 < time.monotonic() - began < 5
        assert long_way == ["hang"]  # to explain it
        assert message.status == "error"
        assert "no answer within 0.4 s (timeout)" in message.content
        await eventually(lambda: client.toolbox.status()["server"].in_flight == 0)  # a probe
        await cancelled_calls(tools, 2)


async def test_progress_extends_the_time_of_a_direct_call(long_way: list[str]) -> None:
    options = {"server": {"timeout": 0.5}}
    async with opened("sleep_progress", options=options) as (_, tools):
        long_way.clear()
        message = await tools["sleep_progress"].ainvoke(call("sleep_progress", steps=5, delay=0.25))

        assert message.status == "success"
        assert long_way == []


async def test_cancelling_the_caller_cancels_the_call_on_the_server(long_way: list[str]) -> None:
    async with opened() as (client, tools):
        for _ in range(2):
            long_way.clear()
            task = asyncio.create_task(tools["hang"].ainvoke(call("hang")))
            await asyncio.sleep(0.3)
            assert client.toolbox.status()["server"].in_flight == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.toolbox.status()["server"].in_flight == 0
        assert long_way == []
        await cancelled_calls(tools, 2)


async def test_a_call_that_is_cancelled_before_it_is_written_is_never_made(
    long_way: list[str],
) -> None:
    held, released = threading.Event(), threading.Event()
    brake = MCPServer("brake", log_level="ERROR")

    @brake.tool()
    async def hold() -> str:
        held.set()
        released.wait(20)  # the loop of the connections can write nothing meanwhile
        return "released"

    with fault_server() as shop:
        client = MultiServerMCPClient({"shop": {"url": shop.url}, "brake": brake})
        tools = {tool.name: tool for tool in await client.get_tools()}
        await tools["pay"].ainvoke({"amount": 1})
        long_way.clear()
        holding = asyncio.create_task(tools["hold"].ainvoke({}))
        assert await asyncio.to_thread(held.wait, 20)
        paying = asyncio.create_task(tools["pay"].ainvoke({"amount": 2}))
        await asyncio.sleep(0)
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        released.set()
        await holding
        await tools["pay"].ainvoke({"amount": 3})
        await client.aclose()
        paid = shop.state.ledger()

    assert "pay" not in long_way
    assert paid == ["1", "3"]


async def test_an_error_of_the_protocol_is_explained(long_way: list[str]) -> None:
    async with opened("protocol_error") as (_, tools):
        long_way.clear()
        message = await tools["protocol_error"].ainvoke(call("protocol_error", code=-31999))

        assert message.status == "error"
        assert "error -31999" in message.content
        assert long_way == ["protocol_error"]


async def test_a_client_is_closed_while_calls_are_under_way() -> None:
    async with opened("slow") as (client, tools):
        tasks = [asyncio.create_task(tools["slow"].ainvoke({"seconds": 30})) for _ in range(5)]
        await asyncio.sleep(0.2)
        await client.aclose()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert all("closed" in str(outcome) for outcome in outcomes), outcomes


async def test_a_session_that_is_replaced_waits_for_its_direct_calls(long_way: list[str]) -> None:
    async with opened("slow", "pid") as (client, tools):
        long_way.clear()
        task = asyncio.create_task(tools["slow"].ainvoke({"seconds": 0.5}))
        await asyncio.sleep(0.1)
        before = await tools["pid"].ainvoke({})
        await client.toolbox.reconnect("server")
        after = await tools["pid"].ainvoke({})

        assert await task
        assert before != after
        assert long_way == ["pid"]


def test_calls_from_threads_and_blocking_calls_are_direct(long_way: list[str]) -> None:
    server: Any = stdio_config()
    client = MultiServerMCPClient({"server": server})
    try:
        tools = {tool.name: tool for tool in client.get_tools_blocking()}
        echo = tools["echo"]
        echo.invoke({"text": "warm"})
        long_way.clear()
        texts: list[str] = []

        def work(number: int) -> None:
            for turn in range(20):
                texts.append(echo.invoke({"text": f"{number} {turn}"}))
                texts.append(asyncio.run(echo.ainvoke({"text": f"a{number} {turn}"})))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(texts) == sorted(
            f"{kind}{number} {turn}"
            for kind in ("", "a")
            for number in range(4)
            for turn in range(20)
        )
        assert long_way == []
    finally:
        client.close()


def test_a_blocking_call_in_a_loop_is_written_while_other_calls_wait() -> None:
    server: Any = stdio_config()
    client = MultiServerMCPClient({"server": server})
    try:
        tools = {tool.name: tool for tool in client.get_tools_blocking()}
        tools["echo"].invoke({"text": "warm"})

        async def in_a_loop() -> str:
            waiting = asyncio.create_task(tools["hang"].ainvoke({}))
            await eventually(lambda: client.status()["server"].in_flight == 1)
            text = tools["echo"].invoke({"text": "blocking"})
            waiting.cancel()
            return text

        assert asyncio.run(in_a_loop()) == "blocking"
    finally:
        client.close()


async def test_a_blocking_call_in_the_loop_of_the_connections_is_refused() -> None:
    async with opened("echo") as (_, tools):
        with pytest.raises(PlaitError, match="would stop the event loop"):
            tools["echo"].invoke({"text": "x"})


async def test_sixty_four_calls_at_once_each_get_their_own_answer() -> None:
    async with opened("echo") as (_, tools):
        texts = [f"text {number}" for number in range(64)]
        answers = await asyncio.gather(*(tools["echo"].ainvoke({"text": text}) for text in texts))

        assert list(answers) == texts


async def test_noise_around_answers_does_not_lose_them(long_way: list[str]) -> None:
    async with opened("echo", noise=["banner", "half", "split", "bom"]) as (_, tools):
        long_way.clear()
        for number in range(10):
            assert await tools["echo"].ainvoke({"text": f"{number}"}) == f"{number}"

        assert long_way == []


async def test_a_full_pipe_delays_a_direct_call_but_loses_nothing() -> None:
    async with opened("echo") as (_, tools):
        long_text = "x" * 3_000_000
        answers = await asyncio.gather(
            *(tools["echo"].ainvoke({"text": long_text}) for _ in range(3)),
            tools["echo"].ainvoke({"text": "short"}),
        )

        assert [len(answer) for answer in answers] == [3_000_000] * 3 + [5]


async def test_a_changed_filter_and_a_removed_server_hold_for_direct_calls() -> None:
    async with Toolbox({"server": stdio_config()}) as box:
        for _ in range(2):
            await box.call("server", "echo", {"text": "x"})
        await box.remove_server("server")
        with pytest.raises(PlaitError, match="no server is called"):
            await box.call("server", "echo", {"text": "x"})


async def test_a_log_level_set_later_reaches_the_server_with_each_call(long_way: list[str]) -> None:
    async with opened("echo", modern_only=True) as (client, tools):
        long_way.clear()
        await client.set_logging_level("debug")
        await tools["echo"].ainvoke({"text": "x"})

        assert long_way == ["echo"]


@pytest.mark.parametrize(("transport", "most"), [("stdio", 21), ("http", 21)])
async def test_a_direct_call_passes_few_modules(transport: str, most: int) -> None:
    package = str(Path(plait.__file__).parent)
    modules: set[str] = set()

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        if (path := frame.f_code.co_filename).startswith(package):
            modules.add(path.removeprefix(package))

    async with AsyncExitStack() as stack:
        config: Any = stdio_config()
        if transport == "http":
            config = {"url": stack.enter_context(fault_server()).url}
        client = await stack.enter_async_context(MultiServerMCPClient({"server": config}))
        (echo,) = await client.get_tools(include="echo")
        for _ in range(3):
            await echo.ainvoke(call("echo", text="x"))
        sys.setprofile(note)
        try:
            await echo.ainvoke(call("echo", text="x"))
        finally:
            sys.setprofile(None)

    assert len(modules) <= most, "\n".join(sorted(modules))
