"""What the adapter of JavaScript does besides: its options, hooks, limits and schemas."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp import MCPError, types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from plait import (
    AuthRequiredError,
    CallTimeoutError,
    ConfigError,
    ConnectError,
    MCPClientError,
    MultiServerMCPClient,
    PlaitError,
    UnknownServerError,
)
from plait.langchain import MCPTool
from plait.testing import ScriptedChatModel, ServerProcess, eventually, tool_call
from tests.integration.langchain.compatibility.common import (
    TOKEN,
    Json,
    differs,
    message_of,
    tools_of,
)
from tests.nursery import fault_server, stdio_config
from tests.servers import legacy_server, raw_stdio_config
from tests.servers.js_servers import PIXEL, SOUND

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

DEAD: Json = {"url": "http://127.0.0.1:9/mcp"}


@differs("Errors of a configuration")
@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"transport": "invalid"}, "test-server.transport"),
        ({"transport": "http"}, "test-server"),
        ({"transport": "http", "url": "not-a-url"}, "test-server.url"),
        ({"transport": "stdio"}, "test-server"),
    ],
)
def test_a_server_that_is_not_valid_is_named(entry: Json, place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MultiServerMCPClient({"test-server": entry})

    assert [problem.path for problem in refused.value.problems] == [place]
    assert isinstance(refused.value, ValueError)


@differs("`config`")
def test_valid_servers_of_each_transport_are_accepted_and_can_be_inspected() -> None:
    restart = {"enabled": True, "maxAttempts": 3, "delayMs": 100}
    program = {"transport": "stdio", "command": "python", "args": ["./script.py"], "cwd": "/tmp"}
    program |= {"env": {"A": "1"}, "stderr": "inherit", "restart": restart}
    events = {"transport": "sse", "url": "http://localhost:8000/sse", "reconnect": restart}
    events |= {"headers": {"Authorization": "Bearer token"}}
    http = {"url": "http://localhost:8000/mcp", "automaticSSEFallback": True}
    given: Json = {
        "mcpServers": {"program": program, "events": events, "http": http},
        "throwOnLoadError": False,
        "prefixToolNameWithServerName": True,
    }
    client = MultiServerMCPClient(given)
    given["throwOnLoadError"] = True

    servers, options = client.config.servers, client.config.options
    kinds = {name: server.transport for name, server in servers.items()}
    assert kinds == {"program": "stdio", "events": "sse", "http": "http"}
    assert servers["program"].reconnect.first_delay_seconds == 0.1
    assert servers["events"].reconnect.first_delay_seconds == 0.1
    assert options["throw_on_load_error"] is False  # it is a copy
    assert options["prefix_tool_name_with_server_name"] is True


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "test_tool"),
        ({"prefixToolNameWithServerName": True}, "s__test_tool"),
        ({"additionalToolNamePrefix": "mcp"}, "mcp__test_tool"),
        (
            {"prefixToolNameWithServerName": True, "additionalToolNamePrefix": "mcp"},
            "mcp__s__test_tool",
        ),
        ({"prefixToolNameWithServerName": False, "additionalToolNamePrefix": ""}, "test_tool"),
    ],
)
async def test_names_are_prefixed_as_the_options_say(
    options: Json, name: str, js_servers: dict[str, ServerProcess]
) -> None:
    servers = {"mcpServers": {"s": {"url": js_servers["http"].url}}, **options}
    async with MultiServerMCPClient(servers) as client:
        assert name in await tools_of(client)


async def test_every_transport_is_connected_and_called(connection: Json) -> None:
    async with MultiServerMCPClient({"test-server": connection}) as client:
        tools = await client.initialize_connections()
        assert [*tools] == ["test-server"]
        (tool,) = (one for one in tools["test-server"] if one.name == "test_tool")
        assert json.loads(await tool.ainvoke({"input": "hi"}))["input"] == "hi"
        again = await client.initialize_connections()
        assert [one.name for one in again["test-server"]] == [
            one.name for one in tools["test-server"]
        ]


@pytest.mark.parametrize(
    "entry",
    [DEAD, {"command": "no-such-command", "args": []}, {"url": "http://no-such-host.invalid/mcp"}],
)
async def test_a_server_that_cannot_be_reached_is_a_client_error(entry: Json) -> None:
    async with MultiServerMCPClient({"failing": entry}) as client:
        for connect in (client.initialize_connections, client.get_tools):
            with pytest.raises(MCPClientError) as failed:
                await connect()
            assert failed.value.server == "failing"


@pytest.fixture
def entries(js_servers: dict[str, ServerProcess]) -> Json:
    """A server that is down and one that is there."""
    return {"bad": DEAD, "good": {"url": js_servers["http"].url}}


@differs("`onConnectionError` that is not set")
@pytest.mark.parametrize(
    ("mode", "names"), [(None, {"good"}), ("ignore", {"good"}), ("throw", None)]
)
async def test_one_dead_server_is_ignored_or_thrown(
    mode: str | None, names: set[str] | None, entries: Json
) -> None:
    options: Json = {} if mode is None else {"onConnectionError": mode}
    async with MultiServerMCPClient({"mcpServers": entries, **options}) as client:
        with pytest.raises(ConnectError) if names is None else nullcontext():
            tools = await client.initialize_connections()
            assert {name for name, listed in tools.items() if listed} == names
            assert {*(await client.initialize_connections())} == {*tools}
            assert "test_tool" in await tools_of(client)
            assert "bad" in client.status().failures
        with pytest.raises(ConnectError) as raised:
            await client.get_tools(server_name="bad")
        assert raised.value.server == "bad"


async def test_with_ignore_all_servers_may_be_down() -> None:
    options = {"mcpServers": {"a": DEAD, "b": DEAD}, "onConnectionError": "ignore"}
    async with MultiServerMCPClient(options) as client:
        assert await client.initialize_connections() == {"a": [], "b": []}
        assert await client.get_tools() == []


async def test_a_handler_is_asked_once_and_what_it_raises_is_raised_each_time(
    entries: Json,
) -> None:
    heard: list[tuple[str, Exception]] = []

    def refuse(name: str, error: Exception) -> None:
        raise RuntimeError(f"not without {name}") from error

    options: Json = {"onConnectionError": lambda *about: heard.append(about)}
    async with MultiServerMCPClient({"mcpServers": entries, **options}) as client:
        for _ in range(2):
            tools = await client.initialize_connections()
            assert (tools["bad"], bool(tools["good"])) == ([], True)
    ((name, error),) = heard
    assert name == "bad"
    assert isinstance(error, MCPClientError)

    options = {"mcpServers": entries, "onConnectionError": refuse}
    async with MultiServerMCPClient(options) as client:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="not without bad"):
                await client.initialize_connections()


@differs("`getClient` of a server that is unknown or down")
async def test_a_client_of_a_server_connects_when_it_is_used(entries: Json) -> None:
    async with MultiServerMCPClient(entries) as client:
        assert (await (await client.get_client("good")).list_tools()) != []
        with pytest.raises(ConnectError):
            await (await client.get_client("bad")).list_tools()
        with pytest.raises(UnknownServerError):
            await client.get_client("nobody")


async def test_a_server_of_the_older_transport_is_found() -> None:
    with legacy_server("sse") as server:
        entry = {"url": server.url, "transport": "http"}
        async with MultiServerMCPClient({"old": entry}) as client:
            assert await client.get_tools()
            assert client.status()["old"].transport == "sse"


class Login(httpx2.Auth):
    """Adds a token to each request, as a provider does; without one, it fails."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        if self._token is None:
            raise RuntimeError("no tokens are there")
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


BEARER = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": "Bearer wrong"}


@pytest.mark.parametrize(
    ("login", "refusal"),
    [
        ({"headers": BEARER}, None),
        ({"authProvider": Login(TOKEN)}, None),
        ({}, AuthRequiredError),
        ({"headers": WRONG}, AuthRequiredError),
        ({"authProvider": Login("wrong")}, MCPClientError),
        ({"authProvider": Login(None)}, MCPClientError),
    ],
    ids=["headers", "provider", "none", "wrong headers", "wrong provider", "failing provider"],
)
async def test_headers_or_a_provider_log_in_beside_headers_of_ones_own(
    login: Json, refusal: type | None, url: Json, js_servers: dict[str, ServerProcess]
) -> None:
    headers = {**login.get("headers", {}), "X-Own": "mine"}
    guarded = js_servers[f"{url['transport']} guarded"].url
    entry = {**url, "url": guarded, **login, "headers": headers}
    async with MultiServerMCPClient({"a": entry}) as client:
        if refusal is None:
            check = (await tools_of(client))["check_headers"]
            assert await check.ainvoke({"name": "X-Own"}) == "mine"
            return
        with pytest.raises(MCPClientError) as refused:
            await client.get_tools()
        assert isinstance(refused.value, refusal)
        assert refused.value.server == "a"
        assert refusal is MCPClientError or getattr(refused.value, "status", None) == 401


async def test_other_headers_are_another_connection(js_servers: dict[str, ServerProcess]) -> None:
    async with MultiServerMCPClient({"a": {"url": js_servers["http"].url}}) as client:
        for user in ("ada", "bob", "ada"):
            tools = await client.get_tools("a", headers={"X-User": user})
            (check,) = (tool for tool in tools if tool.name == "check_headers")
            assert await check.ainvoke({"name": "X-User"}) == user


RESTART = {"enabled": True, "maxAttempts": 3, "delayMs": 100}


@differs("`restart` and `reconnect` that are not set")
@pytest.mark.parametrize("restart", [None, RESTART, {"enabled": False}])
async def test_a_program_that_ended_is_started_again_unless_that_is_switched_off(
    restart: Json | None,
) -> None:
    entry = stdio_config() if restart is None else {**stdio_config(), "restart": restart}
    async with MultiServerMCPClient({"a": entry}) as client:
        tools = await tools_of(client)
        await tools["die"].ainvoke({})
        if restart == {"enabled": False}:
            await eventually(lambda: client.status()["a"].state == "failed")
            assert (await message_of(tools["echo"], text="again")).status == "error"
        else:
            assert await tools["echo"].ainvoke({"text": "back"}) == "back"


async def test_a_stream_that_broke_is_opened_again() -> None:
    with fault_server("sse") as server:
        entry = {"url": server.url, "transport": "sse", "reconnect": {"delayMs": 20}}
        async with MultiServerMCPClient({"a": entry}) as client:
            echo = (await tools_of(client))["echo"]
            server.restart()
            assert await echo.ainvoke({"text": "back"}) == "back"


@differs("`close()` that fails")
async def test_closing_ends_every_connection_and_raises_nothing(
    js_servers: dict[str, ServerProcess],
) -> None:
    entries = {"program": stdio_config(), "http": {"url": js_servers["http"].url}}
    client = MultiServerMCPClient(entries)
    await client.get_tools()
    pid = client.status()["program"].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # it cannot say goodbye
    await client.aclose()
    await client.aclose()
    states = {one.state for one in client.status().servers.values()}
    assert states == {"closed"}


@pytest.mark.parametrize(
    ("limit", "own", "milliseconds"),
    [(20_000, None, 20), (20_000, {"timeout": 10}, 20), (100, {"timeout": 20}, 300)],
)
async def test_a_call_within_its_limit_or_that_of_its_server_is_answered(
    limit: int, own: Any, milliseconds: int, url: Json
) -> None:
    async with MultiServerMCPClient({"a": {**url, "defaultToolTimeout": limit}}) as client:
        sleep = (await tools_of(client))["sleep_tool"]
        assert await sleep.ainvoke({"milliseconds": milliseconds}, own) == "done"


@differs("A call that takes too long, or whose arguments do not fit")
@pytest.mark.parametrize("where", ["call", "server", "client"])
async def test_a_call_beyond_its_limit_is_a_failure(where: str, url: Json) -> None:
    entry = {**url, "defaultToolTimeout": 100} if where == "server" else url
    options: Json = {"defaultToolTimeout": 100} if where == "client" else {}
    config: Any = {"timeout": 0.1} if where == "call" else None
    async with MultiServerMCPClient({"mcpServers": {"a": entry}, **options}) as client:
        sleep = (await tools_of(client))["sleep_tool"]
        assert "timeout" in await sleep.ainvoke({"milliseconds": 5000}, config)
        client.handle_tool_errors = False
        strict = (await tools_of(client))["sleep_tool"]
        with pytest.raises(CallTimeoutError) as late:
            await strict.ainvoke({"milliseconds": 5000}, config)
        assert isinstance(late.value, TimeoutError)


TEXT = {"type": "text", "text": "hey"}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}
PAGE = {
    "type": "resource",
    "resource": {"uri": "mem://test.txt", "mimeType": "text/plain", "text": "A resource."},
}
STANDARD = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
WITH_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
URI = "Resource: mem://test.txt (text/plain, 11 B)"
URI_BLOCK = {"type": "text", "text": URI}
SOUND_BLOCK = {"type": "text", "text": "[audio/wav, 8 B, not shown]"}
READ = {"type": "text", "text": "A resource."}
READ_AT = {**READ, "extras": {"uri": "mem://test.txt", "mime_type": "text/plain"}}


ARTIFACT = {"outputHandling": "artifact"}
CONTENT = {"outputHandling": "content"}
WITH_URLS = {"useStandardContentBlocks": False}
SPLIT = {"outputHandling": {"text": "content", "image": "artifact", "resource": "content"}}
OWN = {"outputHandling": {"image": "content", "resource": "artifact"}}


@differs(
    *("Blocks of a result", "Artifact of a call", '`outputHandling: "artifact"`'),
    *("Sounds in the content", "Embedded resources in the content"),
)
@pytest.mark.parametrize(
    ("options", "own", "kind", "content", "artifact"),
    [
        ({}, {}, "image", [TEXT, STANDARD], []),
        ({}, {}, "audio", [TEXT, SOUND_BLOCK], [AUDIO]),
        ({}, {}, "resource", [TEXT, URI_BLOCK], [PAGE]),
        ({"useStandardContentBlocks": True}, {}, "image", [TEXT, STANDARD], []),
        (WITH_URLS, {}, "image", [TEXT, WITH_URL], []),
        (ARTIFACT, {}, "image", "2 blocks were set aside (text, image/png)", [TEXT, IMAGE]),
        (ARTIFACT, {}, "audio", "2 blocks were set aside (text, audio/wav)", [TEXT, AUDIO]),
        (ARTIFACT, {}, "resource", URI, [TEXT, PAGE]),
        (CONTENT, {}, "image", [TEXT, STANDARD], []),
        (CONTENT, {}, "resource", [TEXT, URI_BLOCK, READ_AT], []),
        (CONTENT | WITH_URLS, {}, "image", [TEXT, WITH_URL], []),
        (CONTENT | WITH_URLS, {}, "resource", [TEXT, URI_BLOCK, READ], []),
        (SPLIT, {}, "image", "hey", [IMAGE]),
        (SPLIT, {}, "resource", [TEXT, URI_BLOCK, READ_AT], []),
        (ARTIFACT | WITH_URLS, OWN, "image", [WITH_URL], [TEXT]),
        (ARTIFACT | WITH_URLS, OWN, "resource", URI, [TEXT, PAGE]),
    ],
)
async def test_content_goes_where_the_options_of_the_client_or_the_server_say(
    options: Json, own: Json, kind: str, content: Any, artifact: list[Json], url: Json
) -> None:
    async with MultiServerMCPClient({"mcpServers": {"a": {**url, **own}}, **options}) as client:
        message = await message_of((await tools_of(client))[f"{kind}_tool"], text="hey")
    assert (message.content, message.artifact["content"]) == (content, artifact)


async def test_structured_content_and_meta_are_in_the_artifact(url: Json) -> None:
    async with MultiServerMCPClient({"a": url}) as client:
        message = await message_of((await tools_of(client))["structured_tool"], text="hey")

    assert message.content == "hey"
    assert message.artifact["structured_content"] == {"said": "hey"}
    assert message.artifact["_meta"]["traced"] == 7


@differs("`listResources`, `listResourceTemplates`, `readResource`")
async def test_resources_and_templates_are_listed_and_read(url: Json) -> None:
    async with MultiServerMCPClient({"a": url}) as client:
        (listed,) = await client.list_resources()
        (template,) = await client.list_resource_templates()
        (content,) = (await client.read_resource("a", "mem://test.txt")).contents
        with pytest.raises(PlaitError):
            await client.read_resource("a", "mem://nothing.txt")

    found = (listed.server, listed.item.name, listed.item.uri, listed.item.mime_type)
    assert found == ("a", "Test Resource", "mem://test.txt", "text/plain")
    assert template.item.uri_template == "mem://user/{user}/profile"
    assert getattr(content, "text", None) == "A resource."
    assert (str(content.uri), content.mime_type) == ("mem://test.txt", "text/plain")


@differs("A `ToolMessage` of `afterToolCall`", "Headers for a program")
async def test_hooks_change_arguments_headers_and_results(connection: Json) -> None:
    answers = iter(["a text", ["a pair", []], ToolMessage("a message", tool_call_id="1"), None])
    options: Json = {
        "beforeToolCall": lambda call, *_: {
            "args": {"input" if call.name == "test_tool" else "name": "X-Check"},
            "headers": {"X-Check": "present"},
        },
        "afterToolCall": lambda *_: {"result": next(answers, None)},
    }
    async with MultiServerMCPClient({"mcpServers": {"a": connection}, **options}) as client:
        tools = await tools_of(client)
        tool, check = tools["test_tool"], tools["check_headers"]
        for text in ("a text", "a pair"):
            assert await tool.ainvoke({"input": "orig"}) == text
        message = await tool.ainvoke({"input": "orig"})
        assert isinstance(message, ToolMessage)
        assert message.content == "a message"
        assert json.loads(await tool.ainvoke({"input": "orig"}))["input"] == "X-Check"
        # Only a server at a URL takes headers.
        found = "not found" if connection["transport"] == "stdio" else "present"
        assert await check.ainvoke({"name": "X-Other"}) == found


@pytest.mark.parametrize("changes", [{"args": 5}, {"args": ["a"]}, {"arguments": {}}, 3, "x"])
async def test_a_hook_that_returns_something_else_is_told_what_to_return(changes: Any) -> None:
    server = server_of(types.Tool(name="it", input_schema=object_with()))
    options: Json = {"beforeToolCall": lambda *_: changes}
    async with MultiServerMCPClient({"mcpServers": {"a": server}, **options}) as client:
        (tool,) = await client.get_tools()
        with pytest.raises(ConfigError, match="before_tool_call returns"):
            await tool.ainvoke({})


async def test_progress_and_log_messages_are_reported(url: Json) -> None:
    steps: list[int] = []
    logs: list[str] = []
    options = {
        "mcpServers": {"a": {**url, "protocol": "legacy"}},
        "onMessage": lambda params, *_: logs.append(str(params.data)),
        "onProgress": lambda done, total, *_: steps.append(round(done / (total or 1) * 100)),
    }
    async with MultiServerMCPClient(options) as client:
        await (await tools_of(client))["test_tool"].ainvoke({"input": "evt"})
        await eventually(lambda: steps == [33, 67, 100] and "test_tool invoked" in logs)


async def test_hooks_see_the_state_of_an_agent_and_the_config(url: Json) -> None:
    seen: list[tuple[Any, Any]] = []
    options: Json = {
        "mcpServers": {"a": url},
        "beforeToolCall": lambda call, state, config: seen.append((state, config)),
        "afterToolCall": lambda call, state, config: seen.append((state, config)),
    }
    short: Json = {"before_tool_call": lambda request, state: seen.append((state, {"tags": []}))}
    for client in (MultiServerMCPClient(options), MultiServerMCPClient({"a": url}, **short)):
        async with client:
            tool = (await tools_of(client))["test_tool"]
            await tool.ainvoke({"input": "orig"}, {"tags": ["mine"]})
            model = ScriptedChatModel([[tool_call("test_tool", input="orig")], "done"])
            agent: Any = create_agent(model, [tool])
            await agent.ainvoke({"messages": [("user", "orig")]}, {"tags": ["mine"]})

    lengths = [len(state["messages"]) if state else None for state, _ in seen]
    assert lengths == [None, None, 2, 2, None, 2]
    assert ["mine" in config["tags"] for _, config in seen] == [True] * 4 + [False] * 2


STRING = {"type": "string"}


def object_with(*required: str, **properties: Json) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    return {**schema, "required": [*required]} if required else schema


ITEM = object_with("id", id={"type": "integer"})
NESTED = {
    **object_with("order", order={"$ref": "#/$defs/Order"}),
    "$defs": {
        "Order": object_with(lines={"$ref": "#/$defs/Lines"}),
        "Lines": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "Item": ITEM,
    },
}
OLDER = {**object_with(item={"$ref": "#/definitions/Item"}), "definitions": {"Item": ITEM}}
BRANCHES = [object_with("card", card=STRING), object_with("iban", iban=STRING)]
IF_DAY = {
    "if": {"properties": {"kind": {"const": "day"}}},
    "then": {"properties": {"date": STRING}},
    "else": {"properties": {"at": STRING}},
}
CONDITIONAL = {
    **object_with("title", kind={"enum": ["day", "hour"]}, title=STRING),
    "allOf": [IF_DAY],
}
MERGED = {
    "type": "object",
    "allOf": [
        {"properties": {"name": STRING}, "required": ["name"]},
        {"properties": {"email": STRING}},
    ],
}
NOISY = {
    **object_with(name=STRING),
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "unevaluatedProperties": False,
}

CASES: dict[str, tuple[Json, Json, set[str]]] = {
    "no parameters": (object_with(), {}, set()),
    "$defs": (NESTED, {"order": {"lines": [{"id": 1}]}}, {"order"}),
    "definitions": (OLDER, {"item": {"id": 1}}, {"item"}),
    "allOf with if": (CONDITIONAL, {"kind": "day", "title": "x", "date": "d"}, {"kind", "title"}),
    "anyOf": ({"type": "object", "anyOf": BRANCHES}, {"card": "1"}, {"card", "iban"}),
    "oneOf": ({"type": "object", "oneOf": BRANCHES}, {"iban": "2"}, {"card", "iban"}),
    "allOf": (MERGED, {"name": "Ada", "email": "a@b"}, {"name", "email"}),
    "$schema": (NOISY, {"name": "Ada"}, {"name"}),
}
"""The schema, arguments that fit, and arguments that a model must see."""


def server_of(*tools: types.Tool, received: list[Any] | None = None) -> Server[Any]:
    """Make a server with these tools."""

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if not tools:
            raise MCPError(code=-32603, message="Failed to list tools")
        return types.ListToolsResult(tools=list(tools))

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if received is not None:
            received.append(params.arguments)
        return types.CallToolResult(content=[types.TextContent(text="called")])

    return Server("schemas", on_list_tools=list_tools, on_call_tool=call_tool)


@differs("Schemas of arguments")
@pytest.mark.parametrize("case", CASES)
async def test_a_schema_of_any_form_is_sent_and_shown(case: str) -> None:
    schema, arguments, shown = CASES[case]
    received: list[Any] = []
    server = server_of(types.Tool(name="it", input_schema=schema), received=received)
    async with MultiServerMCPClient({"a": server}) as client:
        (tool,) = await client.get_tools()
        assert await tool.ainvoke(arguments) == "called"
        (for_openai,) = await client.get_tools(profile="openai")

    assert received == [arguments]
    parameters = convert_to_openai_tool(for_openai)["function"]["parameters"]
    assert shown <= set(parameters["properties"])
    assert not {"anyOf", "oneOf", "allOf", "unevaluatedProperties"} & set(parameters)
    assert set(parameters.get("required", ())) <= set(parameters["properties"])


async def test_all_tools_are_loaded_and_one_without_a_name_is_left_out() -> None:
    async with MultiServerMCPClient({"odd": raw_stdio_config("tool-without-name")}) as client:
        tools = await client.get_tools()

    assert tools
    assert all(tool.name for tool in tools)
    assert all(isinstance(tool, MCPTool) for tool in tools)
    assert {tool.response_format for tool in tools} == {"content_and_artifact"}


async def test_a_server_that_does_not_list_its_tools_is_a_failure() -> None:
    async with MultiServerMCPClient({"a": server_of()}) as client:
        with pytest.raises(PlaitError) as failed:
            await client.initialize_connections()

    assert failed.value.server == "a"
    assert failed.value.code == -32603
