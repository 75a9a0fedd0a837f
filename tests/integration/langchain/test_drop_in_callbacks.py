"""Callbacks: what servers say while they work, and what they ask the user."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import BaseTool
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams

from plait import CallbackContext, Callbacks, MultiServerMCPClient, load_mcp_tools
from plait.testing import eventually
from tests.servers.langchain_servers import stdio_entry, time_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Answer = dict[str, Any]

ACCEPTED: Answer = {"action": "accept", "content": {"email": "ada@example.com", "age": 36}}
ANSWERS = [
    (ACCEPTED, "Ada is 36: ada@example.com"),
    ({"action": "decline"}, "Ada: decline"),
    ({"action": "cancel"}, "Ada: cancel"),
]


class Notebook:
    """Writes down everything it is told."""

    def __init__(self, answer: Answer = ACCEPTED) -> None:
        self.logs: list[tuple[str, Any, CallbackContext]] = []
        self.progress: list[tuple[float, float | None, str | None, CallbackContext]] = []
        self.questions: list[tuple[str, CallbackContext]] = []
        self._answer = answer

    async def log(self, params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        self.logs.append((params.level, params.data, context))

    async def note(
        self, progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        self.progress.append((progress, total, message, context))

    async def answer(
        self,
        mcp_context: ClientRequestContext,
        params: ElicitRequestParams,
        context: CallbackContext,
    ) -> ElicitResult:
        self.questions.append((params.message, context))
        return ElicitResult(**self._answer)


async def tool_of(client: MultiServerMCPClient, name: str) -> BaseTool:
    return next(tool for tool in await client.get_tools() if tool.name == name)


async def test_callbacks_are_bound_to_a_context() -> None:
    notes = Notebook()
    callbacks = Callbacks(on_logging_message=notes.log, on_progress=notes.note)
    context = CallbackContext(server_name="time", tool_name="work")
    bound = callbacks.to_mcp_format(context=context)

    assert bound.logging_callback is not None
    await bound.logging_callback(LoggingMessageNotificationParams(level="info", data="hello"))
    assert bound.progress_callback is not None
    await bound.progress_callback(0.75, 1.0, "nearly")

    assert notes.logs == [("info", "hello", context)]
    assert notes.progress == [(0.75, 1.0, "nearly", context)]
    assert bound.elicitation_callback is None
    assert Callbacks().to_mcp_format(context=context).logging_callback is None


@pytest.mark.parametrize("kind", ["in-process", "stdio"])
async def test_progress_and_log_messages_of_a_call_are_told(kind: str) -> None:
    notes = Notebook()
    callbacks = Callbacks(on_progress=notes.note, on_logging_message=notes.log)
    server: Any = time_server() if kind == "in-process" else stdio_entry("time")
    context = CallbackContext(server_name="clock", tool_name="work")
    async with MultiServerMCPClient({"clock": server}, callbacks=callbacks) as client:
        work = await tool_of(client, "work")
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
        await eventually(lambda: len(notes.progress) == len(notes.logs) == 3)

    assert notes.progress == [(step, 3, f"tea: step {step}", context) for step in (1, 2, 3)]
    assert notes.logs == [
        ("info", "tea 0", context),
        ("debug", "tea 1", context),
        ("warning", "tea 2", context),
    ]


async def test_callbacks_of_tools_of_a_connection_are_told() -> None:
    notes = Notebook()
    tools = await load_mcp_tools(
        None,
        connection=stdio_entry("time"),
        callbacks=Callbacks(on_progress=notes.note, on_logging_message=notes.log),
        server_name="clock",
    )
    work = next(tool for tool in tools if tool.name == "work")
    assert await work.ainvoke({"task": "tea"}) == "tea is done"
    await eventually(lambda: len(notes.progress) == len(notes.logs) == 3)

    assert {context.tool_name for *_, context in notes.progress} == {"work"}
    assert {context.server_name for *_, context in notes.logs} == {"clock"}


async def test_progress_of_a_tool_over_a_session_of_the_client_is_told() -> None:
    notes = Notebook()
    callbacks = Callbacks(on_progress=notes.note, on_logging_message=notes.log)
    client = MultiServerMCPClient({"clock": time_server()}, callbacks=callbacks)
    async with client, client.session("clock") as session:
        tools = await load_mcp_tools(session, callbacks=callbacks, server_name="clock")
        work = next(tool for tool in tools if tool.name == "work")
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
        await eventually(lambda: len(notes.progress) == 3)


async def test_a_callback_that_fails_does_not_hurt_the_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        raise LookupError("no notebook")

    callbacks = Callbacks(on_progress=broken)
    async with MultiServerMCPClient({"clock": time_server()}, callbacks=callbacks) as client:
        work = await tool_of(client, "work")
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
        await eventually(lambda: "no notebook" in caplog.text)


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
@pytest.mark.parametrize(("answer", "text"), ANSWERS, ids=["accept", "decline", "cancel"])
async def test_a_question_of_a_server_is_answered(answer: Answer, text: str, protocol: str) -> None:
    notes = Notebook(answer)
    server = {"server": time_server(), "protocol": protocol}
    callbacks = Callbacks(on_elicitation=notes.answer)
    async with MultiServerMCPClient({"clock": server}, callbacks=callbacks) as client:
        create = await tool_of(client, "create_profile")
        assert await create.ainvoke({"name": "Ada"}) == text

    context = CallbackContext(server_name="clock", tool_name="create_profile")
    assert notes.questions == [("Who is Ada?", context)]


async def test_a_question_in_a_session_of_the_client_is_answered() -> None:
    notes = Notebook()
    callbacks = Callbacks(on_elicitation=notes.answer)
    client = MultiServerMCPClient({"clock": time_server()}, callbacks=callbacks)
    async with client, client.session("clock") as session:
        tools = await load_mcp_tools(session)
        create = next(tool for tool in tools if tool.name == "create_profile")
        assert await create.ainvoke({"name": "Ada"}) == "Ada is 36: ada@example.com"

    assert [context.server_name for _, context in notes.questions] == ["clock"]
