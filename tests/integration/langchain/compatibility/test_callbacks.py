"""Callbacks: what servers say while they work, and what they ask the user."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams

from plait import CallbackContext, Callbacks, MultiServerMCPClient, create_session, load_mcp_tools
from plait.testing import ServerProcess, eventually
from tests.integration.langchain.compatibility.common import Json, by_name, tools_of
from tests.servers.langchain_servers import stdio_entry, time_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ACCEPTED: Json = {"action": "accept", "content": {"email": "ada@example.com", "age": 36}}


class Notebook:
    """Writes down everything it is told."""

    def __init__(self, answer: Json = ACCEPTED) -> None:
        self.logs: list[tuple[str, Any, CallbackContext]] = []
        self.progress: list[tuple[float, float | None, str | None, CallbackContext]] = []
        self.questions: list[tuple[str, CallbackContext]] = []
        self._answer = answer
        self.callbacks = Callbacks(on_logging_message=self.log, on_progress=self.note)

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

    async def has_all_of(self, work: Any) -> None:
        """Call the tool `work` of the server `clock`, and wait until all it says is here."""
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
        await eventually(lambda: len(self.progress) == len(self.logs) == 3)
        context = CallbackContext(server_name="clock", tool_name="work")
        assert self.progress == [(step, 3, f"tea: step {step}", context) for step in (1, 2, 3)]
        assert self.logs == [
            ("info", "tea 0", context),
            ("debug", "tea 1", context),
            ("warning", "tea 2", context),
        ]


async def test_callbacks_are_bound_to_a_context() -> None:
    notes = Notebook()
    context = CallbackContext(server_name="time", tool_name="work")
    bound = notes.callbacks.to_mcp_format(context=context)

    assert bound.logging_callback is not None
    for data in ("hello", {"message": "a line"}):
        await bound.logging_callback(LoggingMessageNotificationParams(level="info", data=data))
    assert bound.progress_callback is not None
    await bound.progress_callback(0.75, 1.0, "nearly")

    assert notes.logs == [("info", "hello", context), ("info", {"message": "a line"}, context)]
    assert notes.progress == [(0.75, 1.0, "nearly", context)]
    assert bound.elicitation_callback is None
    assert Callbacks().to_mcp_format(context=context).logging_callback is None


@pytest.mark.parametrize("wire", ["in-process", "stdio", "http"], indirect=True)
async def test_progress_and_log_messages_of_a_call_are_told(wire: Any) -> None:
    notes = Notebook()
    async with MultiServerMCPClient({"clock": wire}, callbacks=notes.callbacks) as client:
        await notes.has_all_of((await tools_of(client, "clock"))["work"])


async def test_callbacks_of_tools_of_a_connection_are_told() -> None:
    notes = Notebook()
    tools = await load_mcp_tools(
        None, connection=stdio_entry("time"), callbacks=notes.callbacks, server_name="clock"
    )
    await notes.has_all_of(by_name(tools)["work"])


async def test_progress_of_a_tool_over_a_session_of_the_client_is_told() -> None:
    notes = Notebook()
    client = MultiServerMCPClient({"clock": time_server()}, callbacks=notes.callbacks)
    async with client, client.session("clock") as session:
        tools = await load_mcp_tools(session, callbacks=notes.callbacks, server_name="clock")
        assert await by_name(tools)["work"].ainvoke({"task": "tea"}) == "tea is done"
        await eventually(lambda: len(notes.progress) == 3)


async def test_session_kwargs_may_have_a_callback_that_the_client_has_too() -> None:
    heard: list[Any] = []

    async def hear(params: Any) -> None:
        heard.append(params.data)

    entry: Json = {**stdio_entry("time"), "session_kwargs": {"logging_callback": hear}}
    async with create_session(entry) as session:
        await session.initialize()
        work = by_name(await load_mcp_tools(session))["work"]
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
    assert "tea 0" in heard


async def test_a_callback_that_fails_does_not_hurt_the_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        raise LookupError("no notebook")

    callbacks = Callbacks(on_progress=broken)
    async with MultiServerMCPClient({"clock": time_server()}, callbacks=callbacks) as client:
        work = (await tools_of(client))["work"]
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
        await eventually(lambda: "no notebook" in caplog.text)


@pytest.mark.parametrize(
    ("answer", "before_the_call", "within_the_call"),
    [
        (ACCEPTED, "Ada is 36: ada@example.com", "accept: ada@example.com, 36 (1)"),
        ({"action": "decline"}, "Ada: decline", "decline: - (1)"),
        ({"action": "cancel"}, "Ada: cancel", "cancel: - (1)"),
    ],
    ids=["accept", "decline", "cancel"],
)
@pytest.mark.parametrize("server", ["legacy", "auto", "desk"])
async def test_a_question_of_a_server_is_answered_and_the_call_runs_once(
    answer: Json,
    before_the_call: str,
    within_the_call: str,
    server: str,
    servers: dict[str, ServerProcess],
) -> None:
    notes = Notebook(answer)
    connection: Json = {"server": time_server(), "protocol": server}
    tool, name, question, text = "create_profile", "Ada", "Who is Ada?", before_the_call
    if server == "desk":
        connection = {"transport": "http", "url": servers["desk"].url}
        tool, name, text = "register", f"Visitor to {answer['action']}", within_the_call
        question = f"Details of {name}?"
    callbacks = Callbacks(on_elicitation=notes.answer)
    async with MultiServerMCPClient({"mine": connection}, callbacks=callbacks) as client:
        assert await (await tools_of(client))[tool].ainvoke({"name": name}) == text

    context = CallbackContext(server_name="mine", tool_name=tool)
    assert notes.questions == [(question, context)]


async def test_a_question_in_a_session_of_the_client_is_answered() -> None:
    notes = Notebook()
    callbacks = Callbacks(on_elicitation=notes.answer)
    client = MultiServerMCPClient({"clock": time_server()}, callbacks=callbacks)
    async with client, client.session("clock") as session:
        create = by_name(await load_mcp_tools(session))["create_profile"]
        assert await create.ainvoke({"name": "Ada"}) == "Ada is 36: ada@example.com"

    assert [context.server_name for _, context in notes.questions] == ["clock"]
