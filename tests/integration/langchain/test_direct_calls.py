"""Direct calls: the same outcome as the long way, and nothing runs twice when one fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import ToolMessage
from mcp.server import MCPServer

import plait
from plait import MultiServerMCPClient, Toolbox, testing
from plait.client import run_budget, run_deadline
from plait.client.calls.executor import ToolExecutor
from plait.client.transports.http import HttpSender
from plait.client.transports.stdio import StdioSender
from plait.errors import PlaitError
from plait.telemetry.observer import CallTool, Operation
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


Opened = tuple[MultiServerMCPClient, dict[str, Any]]


@asynccontextmanager
async def opened(
    *names: str, options: dict[str, Any] | None = None, **faults: Any
) -> AsyncGenerator[Opened]:
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
    "fail": {"text": "no"},
    "sleep_progress": {"steps": 1, "delay": 0},
    "protocol_error": {"code": -32000},
}


@pytest.fixture
def blocking() -> Generator[Opened]:
    """A client whose connections are in a loop of their own; its tool `echo` was called."""
    servers: Any = {"server": stdio_config()}
    with MultiServerMCPClient(servers) as client:
        tools: dict[str, Any] = {tool.name: tool for tool in client.get_tools_blocking()}
        tools["echo"].invoke(_WARM["echo"])
        yield client, tools


@pytest.mark.parametrize(
    "faults",
    [
        {"legacy_only": True},
        {"modern_only": True},
        {"noise": ["banner", "half", "split", "bom"]},
    ],
    ids=["legacy", "modern", "noise"],
)
async def test_the_second_call_of_a_tool_is_direct(faults: Any, long_way: list[str]) -> None:
    async with opened("echo", **faults) as (client, tools):
        long_way.clear()
        message = await tools["echo"].ainvoke(call("echo", text="ünï"))
        for number in range(10):
            assert await tools["echo"].ainvoke({"text": f"{number}"}) == f"{number}"
        result = await client.toolbox.call("server", "echo", {"text": "there"})

        assert isinstance(message, ToolMessage)
        assert (message.content, message.status, message.tool_call_id) == ("ünï", "success", "1")
        assert message.artifact["server"] == "server"
        assert result.text == "there"
        texts = [f"text {number}" for number in range(64)]
        answers = await asyncio.gather(*(tools["echo"].ainvoke({"text": text}) for text in texts))
        assert list(answers) == texts
        assert long_way == []


async def test_the_message_is_that_of_the_long_way() -> None:
    texts = ["x", "", " \n", "hid\u200bden", "\u202eover"]
    samples = [*(("echo", text) for text in texts), ("fail", "sorry")]
    async with opened("echo", "fail") as (_, tools):
        for name, text in samples:
            direct = await tools[name].ainvoke(call(name, text=text))
            with run_deadline(60):
                other = await tools[name].ainvoke(call(name, text=text))
            assert direct.artifact.pop("seconds") > 0
            assert other.artifact.pop("seconds") > 0
            assert direct == other


class Listener(AsyncCallbackHandler):
    """Hears of the ends of tools."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    async def on_tool_end(self, output: object, **_rest: object) -> None:
        self.ended.append(output)


async def test_a_call_with_limits_or_odd_arguments_takes_the_long_way(long_way: list[str]) -> None:
    async with opened("echo") as (_, tools):
        echo, listener = tools["echo"], Listener()
        long_way.clear()
        await echo.ainvoke(call("echo", text="x"), {"callbacks": [listener]})
        assert (len(listener.ended), long_way) == (1, [])
        with run_deadline(5):
            await echo.ainvoke(call("echo", text="1"))
        with run_budget(5):
            await echo.ainvoke(call("echo", text="2"))
        await echo.ainvoke(call("echo", text="3"), {"configurable": {"timeout": 3}})
        await echo.ainvoke(call("echo", text=4))  # to be repaired or refused

        assert long_way == ["echo"] * 4


ALLOW: dict[str, Any] = {"tool": "echo", "when": {"text": ["x*"]}, "do": "allow"}
SEEN: list[str] = []


async def intercept(request: Any, handler: Any) -> Any:
    SEEN.append("interceptor")
    return await handler(request)


@pytest.mark.parametrize(
    ("options", "size", "is_direct"),
    [
        ({"policy": {"default": "ask"}, "on_approval": lambda request: True}, 1, False),
        ({"call_budget": 10}, 1, False),
        ({"on_progress": lambda *seen: None}, 1, False),
        ({"server": {"max_concurrency": 1}}, 1, False),
        ({"policy": {"rules": [ALLOW], "default": "deny"}}, 1, True),
        ({"policy": {"rules": [ALLOW]}}, 200_000, False),  # to decide may take long
        (
            {
                "result_budget": 1000,
                "tool_interceptors": [intercept],
                "before_tool_call": lambda *_: SEEN.append("hook"),
            },
            1,
            True,
        ),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else None,
)
async def test_options_that_concern_the_call_need_the_long_way_and_others_do_not(
    options: dict[str, Any], size: int, is_direct: bool, long_way: list[str]
) -> None:
    async with opened(options=options) as (_, tools):
        await tools["echo"].ainvoke({"text": "x"})
        long_way.clear()
        SEEN.clear()
        assert await tools["echo"].ainvoke({"text": "x" * size}) == "x" * size
        assert long_way == ([] if is_direct else ["echo"])
        assert (["hook", "interceptor"] if "before_tool_call" in options else []) == SEEN
        if options.get("policy", {}).get("default") == "deny":
            assert "denied" in await tools["echo"].ainvoke({"text": "other"})


async def test_a_killed_server_is_healed_and_a_call_that_was_not_read_is_made_again(
    long_way: list[str],
) -> None:
    async with opened("pid", "echo", options={"server": testing.stdio_config()}) as (client, tools):
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
    async with opened(state_dir=tmp_path) as (_, tools):
        first = await tools["pay_and_die"].ainvoke(call("pay_and_die", amount=1))
        assert first.status == "error"
        await tools["pay"].ainvoke(call("pay", amount=2))
        second = await tools["pay_and_die"].ainvoke(call("pay_and_die", amount=3))

        assert "not known whether the call took effect" in second.content
        assert StateDir(tmp_path).ledger() == ["1", "2", "3"]


async def cancelled_calls(tools: dict[str, Any], count: int) -> None:
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
            await eventually(lambda: client.toolbox.status()["server"].in_flight == 1)
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
        await eventually(lambda: client.status()["server"].in_flight == 5)
        await client.aclose()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert all("closed" in str(outcome) for outcome in outcomes), outcomes


async def test_a_session_that_is_replaced_waits_for_its_direct_calls(long_way: list[str]) -> None:
    async with opened("slow", "pid") as (client, tools):
        long_way.clear()
        task = asyncio.create_task(tools["slow"].ainvoke({"seconds": 0.5}))
        await eventually(lambda: client.status()["server"].in_flight == 1)
        before = await tools["pid"].ainvoke({})
        await client.toolbox.reconnect("server")
        after = await tools["pid"].ainvoke({})

        assert await task
        assert before != after
        assert long_way == ["pid"]


def test_calls_from_threads_and_blocking_calls_are_direct(
    blocking: Opened, long_way: list[str]
) -> None:
    echo = blocking[1]["echo"]
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
        f"{kind}{number} {turn}" for kind in ("", "a") for number in range(4) for turn in range(20)
    )
    assert long_way == []


def test_a_blocking_call_in_a_loop_is_written_while_other_calls_wait(blocking: Opened) -> None:
    client, tools = blocking

    async def in_a_loop() -> str:
        waiting = asyncio.create_task(tools["hang"].ainvoke({}))
        await eventually(lambda: client.status()["server"].in_flight == 1)
        text = tools["echo"].invoke({"text": "blocking"})
        waiting.cancel()
        return text

    assert asyncio.run(in_a_loop()) == "blocking"


async def test_a_blocking_call_in_the_loop_of_the_connections_is_refused() -> None:
    async with opened("echo") as (_, tools):
        with pytest.raises(PlaitError, match="would stop the event loop"):
            tools["echo"].invoke({"text": "x"})


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


class Log:
    """Notes the start and the end of each attempt."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def around(self, operation: Operation) -> Generator[None]:
        if not isinstance(operation, CallTool):
            yield
            return
        self.lines.append(f"{operation.tool} {operation.attempt}")
        try:
            yield
        except BaseException as error:
            self.lines.append(type(error).__name__)
            raise
        else:
            self.lines.append("ok")


@pytest.fixture
def direct_sends(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request of a tool call was sent directly."""
    sent: list[bool] = []
    send = StdioSender.send

    def noting(sender: StdioSender, body: bytes, request: Any) -> None:
        if getattr(request, "method", "") == "tools/call":
            sent.append(bool(getattr(request, "direct", False)))
        send(sender, body, request)

    monkeypatch.setattr(StdioSender, "send", noting)
    return sent


async def test_observers_see_each_attempt_once_and_its_end(
    direct_sends: list[bool], tmp_path: Path
) -> None:
    log = Log()
    async with opened(options={"observers": [log]}, state_dir=tmp_path) as (client, tools):
        for _ in range(3):
            await client.toolbox.call("server", "pay", {"amount": 1})
        assert direct_sends[-1]
        assert log.lines == ["pay 1", "ok"] * 3

        log.lines.clear()
        calling = asyncio.create_task(tools["hang"].ainvoke({}))
        await eventually(lambda: "hang 1" in log.lines)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert log.lines == ["hang 1", "CancelledError"]

        log.lines.clear()
        assert (await client.toolbox.call("server", "get_and_die", {"key": "a"})).attempts == 2
        assert log.lines[0] == "get_and_die 1"
        assert log.lines[2:] == ["get_and_die 2", "ok"]

        log.lines.clear()
        with pytest.raises(PlaitError):
            await client.toolbox.call("server", "pay_and_die", {"amount": 2})
        assert log.lines == ["pay_and_die 1", "OutcomeUnknownError"]


USER: ContextVar[str] = ContextVar("user", default="nobody")


async def test_requests_for_another_loop_keep_the_context_of_their_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[str, bool, bool]] = []
    send = HttpSender.send

    def noting(sender: HttpSender, body: bytes, request: Any) -> None:
        if request.method == "tools/call":
            user = USER.get()
            sent.append((user, f'"{user}"'.encode() in body, request.direct))
        send(sender, body, request)

    with fault_server() as server:
        client = MultiServerMCPClient({"server": {"url": server.url}})
        (echo,) = await client.get_tools(include="echo")
        for _ in range(2):
            await echo.ainvoke({"text": "warm"})
        monkeypatch.setattr(HttpSender, "send", noting)

        async def call_as(user: str) -> str:
            USER.set(user)
            return await echo.ainvoke({"text": user})

        users = [f"user {number}" for number in range(20)]
        assert await asyncio.gather(*(call_as(user) for user in users)) == users
        await client.aclose()

    assert sorted(sent) == sorted((user, True, True) for user in users)
