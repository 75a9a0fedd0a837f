"""Answers and tools that are odd to read: a note on them, and nothing else happens."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from plait import MultiServerMCPClient, OutcomeUnknownError, ProtocolError, Toolbox
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SERVER = """
import json, os, sys, time

ANY = {"type": "object"}
REF = {"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref"]}
VALUE = {"type": "object", "properties": {"x": {"default": {"$ref": {"a": 1}}}}}
TOOLS = {"pid": ANY, "link": ANY, "deep": ANY, "ref": REF, "value": VALUE, "misread": ANY}
OUTPUT = {"promise": {"outputSchema": ANY}}
BLOCK = '{"type": "resource_link", "name": "big", "uri": "file:///x", "size": 1%s}' % ("0" * 400)

for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        answer["result"] = {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info
        }
    elif method == "tools/list":
        text = "hid\\u200bden"
        tools = [
            {"name": name, "description": text, "inputSchema": schema, **OUTPUT.get(name, {})}
            for name, schema in (TOOLS | {"promise": ANY}).items()
        ]
        answer["result"] = {"tools": tools}
        print(*sys.argv[1:], end="")
    elif method == "tools/call":
        given = message["params"]["arguments"]
        text = json.dumps({"pid": os.getpid(), "arguments": given})
        content = json.dumps({"type": "text", "text": text})
        result = '"content": [%s]' % content
        if message["params"]["name"] == "link":
            result = '"content": [%s, %s]' % (content, BLOCK)
        if message["params"]["name"] == "deep":
            nested = '{"a":' * given["levels"] + "1" + "}" * given["levels"]
            result += ', "structuredContent": ' + nested
        outcome = '"result": {%s}' % result
        if message["params"]["name"] == "misread":
            outcome = given["outcome"]
        if "before" in given:
            print(given["before"].replace("TOKEN", str(message["id"])), end="")
        if "notification" in given:
            print(given["notification"].replace("TOKEN", str(message["id"])), flush=True)
            time.sleep(0.2)  # it is handled while the call is under way
        print('{"jsonrpc": "2.0", "id": %d, %s}' % (message["id"], outcome), flush=True)
        continue
    else:
        continue
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def servers(tmp_path: Path) -> dict[str, dict[str, Any]]:
    script = tmp_path / "odd.py"
    script.write_text(SERVER)
    config = {"command": sys.executable, "args": [str(script)], "protocol": "legacy", "timeout": 10}
    return {"odd": config}


@pytest.mark.parametrize("before", ["", "ready "])
async def test_texts_of_tools_are_sanitized_whatever_is_before_them_on_the_line(
    servers: dict[str, dict[str, Any]], before: str
) -> None:
    servers["odd"]["args"] += [before]
    async with Toolbox(servers) as box:
        assert {tool.description for tool in await box.tools("odd")} == {"hidden"}


async def test_a_link_of_impossible_size_is_a_note_on_that_result(
    servers: dict[str, dict[str, Any]],
) -> None:
    async with MultiServerMCPClient(servers) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        content = await tools["link"].ainvoke({})
        result = await client.toolbox.call("odd", "link")

    assert "file:///x" in str(content)
    assert any("size" in note for note in result.notes)


@pytest.mark.parametrize("levels", [300, 5000])
async def test_an_answer_that_is_nested_too_deeply_is_cut_and_the_process_kept(
    servers: dict[str, dict[str, Any]], levels: int
) -> None:
    async with Toolbox(servers) as box:
        first = json.loads((await box.call("odd", "pid")).text)
        deep = await box.call("odd", "deep", {"levels": levels})
        last = json.loads((await box.call("odd", "pid")).text)

    assert json.loads(deep.text)["pid"] == first["pid"] == last["pid"]
    assert "nested too deeply" in json.dumps(deep.structured_content)
    assert any("nested" in note for note in deep.notes)


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param('"result": {"a": %s}' % ("9" * 1_200_000), id="a long number"),
        pytest.param('"result": {"a": %s}' % ("9" * 5000), id="a number"),
        pytest.param('"result": {"a": %s}' % ("[" * 300_000 + "]" * 300_000), id="levels"),
    ],
)
async def test_an_answer_that_does_not_follow_json_rpc_ends_its_call_and_nothing_else(
    servers: dict[str, dict[str, Any]], outcome: str
) -> None:
    async with Toolbox(servers) as box:
        first = json.loads((await box.call("odd", "pid")).text)
        with pytest.raises(OutcomeUnknownError, match="it is not JSON-RPC"):
            await box.call("odd", "misread", {"outcome": outcome}, timeout_seconds=50)
        last = json.loads((await box.call("odd", "pid")).text)

    assert first["pid"] == last["pid"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("progress", '"progressToken": TOKEN, "progress": 1%s' % ("0" * 400), id="far"),
        pytest.param(
            "progress",
            '"progressToken": TOKEN, "progress": 1, "total": -1%s' % ("0" * 400),
            id="of too much",
        ),
        ("cancelled", '"requestId": [TOKEN]'),
        ("cancelled", '"requestId": {"id": TOKEN}'),
    ],
)
async def test_a_notification_with_impossible_values_costs_no_call_and_no_session(
    servers: dict[str, dict[str, Any]],
    method: str,
    params: str,
) -> None:
    text = f'{{"jsonrpc": "2.0", "method": "notifications/{method}", "params": {{{params}}}}}'
    async with Toolbox(servers) as box:
        first = json.loads((await box.call("odd", "pid")).text)
        arguments = {"notification": text}
        answer = await box.call("odd", "pid", arguments, on_progress=lambda *_: None)
        last = json.loads((await box.call("odd", "pid")).text)

    assert first["pid"] == json.loads(answer.text)["pid"] == last["pid"]


async def test_a_half_answer_does_not_take_the_place_of_the_whole_one_behind_it(
    servers: dict[str, dict[str, Any]],
) -> None:
    half = '{"jsonrpc": "2.0", "id": TOKEN, "result": {"content": [{}'
    async with Toolbox(servers) as box:
        await box.call("odd", "pid")
        answer = await box.call("odd", "misread", {"before": half, "outcome": '"result": {}'})

    assert answer.text == ""


async def test_a_plain_text_is_looked_at_where_more_than_a_text_is_meant(
    servers: dict[str, dict[str, Any]],
) -> None:
    failed = {
        "isError": True,
        "content": [{"type": "text", "text": "no server-initiated requests"}],
    }
    async with Toolbox(servers) as box:
        await box.call("odd", "pid")
        with pytest.raises(ProtocolError, match="no server-initiated requests"):
            await box.call("odd", "misread", {"outcome": f'"result": {json.dumps(failed)}'})
        promised = await box.call("odd", "promise")
        many = {"content": [{"type": "text", "text": "x"}] * 501}
        outcome = f'"result": {json.dumps(many)}'
        assert len((await box.call("odd", "misread", {"outcome": outcome})).content) == 501

    assert promised.notes == (
        "the result has no structured content, though the tool has an output schema",
    )


@pytest.mark.parametrize("form", ["json", "events"])
async def test_a_deep_answer_over_http_is_cut(form: str) -> None:
    async def answer(reply: Reply) -> None:
        nested = '{"a":' * 300 + "1" + "}" * 300
        body = json.dumps(reply.response()).replace('"content"', f'"_meta": {nested}, "content"')
        if form == "json":
            reply.status(200, {"Content-Type": "application/json"}, body.encode())
        else:
            reply.start_events()
            reply.event(body)
            reply.end()

    async with scripted_http(answer) as server, Toolbox({"server": {"url": server.url}}) as box:
        result = await box.call("server", "work")

    assert result.text == "done"
    assert any("nested" in note for note in result.notes)


async def test_a_property_named_ref_costs_no_tool_its_conversion(
    servers: dict[str, dict[str, Any]],
) -> None:
    async with MultiServerMCPClient(servers) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        converted = {name: convert_to_openai_tool(tool) for name, tool in tools.items()}
        answer = json.loads(await tools["ref"].ainvoke({"$ref": "x"}))

    assert set(converted) == {"pid", "link", "deep", "ref", "value", "misread", "promise"}
    assert converted["ref"]["function"]["parameters"]["required"] == ["$ref"]
    assert answer["arguments"] == {"$ref": "x"}
