"""Observers of a tool's run get the same events from a direct call as from LangChain's own run."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool

from plait import MultiServerMCPClient
from plait.client.calls.executor import ToolExecutor
from plait.errors import PlaitError
from plait.langchain.tools.tool import MCPTool
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

Event = tuple[str, object, dict[str, object]]
RUN = uuid.uuid4()
seen_by_handler: ContextVar[str] = ContextVar("seen_by_handler", default="default")


def _shown(value: object) -> object:
    """Leave out what differs from call to call."""
    if isinstance(value, ToolMessage):
        artifact = {**value.artifact, "seconds": 0}
        return (value.content, value.status, value.name, value.tool_call_id, artifact)
    return repr(value) if isinstance(value, BaseException) else value


class Blocking(BaseCallbackHandler):
    """Records all events of tools."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = {name: kwargs[name] for name in ("run_id", "parent_run_id")}
        facts = {name: value for name, value in kwargs.items() if name not in ids}
        facts |= {"run": ids["run_id"] == RUN, "inside": ids["parent_run_id"] is not None}
        facts["context"] = seen_by_handler.get()
        self.events.append((event, [_shown(value) for value in args], facts))

    def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        self.record("start", args, kwargs)

    def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        self.record("end", args, kwargs)

    def on_tool_error(self, *args: Any, **kwargs: Any) -> None:
        self.record("error", args, kwargs)


class Waiting(AsyncCallbackHandler):
    """Records all events of tools, in the loop."""

    def __init__(self) -> None:
        self.blocking = Blocking()

    async def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        self.blocking.record("start", args, kwargs)

    async def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        self.blocking.record("end", args, kwargs)

    async def on_tool_error(self, *args: Any, **kwargs: Any) -> None:
        self.blocking.record("error", args, kwargs)


Work = Callable[[dict[str, BaseTool], dict[str, Any]], Awaitable[Any]]


def _call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "tool_call", "id": "1", "name": name, "args": arguments}


async def _in_a_chain(tools: dict[str, BaseTool], config: dict[str, Any]) -> Any:
    async def inner(_: object) -> Any:
        return await tools["echo"].ainvoke(_call("echo", text="x"))

    del config["run_id"]
    return await RunnableLambda(inner).ainvoke({}, config)  # pyright: ignore[reportArgumentType]


async def _with_a_timeout(tools: dict[str, BaseTool], config: dict[str, Any]) -> Any:
    config["configurable"] = {"timeout": 0.2}
    return await tools["hang"].ainvoke(_call("hang"), config)  # pyright: ignore[reportArgumentType]


def _plain(name: str, *, as_call: bool = True, **arguments: object) -> Work:
    async def work(tools: dict[str, BaseTool], config: dict[str, Any]) -> Any:
        request = _call(name, **arguments) if as_call else arguments
        return await tools[name].ainvoke(request, config)  # pyright: ignore[reportArgumentType]

    return work


CALLS: dict[str, Work] = {
    "a text": _plain("echo", text="x"),
    "a text without a call id": _plain("echo", as_call=False, text="x"),
    "an injected argument": _plain("echo", text="x", plait_runtime=None, run_manager=1),
    "a failure": _plain("fail", text="no"),
    "wrong arguments": _plain("echo", text=[1]),
    "an error of the protocol": _plain("protocol_error", code=-31999),
    "in a chain": _in_a_chain,
    "a timeout": _with_a_timeout,
}


@pytest.mark.parametrize("handled", [True, False], ids=["errors are results", "errors are raised"])
async def test_all_events_are_those_of_langchain(
    monkeypatch: pytest.MonkeyPatch, handled: bool
) -> None:
    server: Any = stdio_config()
    outcomes: dict[bool, dict[str, object]] = {}
    async with MultiServerMCPClient({"server": server}, handle_tool_errors=handled) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        await tools["echo"].ainvoke({"text": "its schema is compiled now"})
        for by_langchain in (False, True):
            outcomes[by_langchain] = {}
            if by_langchain:
                monkeypatch.setattr(MCPTool, "arun", BaseTool.arun)
            for name, work in CALLS.items():
                blocking, waiting = Blocking(), Waiting()
                token = seen_by_handler.set("of the caller")
                handlers = [blocking, waiting]
                config: Any = {"callbacks": handlers, "tags": ["t"], "metadata": {"m": 1}}
                try:
                    outcome = _shown(await work(tools, {**config, "run_name": "r", "run_id": RUN}))
                except (PlaitError, ValueError) as error:
                    outcome = repr(error)
                seen_by_handler.reset(token)
                outcomes[by_langchain][name] = (outcome, blocking.events, waiting.blocking.events)

    for name in CALLS:
        assert outcomes[False][name] == outcomes[True][name], name
        events: Any = outcomes[False][name]
        assert events[1][0][0] == "start"
        assert len(events[1]) == len(events[2]) == 2


async def test_a_handler_that_refuses_the_start_keeps_the_tool_from_running() -> None:
    class Refusing(BaseCallbackHandler):
        raise_error = True

        def on_tool_start(self, *_args: Any, **_kwargs: Any) -> None:
            raise PermissionError("not now")

    server: Any = stdio_config()
    async with MultiServerMCPClient({"server": server}) as client:
        (count,) = await client.get_tools(include="counter")
        first = int(await count.ainvoke({}))
        with pytest.raises(PermissionError):
            await count.ainvoke({}, {"callbacks": [Refusing()]})

        assert int(await count.ainvoke({})) == first + 1


async def test_an_observed_call_that_cannot_be_direct_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[object] = []
    plain = ToolExecutor.run_attempts

    async def run(self: ToolExecutor, one: Any, first: Any = None) -> Any:
        taken.append(first)
        return await plain(self, one, first)

    monkeypatch.setattr(ToolExecutor, "run_attempts", run)
    server: Any = stdio_config()
    async with MultiServerMCPClient({"server": server}) as client:
        (failing,) = await client.get_tools(include="protocol_error")
        request = _call("protocol_error", code=-31999)
        await failing.ainvoke(request)  # its schema is compiled now
        taken.clear()
        blocking = Blocking()
        await failing.ainvoke(request, {"callbacks": [blocking]})

    assert [event for event, _, _ in blocking.events] == ["start", "end"]
    assert len(taken) == 1
    assert taken[0] is not None
