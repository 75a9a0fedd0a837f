"""Clients of both eras, on stdio and over HTTP, in front of servers that die, hang and ask."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from mcp import Client, MCPError, types

from plait.serve.upstream import FIRST_LIST_SECONDS
from plait.testing import ServerProcess, StateDir, eventually
from tests import nursery
from tests.integration.serve.conftest import (
    BOTH_ERAS,
    READY,
    Era,
    Open,
    Wire,
    connected,
    serving_http,
    text_of,
    write_config,
)

pytestmark = pytest.mark.anyio

FAULTS = "faults__"


def _faults(state: StateDir, **options: Any) -> dict[str, object]:
    return nursery.stdio_config(state_dir=state.path, **options)


async def test_everything_of_a_server_passes(served: Open, tmp_path: Path, state: StateDir) -> None:
    seen: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        del message
        seen.append((progress, total))

    config = write_config(tmp_path, {"faults": _faults(state)})
    async with served(config) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        prompts = (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        ref = types.PromptReference(name=prompts[0].name)

        assert all(name.startswith(FAULTS) for name in tools)
        assert tools["faults__pay"].annotations is not None
        assert tools["faults__structured"].output_schema is not None
        result = await client.call_tool("faults__structured")
        assert result.structured_content
        assert (await client.get_prompt(prompts[0].name, {"name": "Bo"})).messages
        contents = (await client.read_resource(resources[0].uri)).contents
        assert contents[0].uri == resources[0].uri
        assert templates
        assert (await client.complete(ref, {"name": "name", "value": "A"})).completion.values
        arguments = {"steps": 3, "delay": 0.01}
        await client.call_tool("faults__sleep_progress", arguments, progress_callback=on_progress)
        failed = await client.call_tool("faults__fail", {"text": "no luck"})
        assert failed.is_error
        assert "no luck" in text_of(failed)
        with pytest.raises(MCPError) as caught:
            await client.call_tool("faults__protocol_error", {"code": -32050})
        assert caught.value.code == -32050
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("nothing")

    assert [done for done, _ in seen] == [1, 2, 3]


async def test_a_server_that_was_killed_is_there_for_the_next_call(
    served: Open, tmp_path: Path, state: StateDir
) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with served(config) as client:
        first = text_of(await client.call_tool("faults__pid"))
        os.kill(int(first), signal.SIGKILL)
        second = text_of(await client.call_tool("faults__pid"))

    assert first != second


async def test_a_payment_whose_answer_was_lost_is_not_made_again(
    served: Open, tmp_path: Path, state: StateDir
) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with served(config) as client:
        lost = await client.call_tool("faults__pay_and_die", {"amount": 5})
        again = await client.call_tool("faults__pay", {"amount": 6})

    assert lost.is_error
    assert "not known" in text_of(lost)
    assert not again.is_error
    assert state.ledger() == ["5", "6"]


async def test_a_read_whose_answer_was_lost_is_made_again(
    served: Open, tmp_path: Path, state: StateDir
) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with served(config) as client:
        result = await client.call_tool("faults__get_and_die", {"key": "k"})

    assert not result.is_error
    assert len(state.reads()) == 2


async def _choose_seat(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    del context, params
    return types.ElicitResult(action="accept", content={"seat": "4A"})


async def _think(context: object, params: object) -> types.CreateMessageResult:
    del context, params
    text = types.TextContent(text="so")
    return types.CreateMessageResult(role="assistant", model="m", content=text)


@pytest.mark.parametrize("tool", ["book", "reserve"])
async def test_a_question_of_a_server_reaches_the_client_of_the_call(
    served: Open, era: Era, tmp_path: Path, tool: str
) -> None:
    entry = nursery.entry(str(BOTH_ERAS), "both", "stdio")
    config = write_config(tmp_path, {"seats": entry})
    async with served(config, elicitation_callback=_choose_seat) as client:
        if era == "2026-07-28" and tool == "book":
            # Without plait, too, this tool cannot ask a client of this era; plait changes the era
            # of its own session, so that the next call can.
            with pytest.raises(MCPError, match="back-channel"):
                await client.call_tool("seats__book")
        result = await client.call_tool(f"seats__{tool}")

    assert text_of(result) == "seat 4A"


async def test_a_server_uses_the_model_of_the_client(served: Open, tmp_path: Path) -> None:
    entry = nursery.entry(str(BOTH_ERAS), "both", "stdio", protocol="legacy")
    config = write_config(tmp_path, {"seats": entry})
    async with served(config, sampling_callback=_think) as client:
        result = await client.call_tool("seats__think")

    assert text_of(result) == "thought so"


async def test_a_server_that_does_not_start_delays_no_tools_that_are_known(
    tmp_path: Path, state: StateDir
) -> None:
    program = tmp_path / "mute.sh"
    words = [str(word) for word in (_command_of(_faults(state)))]
    program.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    program.chmod(0o755)
    config = write_config(tmp_path, {"mute": {"command": str(program)}})
    async with connected("stdio", "legacy", config) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "mute__pay" in names

    program.write_text("#!/bin/sh\nexec sleep 60\n")
    began = time.monotonic()
    async with connected("stdio", "legacy", config) as client:
        known = {tool.name for tool in (await client.list_tools()).tools}
        seconds = time.monotonic() - began

    assert known == names
    assert seconds < FIRST_LIST_SECONDS  # nobody waited for it


def _command_of(entry: dict[str, Any]) -> list[Any]:
    return [entry["command"], *entry["args"]]


async def test_a_server_that_hangs_at_its_start_does_not_keep_the_others_waiting(
    tmp_path: Path, state: StateDir
) -> None:
    servers = {"faults": _faults(state), "mute": nursery.stdio_config(hang_handshake=True)}
    async with connected("stdio", "legacy", write_config(tmp_path, servers)) as client:
        with anyio.fail_after(10):
            names = {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("faults__echo", {"text": "hi"})

    assert "faults__echo" in names
    assert text_of(result) == "hi"


async def test_a_change_of_tools_is_announced(wire: Wire, tmp_path: Path, state: StateDir) -> None:
    changed = anyio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    config = write_config(tmp_path, {"faults": _faults(state)})
    async with connected(wire, "legacy", config, message_handler=on_message) as client:
        before = (await client.list_tools()).tools
        await client.call_tool("faults__grow")
        with anyio.fail_after(20):
            while len((await client.list_tools()).tools) == len(before):
                await changed.wait()
                changed = anyio.Event()


async def test_what_the_policy_asks_about_is_asked_of_the_person_at_the_client(
    era: Era, tmp_path: Path, state: StateDir
) -> None:
    asked: list[str] = []

    async def answer(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        del context
        asked.append(params.message)
        return types.ElicitResult(
            action="accept", content={"allow": "amount = 1" in params.message}
        )

    policy = {"rules": [{"tool": "faults/pay", "do": "ask"}], "default": "allow"}
    config = write_config(tmp_path, {"faults": _faults(state)}, policy=policy)
    async with connected("stdio", era, config, elicitation_callback=answer) as client:
        paid = await client.call_tool("faults__pay", {"amount": 1})
        refused = await client.call_tool("faults__pay", {"amount": 2})
    async with connected("stdio", era, config) as silent:
        alone = await silent.call_tool("faults__pay", {"amount": 3})

    assert not paid.is_error
    assert "not approved" in text_of(refused)
    assert "policy of your mcp.json" in text_of(alone)
    assert state.ledger() == ["1"]
    assert len(asked) == 2


async def test_with_plain_names_a_server_is_as_it_is(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state), "more": _faults(state)})
    options = ("--only", "faults", "--names", "plain", "--exclude", "p*")
    async with connected("stdio", "legacy", config, *options) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("echo", {"text": "hi"})

    assert {"echo", "add"} <= names
    assert not {"pay", "pid"} & names
    assert text_of(result) == "hi"


async def test_a_search_takes_the_place_of_the_tools(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with connected("stdio", "legacy", config, "--search") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        found = text_of(await client.call_tool("search_tools", {"query": "pay an amount"}))
        pay = {"name": "faults__pay", "arguments": {"amount": 7}}
        paid = await client.call_tool("call_tool", pay)
        missed = await client.call_tool("call_tool", {"name": "faults__payy"})

    assert names == ["search_tools", "call_tool"]
    assert json.loads(found.splitlines()[0])["name"] == "faults__pay"
    assert not paid.is_error
    assert "did you mean 'faults__pay'" in text_of(missed)
    assert state.ledger() == ["7"]


async def test_a_resource_that_two_servers_have_is_found_at_each(
    tmp_path: Path, state: StateDir
) -> None:
    config = write_config(tmp_path, {"one": _faults(state), "two": _faults(state)})
    async with connected("stdio", "legacy", config) as client:
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        read = [(await client.read_resource(uri)).contents[0].uri for uri in uris]

    assert len(set(uris)) == len(uris)
    assert any(uri.startswith("plait://two/") for uri in uris)
    assert read == uris


async def test_the_end_of_input_ends_every_process(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with connected("stdio", "legacy", config) as client:
        process = int(text_of(await client.call_tool("faults__pid")))

    def is_gone() -> bool:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        return False

    await eventually(is_gone)


async def test_no_server_outlives_plait_serve_that_was_killed(
    tmp_path: Path, state: StateDir
) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    words = [sys.executable, "-m", "plait", "serve", "--config", str(config), "--http", "0"]
    server = ServerProcess(words, ready=READY)
    with server:
        async with httpx2.AsyncClient() as http:
            answer = await http.post(server.url, json=_call("faults__pid"), headers=_MODERN)
            process = int(answer.json()["result"]["content"][0]["text"])
        await asyncio.to_thread(server.kill)

    await eventually(lambda: not psutil.pid_exists(process))


_MODERN = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "faults__pid",
}


def _call(tool: str) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def test_two_clients_have_sessions_of_their_own(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    with serving_http(config) as server:
        async with (
            Client(server.url, mode="legacy") as one,
            Client(server.url, mode="legacy") as two,
        ):
            first = text_of(await one.call_tool("faults__pid"))
            second = text_of(await two.call_tool("faults__pid"))

    assert first != second


async def test_clients_may_share_the_session_of_a_server(tmp_path: Path, state: StateDir) -> None:
    changed = anyio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    servers = {"shared": {**_faults(state), "sharing": "all"}, "own": _faults(state)}
    with serving_http(write_config(tmp_path, servers)) as server:
        async with (
            Client(server.url, mode="legacy") as one,
            Client(server.url, mode="legacy", message_handler=on_message) as two,
        ):
            pids = {
                (name, text_of(await client.call_tool(f"{name}__pid")))
                for name in servers
                for client in (one, two)
            }
            before = len((await two.list_tools()).tools)
            await one.call_tool("shared__grow")
            with anyio.fail_after(20):
                while len((await two.list_tools()).tools) == before:
                    await changed.wait()
                    changed = anyio.Event()
            os.kill(next(int(pid) for name, pid in pids if name == "shared"), signal.SIGKILL)
            healed = [
                await client.call_tool("shared__echo", {"text": "hi"}) for client in (one, two)
            ]

    assert sorted(name for name, _ in pids) == ["own", "own", "shared"]
    assert [text_of(result) for result in healed] == ["hi", "hi"]


async def test_a_request_of_a_foreign_page_is_refused(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with serving_http(config) as server:
        async with httpx2.AsyncClient() as http:
            page = await http.post(server.url, json=ping, headers={"Origin": "http://evil.example"})
            name = await http.post(server.url, json=ping, headers={"Host": "evil.example"})
            lost = await http.post(server.url, json=ping, headers={"Mcp-Session-Id": "none"})
            broken = await http.post(
                server.url, content=b"{", headers={"Content-Type": "application/json"}
            )
            health = await http.get(server.url.replace("/mcp", "/health"))

    statuses = [one.status_code for one in (page, name, lost, broken, health)]
    assert statuses == [403, 421, 404, 400, 200]


async def test_a_token_is_needed_once_there_is_one(
    tmp_path: Path, state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.serve.tokens import add_token, remove_token, tokens_path

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ann, bo = (add_token(tokens_path(), name) for name in ("ann", "bo"))
    config = write_config(tmp_path, {"faults": _faults(state)})
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    with serving_http(config) as server:
        async with httpx2.AsyncClient(headers=accept) as http:
            nobody = await http.post(server.url, json=hello)
            opened = await http.post(
                server.url, json=hello, headers={"Authorization": f"Bearer {ann}"}
            )
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            crossed = await http.post(
                server.url, json=ping, headers={**session, "Authorization": f"Bearer {bo}"}
            )
            own = await http.post(
                server.url, json=ping, headers={**session, "Authorization": f"Bearer {ann}"}
            )
            remove_token(tokens_path(), "ann")
            removed = await http.post(
                server.url, json=ping, headers={**session, "Authorization": f"Bearer {ann}"}
            )

            remove_token(tokens_path(), "bo")
            after_all = await http.post(server.url, json=hello)

    assert after_all.status_code == 401
    assert [one.status_code for one in (nobody, opened, crossed, own, removed)] == [
        401,
        200,
        404,
        200,
        401,
    ]
    assert ann not in tokens_path().read_text()
    assert json.loads(tokens_path().read_text()) == {}


async def test_a_token_that_is_added_is_needed_at_once(
    tmp_path: Path, state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.serve.tokens import add_token, tokens_path

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Accept": "application/json, text/event-stream"}
    with serving_http(write_config(tmp_path, {"faults": _faults(state)})) as server:
        async with httpx2.AsyncClient(headers=headers) as http:
            before = await http.post(server.url, json=body)
            add_token(tokens_path(), "ann")
            after = await http.post(server.url, json=body)

    assert (before.status_code, after.status_code) == (400, 401)
