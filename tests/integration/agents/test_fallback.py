"""A backup is asked when that can do no harm, and never to do what may have been done."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from plait import MultiServerMCPClient, OutcomeUnknownError, PlaitError, ProtocolError, Toolbox
from plait.client.calls.tool_call import ToolCall
from plait.testing import ServerProcess, running
from plait.testing.fixtures import StartFaultServer
from plait.testing.ports import free_port
from tests.integration.agents.helpers import arun, one_by_one, tool_call
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@dataclass
class Backup:
    """A server that can do what the other one can, and remembers what it did."""

    ledger: list[int] = field(default_factory=list[int])
    calls: list[str] = field(default_factory=list[str])

    def build(self) -> MCPServer:
        server = MCPServer("backup", log_level="CRITICAL")

        def pay(amount: int) -> str:
            self.calls.append("pay")
            self.ledger.append(amount)
            return f"the backup paid {amount}"

        for name in ("pay", "pay_and_die"):
            server.tool(name=name, structured_output=False)(pay)

        @server.tool(structured_output=False)
        async def echo(text: str) -> str:
            self.calls.append("echo")
            return f"the backup says {text}"

        @server.tool(structured_output=False)
        async def protocol_error(code: int) -> str:
            self.calls.append("protocol_error")
            return f"the backup knows no error {code}"

        @server.tool(structured_output=False)
        async def fail(text: str) -> str:
            self.calls.append("fail")
            raise ToolError(f"the backup fails: {text}")

        return server


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    """A server that loses the answer of every call, and one that does as it is told."""
    with running(fault_server(cut_sse=True), fault_server(die_by="drop")) as (cutting, plain):
        yield {"cutting": cutting, "plain": plain}


@asynccontextmanager
async def client_of(server: ServerProcess, backup: Backup, **options: Any):
    config: dict[str, Any] = {"primary": {"url": server.url}, "backup": backup.build()}
    options = {"fallbacks": {"primary": "backup"}, **options}
    async with MultiServerMCPClient(config, **options) as client:
        yield client


async def answer_of(client: MultiServerMCPClient, name: str, **arguments: Any) -> ToolMessage:
    (answer,) = await arun(one_by_one(tool_call(name, **arguments)), await client.get_tools())
    return answer


UNKNOWN = "OutcomeUnknownError"


@pytest.mark.parametrize(
    ("server", "tool", "arguments", "by", "says", "error"),
    [
        ("cutting", "pay", {"amount": 5}, "primary", "check", UNKNOWN),
        ("plain", "pay_and_die", {"amount": 6}, "primary", "check", UNKNOWN),
        ("cutting", "echo", {"text": "hi"}, "backup", "the backup says hi", None),
        ("plain", "protocol_error", {"code": -32603}, "backup", "knows no error -32603", None),
        ("plain", "fail", {"text": "no such thing"}, "primary", "no such thing", "its answer"),
    ],
    ids=[
        "a payment whose answer was lost",
        "a payment whose connection was lost",
        "a read whose answer was lost",
        "an error of the protocol",
        "a failure of the tool itself",
    ],
)
async def test_only_what_did_nothing_goes_to_the_backup(
    servers: dict[str, ServerProcess],
    server: str,
    tool: str,
    arguments: dict[str, Any],
    by: str,
    says: str,
    error: str | None,
) -> None:
    backup, primary = Backup(), servers[server]
    before = primary.state.ledger()
    async with client_of(primary, backup) as client:
        tools: list[Any] = await client.get_tools()
        assert {one.tool.server for one in tools} == {"primary"}, "a backup is not listed"
        answer = await answer_of(client, tool, **arguments)

    assert says in str(answer.content)
    assert answer.status == ("success" if error is None else "error")
    assert backup.calls == ([tool] if by == "backup" else [])
    if error == UNKNOWN:
        assert answer.artifact["error"]["error"] == UNKNOWN
        assert primary.state.ledger() == [*before, str(arguments["amount"])]
    else:
        assert answer.artifact["server"] == by


async def test_a_payment_that_was_never_sent_is_made_on_the_backup(
    fault_server: StartFaultServer,
) -> None:
    server, backup = fault_server(), Backup()
    async with client_of(server, backup) as client:
        tools = await client.get_tools()
        server.kill()
        calls = (tool_call("pay", amount=amount) for amount in (5, 6))

        answers = await arun(one_by_one(*calls), tools)

    assert [one.content for one in answers] == ["the backup paid 5", "the backup paid 6"]
    assert backup.ledger == [5, 6]
    assert server.state.ledger() == []


@pytest.mark.parametrize("backup", ["does it", "may have done it"])
async def test_a_server_that_was_never_reached_has_its_backup_called(
    servers: dict[str, ServerProcess], backup: str
) -> None:
    own, cutting = Backup(), servers["cutting"]
    quick = {"connect_timeout": 5, "reconnect": {"max_attempts": 1}}
    config: dict[str, Any] = {
        "primary": {"url": f"http://127.0.0.1:{free_port()}/mcp", **quick},
        "backup": own.build() if backup == "does it" else {"url": cutting.url},
    }
    async with Toolbox({"servers": config}, fallbacks={"primary": "backup"}) as box:
        if backup == "does it":
            answer = await box.call("primary", "pay", {"amount": 77})
            assert (answer.text, answer.server) == ("the backup paid 77", "backup")
            assert own.ledger == [77]
            return
        with pytest.raises(OutcomeUnknownError) as caught:
            await box.call("primary", "pay", {"amount": 77})
    assert caught.value.server == "backup"
    assert cutting.state.ledger().count("77") == 1


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("verdict", [None, True, False])
async def test_a_program_sees_the_error_and_the_call_and_may_say_no(
    servers: dict[str, ServerProcess], verdict: bool | None, asynchronous: bool
) -> None:
    seen: list[tuple[PlaitError, ToolCall]] = []

    def before(error: PlaitError, call: ToolCall) -> bool | None:
        seen.append((error, call))
        return verdict

    async def before_async(error: PlaitError, call: ToolCall) -> bool | None:
        return before(error, call)

    backup = Backup()
    hook = before_async if asynchronous else before
    async with client_of(servers["plain"], backup, before_fallback=hook) as client:
        answer = await answer_of(client, "protocol_error", code=-32603)
        # What must not be repeated anyway is no question.
        lost = await answer_of(client, "pay_and_die", amount=7)

    ((error, call),) = seen
    assert isinstance(error, ProtocolError)
    assert (call.server, call.tool) == ("primary", "protocol_error")
    assert dict(call.arguments) == {"code": -32603}
    assert backup.calls == ([] if verdict is False else ["protocol_error"])
    assert answer.status == ("error" if verdict is False else "success")
    assert lost.artifact["error"]["error"] == UNKNOWN


async def test_a_backup_has_no_backup_of_its_own(servers: dict[str, ServerProcess]) -> None:
    third, url = Backup(), servers["plain"].url
    config: dict[str, Any] = {"first": {"url": url}, "second": {"url": url}, "third": third.build()}
    chain = {"first": "second", "second": "third"}
    async with MultiServerMCPClient(config, fallbacks=chain) as client:
        (tool,) = await client.get_tools("first", include=["protocol_error"])
        (answer,) = await arun(one_by_one(tool_call(tool.name, code=-32603)), [tool])

    assert answer.status == "error"
    assert third.calls == []


@pytest.mark.parametrize(
    ("seconds", "says", "ledger"), [("1", "paid 8", ["8"]), ("600", "the backup paid 8", [])]
)
async def test_a_server_that_asks_for_a_pause_gets_it_if_there_is_time(
    fault_server: StartFaultServer, seconds: str, says: str, ledger: list[str]
) -> None:
    server = fault_server(http_status="429:1", http_status_on="call", retry_after=seconds)
    backup = Backup()
    async with client_of(server, backup) as client:
        answer = await answer_of(client, "pay", amount=8)

    assert answer.content == says
    assert server.state.ledger() == ledger
    assert len(backup.calls) == (not ledger)
