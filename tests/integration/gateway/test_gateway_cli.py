"""`plait gateway`, as a person types it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.testing import MockGateway, ServerProcess, free_port
from tests.integration.gateway.conftest import MakeGateway
from tests.integration.gateway.hosting import AGENT, jwt

TURN: dict[str, Any] = {
    "conversationId": "c",
    "messageId": "m",
    "userMessage": "Hello",
    "chatHistory": [
        {"role": "user", "content": "Hello", "id": "1", "timestamp": "2026-01-28T12:00:00Z"}
    ],
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for name in list(os.environ):
        if name.startswith(("BEARER_TOKEN", "MCP_PLATFORM", "PLAIT_")):
            monkeypatch.delenv(name)


def plait(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, ["gateway", *arguments], **options)


def objects(result: Result) -> Any:
    return json.loads(result.stdout)


def test_servers_are_added_listed_and_removed_in_an_empty_folder() -> None:
    added = plait("add", "mcp_MailTools", "mcp_CalendarTools", "--scope", "McpServers.Mail.All")
    assert (added.exit_code, added.stderr.splitlines()) == (
        0,
        [
            "added mcp_MailTools in ToolingManifest.json",
            "added mcp_CalendarTools in ToolingManifest.json",
        ],
    )
    assert "changed mcp_MailTools" in plait("add", "mcp_MailTools", "--audience", "own").stderr

    (mail, calendar) = objects(plait("servers", "--json"))["servers"]

    assert mail == {
        "name": "mcp_MailTools",
        "unique_name": "mcp_MailTools",
        "url": "https://agent365.svc.cloud.microsoft/agents/servers/mcp_MailTools",
        "audience": "own",
        "scope": "McpServers.Mail.All",
    }
    assert calendar["name"] == "mcp_CalendarTools"
    assert "mcp_MailTools" in plait("servers").stdout
    assert plait("remove", "mcp_MailTools").exit_code == 0
    gone = plait("remove", "mcp_MailTools")
    assert (gone.exit_code, gone.stderr) == (4, "no server mcp_MailTools\n")


def test_entries_that_cannot_be_used_are_named() -> None:
    manifest = {"mcpServers": [{"mcpServerName": "good"}, {"mcpServerName": "bad", "url": 1}]}
    Path("ToolingManifest.json").write_text(json.dumps(manifest))

    result = plait("servers")

    assert result.exit_code == 4
    assert "skipped: bad: its url is a int, not a text" in result.stderr


def test_an_address_is_that_of_one_server() -> None:
    assert plait("add", "a", "b", "--url", "https://x.example").exit_code == 2


def test_the_servers_of_an_agent_come_from_the_gateway(
    gateway: MockGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = jwt(oid="me")
    monkeypatch.setenv("MCP_PLATFORM_ENDPOINT", gateway.url)
    monkeypatch.setenv("BEARER_TOKEN", token)

    found = objects(plait("servers", "--agent", AGENT, "--json"))["servers"]

    assert [one["name"] for one in found] == ["calendar", "files", "mail"]
    (request,) = gateway.requests("discovery")
    assert request.headers["authorization"] == f"Bearer {token}"
    available = objects(plait("servers", "--available", "--json"))["servers"]
    assert available == found


def test_a_gateway_that_is_not_there_is_named_with_what_to_do() -> None:
    result = plait("servers", "--agent", AGENT, "--endpoint", f"http://127.0.0.1:{free_port()}")

    assert result.exit_code == 3
    assert "Failed to connect to MCP configuration endpoint" in result.stderr
    assert "plait gateway mock" in result.stderr


def test_declared_tools_are_compared_with_those_there_are(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(fail=["files=404"])
    for name, tools in (("mail", ["send", "delete"]), ("calendar", ["book"]), ("files", [])):
        url = f"{gateway.url}/agents/servers/{name}"
        declared = [word for tool in tools for word in ("--tool", tool)]
        plait("add", name, "--url", url, *declared)

    result = plait("verify", "--json")

    assert result.exit_code == 6
    states = {one["server"]: one for one in objects(result)}
    assert states["mail"]["state"] == "differs"
    assert (states["mail"]["missing"], states["mail"]["undeclared"]) == (["delete"], [])
    assert states["calendar"]["state"] == "matches"
    assert states["files"]["state"] == "failed"
    assert "404" in states["files"]["error"]
    assert "delete" in plait("verify", "mail").stdout
    assert plait("verify", "mail", "--write").exit_code == 0
    assert plait("verify", "mail").exit_code == 0
    assert plait("verify", "files").exit_code == 3
    assert plait("verify", "mial").exit_code == 4


def test_a_manifest_that_came_with_the_folder_gets_no_token_before_it_is_approved(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gateway = make_gateway()
    url = f"{gateway.url}/agents/servers/mail"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BEARER_TOKEN", "canary-51")
    cloned = {"mcpServers": [{"mcpServerName": "mail", "url": url}]}
    Path("ToolingManifest.json").write_text(json.dumps(cloned))

    refused = plait("verify")

    assert refused.exit_code == 12
    assert "was found in this folder, and is not approved" in refused.stderr
    assert "name it with --manifest" in refused.stderr
    assert "plait trust approve" not in refused.stderr  # which reads no manifests
    assert f"contacts  {url}" in refused.stderr
    assert "canary-51" not in refused.stderr
    assert plait("add", "files").exit_code == 0  # does not approve what was there
    assert plait("verify", "mail").exit_code == 12
    assert gateway.requests() == []
    assert plait("verify", "mail", "--manifest", "ToolingManifest.json").exit_code == 0
    assert plait("verify", "mail", env={"PLAIT_TRUST": "1"}).exit_code == 0
    Path("ToolingManifest.json").chmod(0o666)
    assert plait("verify", "mail").exit_code == 4


def test_history_is_sent_from_a_file_or_a_pipe(gateway: MockGateway) -> None:
    Path("turn.json").write_text(json.dumps(TURN))

    sent = plait("send-history", "turn.json", "--endpoint", gateway.url)
    piped = plait("send-history", "-", "--endpoint", gateway.url, input=json.dumps(TURN))

    assert (sent.exit_code, sent.stderr) == (0, "sent 1 messages\n")
    assert piped.exit_code == 0
    told = {
        **TURN,
        "chatHistory": [{**TURN["chatHistory"][0], "timestamp": "2026-01-28T12:00:00.000Z"}],
    }  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
    assert gateway.histories() == [told, told]


@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", json.dumps({**TURN, "chatHistory": [{"role": "user"}]})]
)
def test_a_file_that_is_no_history_is_an_error(text: str) -> None:
    Path("turn.json").write_text(text)

    result = plait("send-history", "turn.json", "--endpoint", "http://127.0.0.1:9")

    assert result.exit_code == 4
    assert "turn.json is not a chat history" in result.stderr


def test_history_that_does_not_arrive_ends_with_its_code() -> None:
    Path("turn.json").write_text(json.dumps(TURN))

    result = plait("send-history", "turn.json", "--endpoint", f"http://127.0.0.1:{free_port()}")

    assert result.exit_code == 3
    assert "chat history did not arrive" in result.stderr


def test_an_outbox_is_shown_delivered_and_cleared(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(fail=["history=400x2"])
    Path("turn.json").write_text(json.dumps(TURN))

    plait("send-history", "turn.json", "--endpoint", gateway.url, "--outbox", "box.db")
    (letter,) = objects(plait("outbox", "box.db", "--json"))
    assert (letter["conversation"], letter["refused"], letter["attempts"]) == ("c", True, 1)
    assert "refused" in plait("outbox", "box.db").stdout
    assert plait("outbox", "box.db", "--retry").exit_code == 3
    assert plait("outbox", "box.db", "--retry").exit_code == 0
    assert len(gateway.histories()) == 1
    assert plait("outbox", "box.db").stderr == "the outbox is empty\n"


def test_the_mock_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "plait.cli", "gateway", "mock", "--port", "0", "--init"]
    fail = ["--fail", "discovery=500x1"]
    with ServerProcess([*command, *fail], cwd=tmp_path) as server:
        first = httpx2.get(f"{server.url}/agents/v2/x/mcpServers")
        entries = httpx2.get(f"{server.url}/agents/x/mcpServers").json()
        catalogue = httpx2.get(f"{server.url}/agents/discoverToolServers").json()
        body = {"userMessage": "<b>hello</b>"}
        address = f"{server.url}/agents/real-time-threat-protection/chat-message"
        secret = {"Authorization": "Bearer canary"}
        assert httpx2.post(address, json=body, headers=secret).status_code == 200
        page = httpx2.get(server.url)
        requests = httpx2.get(f"{server.url}/requests").text
        health = httpx2.get(f"{server.url}/health").json()
        missing = httpx2.post(f"{server.url}/agents/servers/none")
        os.kill(server.pid, signal.SIGINT)
        server.wait(10)

    assert (first.status_code, missing.status_code) == (500, 404)
    assert [one["mcpServerName"] for one in entries] == ["mcp_CalendarTools", "mcp_MailTools"]
    assert catalogue == {"mcpServers": entries}
    assert health["servers"] == ["mcp_CalendarTools", "mcp_MailTools"]
    assert "&lt;b&gt;hello&lt;/b&gt;" in page.text
    assert "mcp_MailTools" in page.text
    assert "canary" not in page.text + requests
    assert server.exit_code in {0, 130}


def test_a_mock_without_a_folder_says_how_to_make_one() -> None:
    done = plait("mock", "--port", "0")

    assert done.exit_code == 4
    assert "--init creates it" in done.stderr


def test_a_mock_whose_faults_are_not_written_right_does_not_start() -> None:
    assert plait("mock", "--init", "--fail", "everything").exit_code == 4
