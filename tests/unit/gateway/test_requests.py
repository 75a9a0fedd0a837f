"""Requests to the gateway: where it is, tokens that hold, and headers made of a turn."""

from __future__ import annotations

import base64
import platform
from dataclasses import dataclass, field
from typing import Any

import pytest

from plait import ConfigError
from plait.errors import TokenError
from plait.gateway import GatewayRequestOptions, GatewayServer
from plait.gateway.credentials import (
    DEFAULT_SCOPE,
    NO_APPLICATION,
    PLATFORM,
    PLATFORM_APPLICATION,
    GatewaySettings,
    TokenSource,
    agent_of,
    caller_of,
    channels_of,
    check_token,
    claim,
    claims_of,
    discovery_headers,
    is_expired,
    scope_for,
    settings_from,
    tool_headers,
    user_key,
)
from plait.gateway.history import history_of
from tests.unit.gateway.turns import Sender, jwt, turn

DEVELOPMENT = GatewaySettings(development=True, use_manifest=True)
LANGCHAIN = GatewayRequestOptions(orchestrator_name="LangChain")
AGENT_NAME = (
    f"Agent365SDK/2.0.0 ({platform.system()}; Python {platform.python_version()}; LangChain)"
)
EXPIRED, NO_END = (
    f"Authentication token {what}" for what in ("has expired", "does not contain expiration claim")
)
NO_JSON = "Failed to decode JWT token payload"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"PYTHON_ENVIRONMENT": "Development"}, True),
        ({"PYTHON_ENVIRONMENT": " development "}, True),
        ({"PYTHON_ENVIRONMENT": "Production", "ENVIRONMENT": "Development"}, False),
        ({"PYTHON_ENVIRONMENT": "", "ENVIRONMENT": "Development"}, True),
        ({"ENVIRONMENT": "staging", "ASPNETCORE_ENVIRONMENT": "Development"}, False),
        ({"ASPNETCORE_ENVIRONMENT": "Development", "DOTNET_ENVIRONMENT": "x"}, True),
        ({"DOTNET_ENVIRONMENT": "Development"}, True),
        ({"NODE_ENV": "development"}, False),
    ],
)
def test_the_first_variable_with_a_value_says_whether_this_is_development(
    environ: dict[str, str], expected: bool
) -> None:
    settings = settings_from(environ)

    assert (settings.development, settings.use_manifest) == (expected, expected)


def test_urls_are_those_of_the_hosted_gateway_unless_another_is_named() -> None:
    settings = settings_from({})
    named = settings_from({"MCP_PLATFORM_ENDPOINT": " http://localhost:5309// "})

    assert settings.endpoint == PLATFORM
    assert settings.discovery_url("agent") == f"{PLATFORM}/agents/v2/agent/mcpServers"
    assert settings.server_url("mail") == f"{PLATFORM}/agents/servers/mail"
    assert settings.history_url == f"{PLATFORM}/agents/real-time-threat-protection/chat-message"
    first = settings_from({}, api_version=1)
    assert first.discovery_url("agent") == f"{PLATFORM}/agents/agent/mcpServers"
    hostile = f"{PLATFORM}/agents/v2/..%2F..%2Fevil%3Fx%3D1%23/mcpServers"
    assert settings.discovery_url("../../evil?x=1#") == hostile
    assert named.endpoint == "http://localhost:5309"


def test_a_manifest_makes_development_and_development_may_do_without_one() -> None:
    with_one = settings_from({}, use_manifest=True)
    without = settings_from({"ENVIRONMENT": "Development"}, use_manifest=False)

    assert (with_one.development, with_one.use_manifest) == (True, True)
    assert (without.development, without.use_manifest) == (True, False)


@pytest.mark.parametrize("address", ["localhost:5309", "ftp://x", "http://", "gateway"])
def test_an_address_that_is_none_is_an_error(address: str) -> None:
    with pytest.raises(ConfigError, match="MCP_PLATFORM_ENDPOINT"):
        settings_from({"MCP_PLATFORM_ENDPOINT": address})


def _payload(content: bytes) -> str:
    return f"a.{base64.urlsafe_b64encode(content).decode().rstrip('=')}.c"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("", "Authentication token is required"),
        ("   ", "Authentication token is required"),
        ("one.two", "Invalid JWT token format"),
        ("one.two.three.four", "Invalid JWT token format"),
        ("a.*.c", NO_JSON),
        (_payload(b"not json"), NO_JSON),
        (_payload(b"[1]"), NO_JSON),
        ("a.ü.c", NO_JSON),
        (jwt(exp=None), NO_END),
        (jwt(exp=0), NO_END),
        (jwt(exp="soon"), NO_END),
        (jwt(exp=1), EXPIRED),
    ],
)
def test_a_token_that_is_none_or_over_is_refused(token: str, text: str) -> None:
    with pytest.raises(TokenError) as caught:
        check_token(token)

    assert caught.value.message == text


def test_a_token_holds_until_its_last_second_and_other_texts_never_expire() -> None:
    check_token(jwt(exp=1000), now=1000)
    with pytest.raises(TokenError):
        check_token(jwt(exp=1000), now=1000.5)
    assert [is_expired(one) for one in ("opaque", "", jwt(exp=1))] == [False, False, True]


def test_claims_are_read_from_any_padding_and_the_first_that_is_made_counts() -> None:
    for size in range(8):
        assert claims_of(jwt(name="x" * size))["name"] == "x" * size
    tokens = (jwt(azp="b"), jwt(appid="a", azp="b"), "opaque")
    assert [claim(token, "appid", "azp") for token in tokens] == ["b", "a", ""]


def server(name: str = "mail", **fields: Any) -> GatewayServer:
    entry: dict[str, Any] = {"url": f"https://{name}.example", **fields}
    return GatewayServer(mcp_server_name=name, mcp_server_unique_name=name, **entry)


@pytest.mark.parametrize(
    ("audience", "scope", "expected"),
    [
        (None, None, DEFAULT_SCOPE),
        (None, "McpServers.Mail.All", DEFAULT_SCOPE),
        ("default", None, DEFAULT_SCOPE),
        (PLATFORM_APPLICATION, None, DEFAULT_SCOPE),
        (PLATFORM_APPLICATION.upper(), None, DEFAULT_SCOPE),
        (f"api://{PLATFORM_APPLICATION}", "McpServers.Mail.All", DEFAULT_SCOPE),
        ("other", None, "other/.default"),
        ("other", "Tools.ListInvoke.All", "other/Tools.ListInvoke.All"),
        ("api://other", None, "api://other/.default"),
    ],
)
def test_a_server_wants_the_shared_token_or_one_of_its_own(
    audience: str | None, scope: str | None, expected: str
) -> None:
    assert scope_for(server(audience=audience, scope=scope), GatewaySettings()) == expected


@pytest.mark.parametrize("audience", ["mine", "api://mine"])
def test_the_audience_of_a_configured_scope_is_shared_too(audience: str) -> None:
    settings = GatewaySettings(scope="api://mine/.default")

    assert scope_for(server(audience=audience), settings) == "api://mine/.default"
    assert scope_for(server(audience="yours"), settings) == "yours/.default"


@pytest.mark.parametrize(
    ("agent", "token", "expected"),
    [
        ("instance", jwt(appid="app"), "instance"),
        ("", jwt(appid="app"), ""),
        (None, jwt(appid="app", azp="other"), "app"),
        (None, jwt(azp="other"), "other"),
        (None, jwt(), ""),
        (None, "", NO_APPLICATION),
        (None, "opaque", ""),
    ],
)
def test_an_agent_is_known_by_its_instance_or_its_token(
    agent: str | None, token: str, expected: str
) -> None:
    assert agent_of(turn(agent=agent), token) == expected


def test_an_agent_names_itself_by_the_first_thing_that_is_known() -> None:
    token = jwt(xms_par_app_azp="parent", appid="app", azp="azp")
    blueprint = turn(from_property=Sender(agentic_app_blueprint_id="blueprint"))

    assert caller_of(blueprint, token, "name") == "blueprint"
    for other, expected in (
        (token, "parent"),
        (jwt(appid="app", azp="azp"), "app"),
        (jwt(azp="azp"), "azp"),
        ("", "name"),
    ):
        assert caller_of(turn(), other, "name") == expected
    assert caller_of(None, "", "name") == "name"


@pytest.mark.parametrize(
    ("channel", "expected"),
    [("msteams", ("msteams", "")), ("msteams:email", ("msteams", "email")), (None, ("", ""))],
)
def test_a_channel_may_have_another_inside(channel: str | None, expected: tuple[str, str]) -> None:
    assert channels_of(turn(channel_id=channel)) == expected


ANN = jwt(oid="ann", tid="t", nonce=1)


@pytest.mark.parametrize(
    ("token", "other", "is_same"),
    [
        (ANN, jwt(oid="ann", tid="t", nonce=2), True),
        (ANN, jwt(oid="bob", tid="t"), False),
        (ANN, jwt(oid="ann", tid="other tenant"), False),
        ("opaque 1", "opaque 2", False),
        (jwt(appid="app", nonce=1), jwt(appid="app", nonce=2), False),
    ],
    ids=["renewed", "another owner", "another tenant", "no claims", "no owner"],
)
def test_a_user_is_the_owner_of_a_token_that_the_gateway_accepted(
    token: str, other: str, is_same: bool
) -> None:
    assert (user_key(turn(), token) == user_key(turn(), other)) is is_same
    # Claims of a token that nobody checked may be forged.
    assert user_key(turn(), token, accepted=False) != user_key(turn(), other, accepted=False)


@pytest.mark.parametrize(
    "other",
    [
        {"from_property": Sender(id="user-2")},
        {"from_property": Sender(aad_object_id="x")},
        {"from_property": None},
        {"agent": "another"},
        {"channel_id": "msteams"},
    ],
)
def test_users_channels_and_agents_are_kept_apart(other: dict[str, Any]) -> None:
    assert user_key(turn(), ANN) == user_key(turn(id="message-2", text="other"), ANN)
    assert user_key(turn(), ANN) != user_key(turn(**other), ANN)


@pytest.mark.parametrize("between", ["", "\0", ":", "1:"])
def test_no_id_can_pretend_to_be_two(between: str) -> None:
    one = turn(from_property=Sender(id=f"a{between}b", aad_object_id="c"))
    other = turn(from_property=Sender(id="a", aad_object_id=f"b{between}c"))

    assert user_key(one, ANN) != user_key(other, ANN)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"conversation": None}, "Conversation ID"),
        ({"id": None}, "Message ID"),
        ({"text": None}, "User message"),
    ],
)
def test_a_turn_that_lacks_an_id_or_a_text_is_an_error(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        history_of(turn(**changes), [])

    assert caught.value.message == f"{what} is required but not found in turn context"


def test_what_is_not_known_is_not_sent() -> None:
    environ = {"AGENT365_APPLICATION_NAME": "mine"}
    silent = turn(channel_id=None)

    headers = tool_headers(GatewaySettings(), GatewayRequestOptions(), turn=silent, environ=environ)

    agent = AGENT_NAME.replace("; LangChain", "")
    assert headers == {"User-Agent": agent, "x-ms-agentid": "mine"}


def test_what_no_header_may_hold_is_written_as_in_a_url() -> None:
    odd = turn(id="grüße\r\nX-Evil: 1", channel_id="teams ☂:50%")

    headers = discovery_headers(GatewaySettings(), LANGCHAIN, token="abc", turn=odd)

    assert headers["x-ms-correlation-id"] == "gr%C3%BC%C3%9Fe%0D%0AX-Evil: 1"
    assert headers["x-ms-channel-id"] == "teams %E2%98%82"
    assert headers["x-ms-subchannel-id"] == "50%"


@dataclass
class Exchange:
    """Gives out a token for each scope; without tokens it says nothing at all."""

    tokens: dict[str, str] | None
    requests: list[tuple[list[str] | None, str | None]] = field(default_factory=list[Any])

    async def exchange_token(
        self, context: Any, scopes: list[str] | None = None, auth_handler_id: str | None = None
    ) -> Any:
        self.requests.append((scopes, auth_handler_id))
        assert scopes is not None
        return self.tokens and type("Token", (), {"token": self.tokens.get(scopes[0])})()


def in_production(exchange: Exchange) -> TokenSource:
    return TokenSource(
        GatewaySettings(),
        authorization=exchange,
        auth_handler_name="agentic",
        turn=turn(),
        environ={"BEARER_TOKEN": "no", "BEARER_TOKEN_A": "no"},
    )


@pytest.mark.anyio
async def test_in_development_the_nearest_variable_counts(caplog: pytest.LogCaptureFixture) -> None:
    environ = {
        "BEARER_TOKEN_MAIL": "bearer for-mail",
        "BEARER_TOKEN_MY_FILES": "for-files",
        "BEARER_TOKEN": "Bearer for-all",
    }
    source = TokenSource(DEVELOPMENT, environ=environ, token=jwt())
    names = [server(), server("my-files"), server("other"), server("own", audience="own")]

    found = await source.for_servers(names, "")

    shared = {"other": "for-all", "own": "for-all"}
    assert found.tokens == {"mail": "for-mail", "my-files": "for-files", **shared}
    assert found.failures == {}
    assert caplog.messages == ["own needs its own token, and gets the shared one if any"]


@pytest.mark.anyio
async def test_no_token_is_sent_over_plain_http_to_another_machine() -> None:
    source = TokenSource(DEVELOPMENT, environ={"BEARER_TOKEN": "for-all"})
    near, far = (server(name, url=f"http://{name}/mcp") for name in ("localhost", "mail.example"))

    found = await source.for_servers([near, far], "")

    assert found.tokens == {"localhost": "for-all"}
    assert "plain HTTP" in str(found.failures["mail.example"])
    without = await TokenSource(DEVELOPMENT, environ={}).for_servers([far], "")
    assert without.tokens == {"mail.example": ""}


@pytest.mark.anyio
async def test_in_development_the_token_of_the_caller_comes_last_and_none_is_fine() -> None:
    token = jwt()
    with_one = TokenSource(DEVELOPMENT, environ={}, token=token)
    without = TokenSource(DEVELOPMENT, environ={})

    assert (await with_one.for_servers([server()], token)).tokens == {"mail": token}
    assert (await without.for_servers([server()], "")).tokens == {"mail": ""}
    assert await without.shared() == ""


@pytest.mark.anyio
@pytest.mark.parametrize("settings", [DEVELOPMENT, GatewaySettings()])
async def test_a_token_of_the_caller_is_checked_everywhere(settings: GatewaySettings) -> None:
    with pytest.raises(TokenError, match="Invalid JWT token format"):
        await TokenSource(settings, environ={}, token="opaque").shared()


@pytest.mark.anyio
async def test_in_production_each_scope_is_exchanged_once_and_variables_are_not_read() -> None:
    own, shared = jwt(aud="own"), jwt(aud="shared")
    exchange = Exchange({DEFAULT_SCOPE: shared, "own/.default": own})
    source = in_production(exchange)

    token = await source.shared()
    servers = [server("a"), server("b", audience="own"), server("c", audience="own")]
    found = await source.for_servers(servers, token)

    assert found.tokens == {"a": shared, "b": own, "c": own}
    assert exchange.requests == [([DEFAULT_SCOPE], "agentic"), (["own/.default"], "agentic")]
    assert own not in repr(found)


@pytest.mark.anyio
async def test_an_exchange_without_an_answer_is_an_error_about_the_token() -> None:
    with pytest.raises(TokenError, match="Failed to obtain authentication token"):
        await in_production(Exchange(None)).shared()
