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
    """A server that can do what the other one can, and remembers what it was asked."""

    ledger: list[int] = field(default_factory=list[int])
    asked: list[str] = field(default_factory=list[str])

    def build(self) -> MCPServer:
        server = MCPServer("backup", log_level="CRITICAL")

        @server.tool(structured_output=False)
        async def pay(amount: int) -> str:
            self.asked.append("pay")
            self.ledger.append(amount)
            return f"the backup paid {amount}"

        @server.tool(structured_output=False)
        async def pay_and_die(amount: int) -> str:
            return await pay(amount)

        @server.tool(structured_output=False)
        async def echo(text: str) -> str:
            self.asked.append("echo")
            return f"the backup says {text}"

        @server.tool(structured_output=False)
        async def protocol_error(code: int) -> str:
            self.asked.append("protocol_error")
            return f"the backup knows no error {code}"

        @server.tool(structured_output=False)
        async def fail(text: str) -> str:
            self.asked.append("fail")
            raise ToolError(f"the backup fails: {text}")

        return server


@pytest.fixture(scope="module")
def servers() -> Generator[tuple[ServerProcess, ServerProcess]]:
    """A server that loses the answer of every call, and one that does as it is told."""
    with running(fault_server(cut_sse=True), fault_server(die_by="drop")) as (cutting, plain):
        yield cutting, plain


@asynccontextmanager
async def client_of(server: ServerProcess, backup: Backup, **options: Any):
    config: dict[str, Any] = {"primary": {"url": server.url}, "backup": backup.build()}
    options = {"fallbacks": {"primary": "backup"}, **options}
    async with MultiServerMCPClient(config, **options) as client:
        yield client


async def answer_of(client: MultiServerMCPClient, name: str, **arguments: Any) -> ToolMessage:
    (answer,) = await arun(one_by_one(tool_call(name, **arguments)), await client.get_tools())
    return answer


async def test_a_payment_whose_answer_was_lost_is_not_made_again(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    for server, tool in zip(servers, ("pay", "pay_and_die"), strict=True):
        backup = Backup()
        async with client_of(server, backup) as client:
            answer = await answer_of(client, tool, amount=5)

        assert answer.status == "error"
        assert "check" in str(answer.content)
        assert answer.artifact["error"]["error"] == "OutcomeUnknownError"
        assert server.state.ledger().count("5") == 1
        assert backup.asked == []


async def test_a_read_whose_answer_was_lost_is_made_on_the_backup(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    backup = Backup()
    async with client_of(servers[0], backup) as client:
        answer = await answer_of(client, "echo", text="hi")

    assert answer.content == "the backup says hi"
    assert answer.artifact["server"] == "backup"
    assert backup.asked == ["echo"]


async def test_a_payment_that_was_never_sent_is_made_on_the_backup(
    fault_server: StartFaultServer,
) -> None:
    server, backup = fault_server(), Backup()
    async with client_of(server, backup) as client:
        tools = await client.get_tools()
        server.kill()

        first, second = await arun(
            one_by_one(tool_call("pay", amount=5), tool_call("pay", amount=6)), tools
        )

    assert first.content == "the backup paid 5"
    assert second.content == "the backup paid 6"
    assert backup.ledger == [5, 6]
    assert server.state.ledger() == []


async def test_a_payment_that_the_backup_may_have_made_is_known_to_the_caller(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    cutting = servers[0]
    config: dict[str, Any] = {
        "primary": {"url": f"http://127.0.0.1:{free_port()}/mcp", "reconnect": {"max_attempts": 1}},
        "backup": {"url": cutting.url},
    }
    async with Toolbox(config, fallbacks={"primary": "backup"}) as box:
        with pytest.raises(OutcomeUnknownError) as caught:
            await box.call("primary", "pay", {"amount": 77})

    assert caught.value.server == "backup"
    assert cutting.state.ledger().count("77") == 1


async def test_a_server_that_was_never_reached_has_its_backup_asked_too() -> None:
    backup = Backup()
    servers = {
        "primary": {"url": f"http://127.0.0.1:{free_port()}/mcp", "connect_timeout": 5},
        "backup": backup.build(),
    }
    async with Toolbox({"servers": servers}, fallbacks={"primary": "backup"}) as box:
        answer = await box.call("primary", "pay", {"amount": 5})

    assert (answer.text, answer.server) == ("the backup paid 5", "backup")
    assert backup.ledger == [5]


async def test_an_error_of_the_protocol_sends_the_call_to_the_backup(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    backup = Backup()
    async with client_of(servers[1], backup) as client:
        answer = await answer_of(client, "protocol_error", code=-32603)

    assert answer.content == "the backup knows no error -32603"


async def test_what_the_tool_itself_calls_a_failure_is_its_answer(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    backup = Backup()
    async with client_of(servers[1], backup) as client:
        answer = await answer_of(client, "fail", text="no such thing")

    assert answer.status == "error"
    assert "no such thing" in str(answer.content)
    assert answer.artifact["server"] == "primary"
    assert backup.asked == []


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("verdict", [None, True, False])
async def test_a_program_sees_the_error_and_the_call_and_may_say_no(
    servers: tuple[ServerProcess, ServerProcess], verdict: bool | None, asynchronous: bool
) -> None:
    seen: list[tuple[PlaitError, ToolCall]] = []

    def before(error: PlaitError, call: ToolCall) -> bool | None:
        seen.append((error, call))
        return verdict

    async def before_async(error: PlaitError, call: ToolCall) -> bool | None:
        return before(error, call)

    backup = Backup()
    hook = before_async if asynchronous else before
    async with client_of(servers[1], backup, before_fallback=hook) as client:
        answer = await answer_of(client, "protocol_error", code=-32603)

    ((error, call),) = seen
    assert isinstance(error, ProtocolError)
    assert (call.server, call.tool) == ("primary", "protocol_error")
    assert dict(call.arguments) == {"code": -32603}
    assert backup.asked == ([] if verdict is False else ["protocol_error"])
    assert answer.status == ("error" if verdict is False else "success")


async def test_the_program_is_not_asked_about_what_must_not_be_repeated_anyway(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    seen: list[PlaitError] = []
    backup = Backup()
    hook: Any = lambda error, call: seen.append(error)  # noqa: E731
    async with client_of(servers[1], backup, before_fallback=hook) as client:
        answer = await answer_of(client, "pay_and_die", amount=7)

    assert answer.artifact["error"]["error"] == OutcomeUnknownError.__name__
    assert seen == []
    assert backup.ledger == []


async def test_a_backup_has_no_backup_of_its_own(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    third = Backup()
    config: dict[str, Any] = {
        "first": {"url": servers[1].url},
        "second": {"url": servers[1].url},
        "third": third.build(),
    }
    chain = {"first": "second", "second": "third"}
    async with MultiServerMCPClient(config, fallbacks=chain) as client:
        (tool,) = await client.get_tools("first", include=["protocol_error"])
        (answer,) = await arun(one_by_one(tool_call(tool.name, code=-32603)), [tool])

    assert answer.status == "error"
    assert third.asked == []


async def test_a_server_that_is_only_a_backup_is_not_listed(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    backup = Backup()
    async with client_of(servers[1], backup) as client:
        tools: list[Any] = await client.get_tools()

        assert {tool.tool.server for tool in tools} == {"primary"}
        assert "pay" in {tool.name for tool in tools}


async def test_a_server_that_asks_for_a_moment_gets_it_also_for_a_payment(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server(http_status="429:1", http_status_on="call", retry_after="1")
    backup = Backup()
    async with client_of(server, backup) as client:
        answer = await answer_of(client, "pay", amount=8)

    assert answer.content == "paid 8"
    assert server.state.ledger() == ["8"]
    assert backup.asked == []


async def test_a_server_that_asks_for_more_time_than_there_is_loses_the_call_to_its_backup(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server(http_status="429:1", http_status_on="call", retry_after="600")
    backup = Backup()
    async with client_of(server, backup) as client:
        answer = await answer_of(client, "pay", amount=9)

    assert answer.content == "the backup paid 9"
    assert server.state.ledger() == []
