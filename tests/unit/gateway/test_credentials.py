"""Which token each server gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from plait.errors import TokenError
from plait.gateway import GatewayServer
from plait.gateway.credentials import DEFAULT_SCOPE, GatewaySettings, TokenSource
from tests.unit.gateway.turns import jwt, turn

pytestmark = pytest.mark.anyio

DEVELOPMENT = GatewaySettings(development=True, use_manifest=True)


def server(name: str, **fields: Any) -> GatewayServer:
    entry: dict[str, Any] = {"url": f"https://{name}.example", **fields}
    return GatewayServer(mcp_server_name=name, mcp_server_unique_name=name, **entry)


@dataclass
class Token:
    token: str | None


@dataclass
class Exchange:
    """Gives out a token for each scope."""

    tokens: dict[str, str]
    asked: list[tuple[list[str] | None, str | None]] = field(default_factory=list[Any])

    async def exchange_token(
        self,
        context: Any,
        scopes: list[str] | None = None,
        auth_handler_id: str | None = None,
    ) -> Token:
        self.asked.append((scopes, auth_handler_id))
        assert scopes is not None
        return Token(self.tokens.get(scopes[0]))


async def test_in_development_the_nearest_variable_counts() -> None:
    environ = {
        "BEARER_TOKEN_MAIL": "bearer for-mail",
        "BEARER_TOKEN_MY_FILES": "for-files",
        "BEARER_TOKEN": "Bearer for-all",
    }
    source = TokenSource(DEVELOPMENT, environ=environ, token=jwt())

    found = await source.for_servers([server("mail"), server("my-files"), server("other")], "")

    assert found.tokens == {"mail": "for-mail", "my-files": "for-files", "other": "for-all"}
    assert found.failures == {}


async def test_no_token_is_sent_over_plain_http_to_another_machine() -> None:
    source = TokenSource(DEVELOPMENT, environ={"BEARER_TOKEN": "for-all"})
    near, far = (server(name, url=f"http://{name}/mcp") for name in ("localhost", "mail.example"))

    found = await source.for_servers([near, far], "")

    assert found.tokens == {"localhost": "for-all"}
    assert "plain HTTP" in str(found.failures["mail.example"])
    without = await TokenSource(DEVELOPMENT, environ={}).for_servers([far], "")
    assert without.tokens == {"mail.example": ""}


async def test_in_development_the_token_of_the_caller_comes_last_and_none_is_fine() -> None:
    given = jwt()

    with_one = TokenSource(DEVELOPMENT, environ={}, token=given)
    without = TokenSource(DEVELOPMENT, environ={})

    assert (await with_one.for_servers([server("mail")], given)).tokens == {"mail": given}
    assert (await without.for_servers([server("mail")], "")).tokens == {"mail": ""}
    assert await without.shared() == ""


async def test_in_development_a_server_with_its_own_audience_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = TokenSource(DEVELOPMENT, environ={"BEARER_TOKEN": "for-all"})

    await source.for_servers([server("mail", audience="own"), server("other")], "")

    assert caplog.messages == ["mail needs its own token, and gets the shared one if any"]


async def test_a_token_that_the_caller_gives_is_checked_everywhere() -> None:
    for settings in (DEVELOPMENT, GatewaySettings()):
        with pytest.raises(TokenError, match="Invalid JWT token format"):
            await TokenSource(settings, environ={}, token="opaque").shared()


async def test_in_production_each_scope_is_exchanged_once_and_variables_are_not_read() -> None:
    own, shared = jwt(aud="own"), jwt(aud="shared")
    exchange = Exchange({DEFAULT_SCOPE: shared, "own/.default": own})
    source = TokenSource(
        GatewaySettings(),
        authorization=exchange,
        auth_handler_name="agentic",
        turn=turn(),
        environ={"BEARER_TOKEN": "no", "BEARER_TOKEN_A": "no"},
    )

    token = await source.shared()
    servers = [server("a"), server("b", audience="own"), server("c", audience="own")]
    found = await source.for_servers(servers, token)

    assert found.tokens == {"a": shared, "b": own, "c": own}
    assert exchange.asked == [([DEFAULT_SCOPE], "agentic"), (["own/.default"], "agentic")]
    assert own not in repr(found)


async def test_an_exchange_without_an_answer_is_an_error_about_the_token() -> None:
    class Silent:
        async def exchange_token(self, *_: Any, **__: Any) -> None:
            return None

    source = TokenSource(
        GatewaySettings(),
        authorization=Silent(),  # pyright: ignore[reportArgumentType]  # as some hosts do
        auth_handler_name="agentic",
        turn=turn(),
        environ={},
    )

    with pytest.raises(TokenError, match="Failed to obtain authentication token"):
        await source.shared()
