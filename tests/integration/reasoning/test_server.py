"""The server speaks both eras of the protocol, in process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server.lowlevel.server import Server
from sqlalchemy import event, select

from plait.errors import BackendError
from plait.reasoning.backends.port import Completer, Completion, Prompt, ScriptedCompleter
from plait.reasoning.backends.settings import BackendPreference, ReasoningSettings
from plait.reasoning.serving.mcp_server import build_server
from plait.reasoning.serving.service import Service, open_service
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.tables import answers
from plait.reasoning.tool_registry import TOOLS

pytestmark = pytest.mark.anyio

in_both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


@asynccontextmanager
async def opened(
    folder: Path, settings: ReasoningSettings | None = None, completer: Completer | None = None
) -> AsyncGenerator[Service]:
    """Open a service over a file in a folder; without a completer, as the settings say."""
    database = database_from_text(str(folder / "reasoning.db"))
    chosen = settings or ReasoningSettings()
    async with open_service(chosen, database=database, completer=completer) as service:
        yield service


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """Open a service without a model."""
    async with opened(tmp_path) as service:
        yield service


@pytest.fixture
def server(service: Service) -> Server[Any]:
    return build_server(service)


def result_text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


READING = """tree_list reflection_evaluate checkpoint_list got_state session_list session_get
    session_search session_export"""


@in_both_eras
async def test_tools_say_how_they_behave_and_answer_in_text_and_data(
    server: Server[Any], era: Any
) -> None:
    async with Client(server, mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        first = await client.call_tool("reasoning_linear", {"content": "begin"})
        session = {"session_id": first.structured_content["session_id"]}
        listed = await client.call_tool("reasoning_tree_list", session)
        blank = await client.call_tool("reasoning_linear", {"content": " "})
        unknown = await client.call_tool("reasoning_magic", {})
        assert "backend: host" in (client.instructions or "")

    assert list(tools) == list(TOOLS)
    for name, tool in tools.items():
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is TOOLS[name].read_only
        assert tool.annotations.destructive_hint is TOOLS[name].destructive
    reading = {name for name, tool in TOOLS.items() if tool.read_only}
    assert reading == {f"reasoning_{name}" for name in READING.split()}

    assert json.loads(result_text(first)) == first.structured_content
    assert result_text(first).startswith('{\n  "thought_id"')
    assert (result_text(listed), listed.structured_content) == ("[]", {"branches": []})
    refusal = "Validation failed: content - Content cannot be empty"
    assert (blank.is_error, result_text(blank)) == (True, refusal)
    assert (unknown.is_error, result_text(unknown)) == (True, "Unknown tool: reasoning_magic")


async def test_a_write_that_the_disk_refuses_is_one_line_in_the_log(
    server: Server[Any], service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    @event.listens_for(service.store.engine.sync_engine, "checkout")
    def allow_no_more_pages(connection: Any, *_more: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA max_page_count = 1")  # SQLite allows those that there are
        cursor.close()

    async with Client(server, mode="auto") as client:
        result = await client.call_tool("reasoning_linear", {"content": "full? " * 5000})

    assert result.is_error
    assert "disk is full" in result_text(result)
    shown = [one for one in caplog.records if one.levelname in {"WARNING", "ERROR"}]
    assert [one.exc_info for one in shown] == [None]
    assert "\n" not in shown[0].getMessage()


@in_both_eras
async def test_sessions_are_resources_and_prompts_tell_how_to_go_about_a_mode(
    server: Server[Any], era: Any
) -> None:
    async with Client(server, mode=era) as client:
        own = {"content": "Why rain?", "session_id": "s"}
        assert not (await client.call_tool("reasoning_linear", own)).is_error
        (resource,) = (await client.list_resources()).resources
        (whole,) = (await client.read_resource(resource.uri)).contents
        (drawn,) = (await client.read_resource(f"{resource.uri}/mermaid")).contents
        templates = (await client.list_resource_templates()).resource_templates
        with pytest.raises(MCPError) as caught:
            await client.read_resource("reasoning://sessions/nobody")
        reference = types.ResourceTemplateReference(uri=templates[0].uri_template)
        found = {
            name: (await client.complete(reference, {"name": name, "value": value})).completion
            for name, value in (("session_id", ""), ("format", "m"), ("other", ""))
        }
        prompts = (await client.list_prompts()).prompts
        filled = await client.get_prompt("reason_tree", {"problem": "Which way?"})
        for name in ("reason_tree", "reason_magic"):
            with pytest.raises(MCPError):
                await client.get_prompt(name, {})

    assert (resource.uri, resource.title) == ("reasoning://sessions/s", "Why rain?")
    assert isinstance(whole, types.TextResourceContents)
    assert json.loads(whole.text)["thoughts"][0]["content"] == "Why rain?"
    assert isinstance(drawn, types.TextResourceContents)
    assert 'n1["Why rain?"]' in drawn.text
    assert caught.value.code == (-32602 if era == "auto" else -32002)
    values = {name: completion.values for name, completion in found.items()}
    assert values == {"session_id": ["s"], "format": ["markdown", "mermaid"], "other": []}
    assert all(prompt.description for prompt in prompts)
    said = filled.messages[0].content
    assert isinstance(said, types.TextContent)
    assert "reasoning_tree_focus" in said.text
    assert said.text.endswith("Which way?")


@in_both_eras
async def test_a_client_that_offers_sampling_is_asked(
    server: Server[Any], service: Service, era: Any
) -> None:
    asked: list[str] = []
    replies = [
        "not JSON at all",
        '{"analysis": "a", "quality_score": 0.3, "improved_thought": "better"}',
        '{"analysis": "b", "quality_score": 0.9}',
    ]

    async def answer(
        context: object, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        said = params.messages[0].content
        assert isinstance(said, types.TextContent)
        asked.append(said.text)
        text = types.TextContent(text=replies[len(asked) - 1])
        return types.CreateMessageResult(role="assistant", model="m", content=text)

    async with Client(server, mode=era, sampling_callback=answer) as client:
        result = await client.call_tool("reasoning_reflection", {"content": "rain is dry"})

    assert not result.is_error
    data = result.structured_content
    assert (data["backend"], data["iterations_performed"], len(asked)) == ("sampling", 2, 3)
    assert "could not be used" in asked[1]
    assert asked[2].endswith("better")
    assert await service.store.get_answers("any") == {}
    thoughts = await service.store.get_session_thoughts(data["session_id"])
    assert [one.content for one in thoughts] == ["b", "better"]


async def test_another_server_of_the_same_store_can_go_on_with_a_call(
    server: Server[Any], tmp_path: Path
) -> None:
    async def never(context: object, params: object) -> types.CreateMessageResult:
        raise AssertionError("the rounds are made by hand")

    tool, arguments = "reasoning_linear", {"content": "x", "session_id": "s"}
    offered = types.SamplingCapability()
    async with Client(server, sampling_callback=never, sampling_capabilities=offered) as one:
        asked = await one.session.call_tool(tool, arguments, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        ((key, _request),) = (asked.input_requests or {}).items()
    text = types.TextContent(text='{"thought": "sampled", "confidence": 0.5}')
    reply = types.CreateMessageResult(role="assistant", model="m", content=text)
    state: dict[str, Any] = {
        "input_responses": {key: reply},
        "request_state": asked.request_state,
    }

    async with (
        opened(tmp_path) as other,
        Client(build_server(other), sampling_callback=never) as two,
    ):
        done = await two.call_tool(tool, arguments, **state)
        with pytest.raises(MCPError):
            await two.call_tool(tool, {"content": "something else"}, **state)
        async with other.store.engine.connect() as connection:
            kept = (await connection.execute(select(answers.c.key))).all()

    assert done.structured_content["content"] == "sampled"
    assert kept == [], "what the model of a client wrote is kept no longer than the call"


class SlowModel(Completer):
    """A model that waits until it is cancelled or told to answer."""

    name = "slow"

    def __init__(self) -> None:
        self.asked, self.go_on, self.cancelled = anyio.Event(), anyio.Event(), anyio.Event()

    def describe(self) -> str:
        return "a slow model"

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.set()
        try:
            await self.go_on.wait()
        except BaseException:
            self.cancelled.set()
            raise
        return Completion(text='{"thought": "t", "confidence": 0.5}')


@in_both_eras
async def test_progress_is_told_and_a_cancelled_call_stops(tmp_path: Path, era: Any) -> None:
    model, arguments = SlowModel(), {"content": "x", "session_id": "s"}
    told: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with (
        opened(tmp_path, completer=model) as service,
        Client(build_server(service), mode=era) as client,
    ):

        async def call() -> None:
            await client.call_tool("reasoning_linear", arguments, progress_callback=hear)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await model.asked.wait()
                group.cancel_scope.cancel()
            await model.cancelled.wait()
            assert await service.store.get_session("s") is None
            model.go_on.set()
            await client.call_tool("reasoning_linear", arguments)
            assert len(await service.store.get_session_thoughts("s")) == 1

    assert told == ["asking slow (linear-reasoning-v1)"]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_client_of_the_older_era_subscribes_to_a_session(service: Service) -> None:
    heard: list[str] = []
    told = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(message.params.uri)
            told.set()

    uri, arguments = "reasoning://sessions/s", {"content": "x", "session_id": "s"}
    server = build_server(service, one_client=True)
    async with Client(server, mode="legacy", message_handler=hear) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
        await client.call_tool("reasoning_linear", arguments)
        with anyio.fail_after(10):
            await told.wait()
        await client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]
        await client.call_tool("reasoning_linear", arguments)

    assert heard == [uri]


async def test_failures_of_a_backend_are_logged_without_what_they_quote(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    completer = ScriptedCompleter([BackendError("it is down", backend="scripted")])
    async with (
        opened(tmp_path, completer=completer) as service,
        Client(build_server(service)) as client,
    ):
        result = await client.call_tool("reasoning_linear", {"content": "my secret plan"})

    assert (result.is_error, result_text(result)) == (True, "it is down")
    assert "reasoning_linear failed: it is down" in caplog.text
    assert "my secret plan" not in caplog.text


async def test_only_tools_that_ask_need_a_client_that_offers_sampling(tmp_path: Path) -> None:
    settings = ReasoningSettings(preference=BackendPreference(backend="sampling"))
    async with (
        opened(tmp_path, settings) as service,
        Client(build_server(service)) as client,
    ):
        asked = await client.call_tool("reasoning_linear", {"content": "x"})
        listed = await client.call_tool("reasoning_session_list", {})

    assert (asked.is_error, result_text(asked)) == (True, "the client does not offer sampling")
    assert not listed.is_error
