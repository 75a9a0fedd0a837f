"""Agents get the tools of their gateway: complete, apart, once, and in spite of what fails."""

from __future__ import annotations

import asyncio
import json
import platform
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent as foreign_create_agent
from langchain_core.tools import tool

import plait
from plait import ConfigError
from plait.client.config.servers import ReconnectPolicy
from plait.errors import DiscoveryError, TokenError
from plait.gateway import McpToolRegistrationService, Registration
from plait.gateway.credentials import claim
from plait.langchain import AgentSpec, create_agent
from plait.langchain.client.spec import name_of
from plait.testing import MockGateway, ScriptedChatModel, eventually, tool_call
from tests.integration.gateway.conftest import MakeGateway
from tests.integration.gateway.hosting import AGENT, SHARED_SCOPE, authorization, jwt, turn

pytestmark = pytest.mark.anyio

QUICK = ReconnectPolicy(first_delay_seconds=0.01, longest_delay_seconds=0.02)
AGENT_NAME = (
    f"Agent365SDK/2.0.0 ({platform.system()}; Python {platform.python_version()}; LangChain)"
)


@tool
def send(to: str) -> str:
    """Send by hand."""
    return f"by hand to {to}"


def service(gateway: MockGateway, **options: Any) -> McpToolRegistrationService:
    settings: dict[str, Any] = {
        "endpoint": gateway.url,
        "environ": {},
        "retry": QUICK,
        "server_options": {"reconnect": {"max_attempts": 1}, "connect_timeout": 20},
    }
    return McpToolRegistrationService(**{**settings, **options})


async def registered(
    gateway: MockGateway, tokens: Any = None, context: Any = None, **options: Any
) -> Registration:
    """Register one turn, by default of a user whose token is known."""
    async with service(gateway, **options) as registering:
        if tokens is None:
            return await registering.register(None, None, context or turn(), token())
        return await registering.register(tokens, "agentic", context)


def token(scope: str = SHARED_SCOPE, **claims: Any) -> str:
    said: dict[str, Any] = {"oid": "ann", "tid": "tenant", **claims}
    return jwt(aud=scope.rpartition("/")[0], **said)


def names_of(agent: Any) -> list[str]:
    return [name_of(one) for one in AgentSpec.of(agent).tools]


def model(*turns: Any) -> ScriptedChatModel:
    return ScriptedChatModel([*turns, "done"])


async def test_an_agent_gets_the_tools_of_its_servers_after_its_own(gateway: MockGateway) -> None:
    context = turn()
    tokens, asked = authorization(context, token)
    own = create_agent(model([tool_call("mail__send", to="bob")]), [send], system_prompt="Hi.")

    async with service(gateway) as registering:
        agent = await registering.add_tool_servers_to_agent(own, tokens, "agentic", context)

        assert names_of(agent) == ["send", "book", "find", "mail__send"]
        assert names_of(own) == ["send"]
        assert AgentSpec.of(agent).options == {"system_prompt": "Hi."}
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "Write to Bob."}]})
        assert state["messages"][2].text == "sent to bob"
        report = registering.registration_of(agent)
        assert report.servers == ("calendar", "files", "mail")
        assert report.problems == ()
    assert asked == [SHARED_SCOPE]


async def test_what_was_added_in_an_earlier_turn_is_replaced(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        agent: Any = AgentSpec(model(), [send])
        for _ in range(3):
            agent = await registering.add_tool_servers_to_agent(agent, None, None, turn(), token())

        assert names_of(agent) == ["send", "book", "find", "mail__send"]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_headers_are_those_of_the_platform(gateway: MockGateway, version: Any) -> None:
    sender = {"id": "user-1", "agenticAppBlueprintId": "blueprint"}
    shared = token()
    async with service(gateway, api_version=version) as registering:
        await registering.register(None, None, turn(**{"from": sender}), shared)

    (discovery,) = gateway.requests("discovery")
    common = {"authorization": f"Bearer {shared}", "user-agent": AGENT_NAME}
    channels = {"x-ms-channel-id": "msteams", "x-ms-subchannel-id": "email"}
    agent = {"x-ms-agentid": "blueprint"}
    requests = gateway.requests("mail")
    assert [one.rpc_method for one in requests] == ["server/discover", "tools/list"]
    if version == 1:
        assert discovery.path == f"/agents/{AGENT}/mcpServers"
        assert _platform_headers(discovery) == common
        agent = {}
    else:
        assert discovery.path == f"/agents/v2/{AGENT}/mcpServers"
        correlation = {"x-ms-correlation-id": "message-1"}
        assert _platform_headers(discovery) == {**common, **channels, **agent, **correlation}
    assert all(_platform_headers(one) == {**common, **channels, **agent} for one in requests)


def _platform_headers(record: Any) -> dict[str, str]:
    ours = ("x-ms", "authorization", "user-agent")
    return {name: value for name, value in record.headers.items() if name.startswith(ours)}


async def test_a_hundred_turns_cause_one_discovery_per_user_and_one_connection_per_server(
    gateway: MockGateway,
) -> None:
    tokens = {user: token(oid=user) for user in ("ann", "bob")}
    async with service(gateway) as registering:
        for number in range(100):
            user = ("ann", "bob")[number % 2]
            context = turn(**{"id": f"message-{number}", "from": {"id": user}})
            found = await registering.register(None, None, context, tokens[user])
            assert len(found.tools) == 3

    assert len(gateway.requests("discovery")) == 2
    for server in ("mail", "calendar", "files"):
        opened = [one for one in gateway.requests(server) if one.rpc_method == "server/discover"]
        assert len(opened) == 2


async def test_users_who_write_at_the_same_time_are_never_mixed_up(gateway: MockGateway) -> None:
    gateway.add_server("mail", [{**SEND_AS, "name": "send"}])
    async with service(gateway) as registering:

        async def write(user: str, number: int) -> None:
            context = turn(**{"from": {"id": user}})
            found = await registering.register(None, None, context, token(oid=user, n=number))
            (mail,) = [one for one in found.tools if one.name == "send"]
            await mail.ainvoke({"to": user})

        await asyncio.gather(
            *(write(user, number) for number in range(10) for user in ("ann", "bob", "cid"))
        )

    calls = [one for one in gateway.requests("mail") if one.rpc_method == "tools/call"]
    assert len(calls) == 30
    for call in calls:
        owner = claim(call.headers["authorization"][7:], "oid")
        assert call.json["params"]["arguments"] == {"to": owner}


SEND_AS = {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}}


async def test_a_server_with_its_own_audience_gets_a_token_of_its_own(
    make_gateway: MakeGateway,
) -> None:
    details = {
        "mail": {"audience": "mail-app", "scope": "Tools.ListInvoke.All"},
        "files": {"audience": "files-app"},
        "calendar": {"scope": "McpServers.Calendar.All"},
    }
    gateway = make_gateway(details=details, require_token=True)
    context = turn()
    tokens, asked = authorization(context, token)

    found = await registered(gateway, tokens, context)

    assert found.problems == ()
    assert asked == [SHARED_SCOPE, "files-app/.default", "mail-app/Tools.ListInvoke.All"]


async def test_one_expired_token_of_three_costs_one_server(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(details={"mail": {"audience": "mail-app"}}, require_token=True)
    context = turn()

    def expired_for_mail(scope: str) -> str:
        late = -10 if scope.startswith("mail-app") else 3600
        return token(scope) if late > 0 else jwt(expires_in=late)

    tokens, _ = authorization(context, expired_for_mail)
    found = await registered(gateway, tokens, context)

    assert found.servers == ("calendar", "files")
    assert list(found.failures) == ["mail"]
    address = f"{gateway.url}/agents/servers/mail"
    assert found.problems == (f"mail ({address}): Authentication token has expired",)
    error = found.failures["mail"]
    assert isinstance(error, TokenError)
    assert (error.server, error.url) == ("mail", address)
    assert gateway.requests("mail") == []


async def test_a_token_that_is_not_given_out_costs_one_server(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(details={"mail": {"audience": "a"}, "files": {"audience": "b"}})
    context = turn()

    def some(scope: str) -> str:
        if scope.startswith("a/"):
            raise OSError("AADSTS82008")
        return "" if scope.startswith("b/") else token(scope)

    tokens, _ = authorization(context, some)
    found = await registered(gateway, tokens, context)

    assert found.servers == ("calendar",)
    reasons = {name: str(error) for name, error in found.failures.items()}
    text = "Failed to obtain token for MCP server"
    assert reasons == {
        "files": f"{text} 'files' (scope: b/.default)",
        "mail": f"{text} 'mail' (scope: a/.default): OSError: AADSTS82008",
    }


@pytest.mark.parametrize("fault", ["mail=500", "mail=404", "mail=garbage", "mail=slow:60"])
async def test_a_broken_server_costs_its_own_tools_and_is_reported_by_name(
    make_gateway: MakeGateway, fault: str
) -> None:
    gateway = make_gateway(fail=[fault])
    seconds = 4 if "slow" in fault else 20
    options = {"reconnect": {"max_attempts": 1}, "connect_timeout": seconds}
    async with service(gateway, server_options=options) as registering:
        agent = await registering.add_tool_servers_to_agent(
            AgentSpec(model()), None, None, turn(), token()
        )

        assert names_of(agent) == ["book", "find"]
        assert list(registering.registration_of(agent).failures) == ["mail"]
        (problem,) = registering.registration_of(agent).problems
        assert problem.startswith(f"mail ({gateway.url}/agents/servers/mail): ")


@pytest.mark.parametrize("kind", ["malformed", "duplicate"])
async def test_a_bad_entry_is_skipped_and_reported(make_gateway: MakeGateway, kind: str) -> None:
    gateway = make_gateway(fail=[f"discovery={kind}"])
    found = await registered(gateway)

    assert found.servers == ("calendar", "files", "mail")
    (skipped,) = found.skipped
    assert skipped.name == ("malformed" if kind == "malformed" else "calendar")


@pytest.mark.parametrize("fault", ["discovery=429:0.01x2", "discovery=500x2", "discovery=503x1"])
async def test_a_gateway_that_comes_right_is_asked_again(
    make_gateway: MakeGateway, fault: str
) -> None:
    gateway = make_gateway(fail=[fault])
    found = await registered(gateway)

    assert len(found.servers) == 3
    assert len(gateway.requests("discovery")) == (2 if fault.endswith("x1") else 3)


@pytest.mark.parametrize(
    ("fault", "options", "text", "status", "retry_after"),
    [
        ("429:60", {}, "HTTP 429", 429, 60.0),
        ("403", {}, "HTTP 403", 403, None),
        ("slow:20", {"timeout_seconds": 0.3}, "no answer in", None, None),
        ("garbage", {}, "Failed to parse MCP server configuration", 200, None),
    ],
    ids=["more time than there is", "refused", "too slow", "not JSON"],
)
async def test_a_gateway_that_cannot_help_is_asked_once_and_named(
    make_gateway: MakeGateway,
    fault: str,
    options: dict[str, Any],
    text: str,
    status: int | None,
    retry_after: float | None,
) -> None:
    gateway = make_gateway(fail=[f"discovery={fault}"])
    secret = token()
    async with service(gateway, **options) as registering:
        with pytest.raises(DiscoveryError, match=text) as caught:
            await registering.register(None, None, turn(), secret)

    error = caught.value
    assert (error.status, error.retry_after) == (status, retry_after)
    assert error.url == f"{gateway.url}/agents/v2/{AGENT}/mcpServers"
    assert secret not in str(error)
    assert len(gateway.requests("discovery")) == 1


async def test_while_the_gateway_is_down_its_last_list_serves(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    mine = token()
    async with service(gateway, ttl_seconds=0) as registering:
        await registering.register(None, None, turn(), mine)
        gateway.faults.set("discovery=500")

        found = await registering.register(None, None, turn(), mine)
        assert len(found.servers) == 3
        asked = len(gateway.requests("discovery"))
        await registering.register(None, None, turn(), mine)
        assert len(gateway.requests("discovery")) == asked

    async with service(gateway, ttl_seconds=0) as registering:
        gateway.faults.set()
        await registering.register(None, None, turn(), mine)
        gateway.faults.set("discovery=401")
        with pytest.raises(DiscoveryError):
            await registering.register(None, None, turn(), mine)


async def test_a_token_that_was_renewed_by_exchange_keeps_the_list_of_its_user(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway()
    owners = iter(["ann", "ann", "bob"])

    class Host:
        """Exchanges a new token each time."""

        async def exchange_token(self, *args: object, **options: object) -> Any:
            return SimpleNamespace(token=token(oid=next(owners), jti=str(uuid4())))

    async with service(gateway, ttl_seconds=0) as registering:
        await registering.register(Host(), "agentic", turn())
        gateway.faults.set("discovery=500")

        again = await registering.register(Host(), "agentic", turn())
        assert len(again.servers) == 3
        with pytest.raises(DiscoveryError):
            await registering.register(Host(), "agentic", turn())


async def test_servers_of_one_name_at_two_addresses_are_two_servers(
    make_gateway: MakeGateway,
) -> None:
    details: dict[str, dict[str, Any]] = {"mail": {}}
    gateway = make_gateway(details=details)
    async with service(gateway, ttl_seconds=0) as registering:
        first = await registering.register(None, None, turn(), token())
        details["mail"]["url"] = f"{gateway.url}/agents/servers/mail/"
        second = await registering.register(None, None, turn(), token())

        assert first.servers == second.servers == ("calendar", "files", "mail")
        assert [one.name for one in first.tools] == [one.name for one in second.tools]
        for found in (first, second):
            (mail,) = [one for one in found.tools if one.name == "send"]
            await mail.ainvoke({"to": "bob"})

    calls = [one.path for one in gateway.requests("mail") if one.rpc_method == "tools/call"]
    assert calls == ["/agents/servers/mail", "/agents/servers/mail/"]


async def test_no_gateway_can_read_the_environment_by_an_address(
    make_gateway: MakeGateway,
) -> None:
    elsewhere = make_gateway()
    details: dict[str, Any] = {"mail": {"url": f"{elsewhere.url}/agents/servers/${{HOME}}"}}
    gateway = make_gateway(details=details)
    found = await registered(gateway)

    assert list(found.failures) == ["mail"]
    assert elsewhere.requests("${HOME}")


async def test_a_server_with_a_name_that_cannot_be_used_loses_only_itself(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway(details={"files": {"mcpServerName": "team/wiki"}})
    found = await registered(gateway)

    assert found.servers == ("calendar", "mail")
    assert [one.name for one in found.tools] == ["book", "send"]
    assert list(found.failures) == ["team/wiki"]
    assert "team/wiki" in " ".join(found.problems)


def test_an_option_of_servers_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigError, match="connect_timeout"):
        McpToolRegistrationService(server_options={"connect_timout": 5})


async def test_lists_are_cached_for_one_token_each(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway(details={"mail": {"headers": {"X-Key": "personal"}}})
    tokens = [token(oid=user) for user in ("ann", "bob")]
    async with service(gateway) as registering:
        for _ in range(3):
            for each in tokens:
                await registering.register(None, None, turn(), each)

    assert len(gateway.requests("discovery")) == 2
    assert gateway.requests("mail")[0].headers["x-key"] == "personal"
    assert "x-key" not in gateway.requests("files")[0].headers


async def test_production_without_a_token_is_an_error(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        with pytest.raises(TokenError, match="Failed to obtain authentication token"):
            await registering.register(None, None, turn())
        with pytest.raises(TokenError, match="has expired"):
            await registering.register(None, None, turn(), jwt(expires_in=-1))
        context = turn(recipient={"id": "agent"})
        with pytest.raises(ConfigError, match="agentic_app_id is required"):
            await registering.register(None, None, context, jwt())

    assert gateway.requests() == []


async def test_an_agent_without_an_identity_is_known_by_its_token(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        context = turn(recipient={"id": "agent"})
        await registering.register(None, None, context, token(appid="application"))

    assert gateway.requests("discovery")[0].path == "/agents/v2/application/mcpServers"


def manifest(tmp_path: Path, gateway: MockGateway, **entries: dict[str, Any]) -> Path:
    path = tmp_path / "ToolingManifest.json"
    listed = [
        {"mcpServerName": name, **entries.get(name, {})} for name in ("mail", "calendar", "files")
    ]
    path.write_text(json.dumps({"mcpServers": listed}))
    return path


async def test_development_needs_no_token(gateway: MockGateway, tmp_path: Path) -> None:
    options = {"manifest": manifest(tmp_path, gateway), "environ": {"ENVIRONMENT": "Development"}}
    async with service(gateway, **options) as registering:
        found = await registering.register(None, None, turn())

    assert found.servers == ("mail", "calendar", "files")
    assert gateway.requests("discovery") == []
    assert all("authorization" not in one.headers for one in gateway.requests())


async def test_development_takes_tokens_from_the_environment(
    gateway: MockGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {
        "PYTHON_ENVIRONMENT": "Development",
        "BEARER_TOKEN_MAIL": "Bearer for-mail",
        "BEARER_TOKEN_CALENDAR": jwt(expires_in=-5),
        "BEARER_TOKEN": "for-all",
    }
    path = manifest(
        tmp_path,
        gateway,
        files={"headers": {"authorization": "Key mine"}},
        mail={"audience": "own"},
    )
    async with service(gateway, manifest=path, environ=environ) as registering:
        found = await registering.register(None, None, turn())

    assert found.servers == ("mail", "files")
    (problem,) = found.problems
    assert problem.startswith(f"calendar ({gateway.url}/agents/servers/calendar): ")
    assert problem.endswith("BEARER_TOKEN_CALENDAR: Authentication token has expired")
    sent = {name: gateway.requests(name)[0].headers["authorization"] for name in ("mail", "files")}
    assert sent == {"mail": "Bearer for-mail", "files": "Key mine"}


async def test_development_may_ask_the_gateway_too(gateway: MockGateway) -> None:
    environ = {"ENVIRONMENT": "Development", "BEARER_TOKEN": "opaque"}
    async with service(gateway, environ=environ, use_manifest=False) as registering:
        found = await registering.register(None, None, turn())

    assert len(found.servers) == 3
    assert gateway.requests("discovery")[0].headers["authorization"] == "Bearer opaque"


def test_an_option_that_does_not_exist_is_an_error() -> None:
    options: Any = {"enpoint": "http://localhost"}

    with pytest.raises(ConfigError, match='did you mean "endpoint"'):
        McpToolRegistrationService(**options)


async def test_a_token_is_not_sent_to_other_machines_in_the_open(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway(details={"mail": {"url": "http://mail.example/mcp"}})
    found = await registered(gateway)

    assert found.servers == ("calendar", "files")
    text = "a token is not sent over plain HTTP to another machine"
    assert found.problems == (f"mail (http://mail.example/mcp): {text}",)


async def test_an_agent_of_which_nothing_is_known_is_a_type_error(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        with pytest.raises(TypeError, match="GatewayToolsMiddleware"):
            await registering.add_tool_servers_to_agent(
                foreign_create_agent(model(), []), None, None, turn(), token()
            )
        with pytest.raises(ConfigError, match="agent is required"):
            await registering.add_tool_servers_to_agent(
                None,  # pyright: ignore[reportArgumentType]
                None,
                None,
                turn(),
                token(),
            )
        with pytest.raises(ConfigError, match="turn_context is required"):
            await registering.register(None, None, None, token())  # pyright: ignore[reportArgumentType]

    assert gateway.requests() == []


async def test_a_service_that_is_closed_leaves_nothing_behind(gateway: MockGateway) -> None:
    before = set(threading.enumerate())
    registering = service(gateway)
    found = await registering.register(None, None, turn(), token())

    await registering.aclose()

    await eventually(lambda: set(threading.enumerate()) <= before)
    with pytest.raises(plait.ClientClosedError):
        await found.tools[0].ainvoke({})
    with pytest.raises(plait.ClientClosedError):
        await registering.register(None, None, turn(), token())


def test_code_without_a_loop_registers_too(gateway: MockGateway) -> None:
    registering = service(gateway)
    try:
        agent = registering.add_tool_servers_to_agent_blocking(
            AgentSpec(model([tool_call("send", to="bob")])), None, None, turn(), token()
        )
        state = agent.invoke({"messages": [{"role": "user", "content": "Hello"}]})
        assert state["messages"][2].text == "sent to bob"
        sent = registering.send_chat_history_from_messages_blocking(turn(), state["messages"])
        assert sent.succeeded
    finally:
        registering.close()


async def test_one_service_lists_the_tools_of_one_server(gateway: MockGateway) -> None:
    async with service(gateway) as registering:
        listed = await registering.configuration.list_tool_servers(AGENT, token())
        (mail,) = [one for one in listed if one.mcp_server_name == "mail"]

        (found,) = await registering.configuration.get_mcp_client_tools("mail", mail)

        assert (found.wire_name, found.description) == ("send", "Send a mail.")
        with pytest.raises(ConfigError, match="Invalid MCP Server Configuration"):
            await registering.configuration.get_mcp_client_tools("mail", None)
    meta = gateway.requests("mail")[0].json["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mail Client"
