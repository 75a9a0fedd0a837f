"""People may take their time, and a server may name several places to sign in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plait import AuthRequiredError, CallTimeoutError, Toolbox
from plait.testing import eventually, free_port, oauth_server
from tests.integration.auth.helpers import Browser, Keeper, config, signed_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class SlowBrowser(Browser):
    """Belongs to a person who takes longer than a call may take."""

    async def _visit(self, address: str) -> None:
        await asyncio.sleep(1.3)
        await super()._visit(address)


async def test_signing_in_during_a_call_takes_nothing_from_its_time(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        servers = config(server, tmp_path, on_redirect=SlowBrowser())
        async with Toolbox(servers, default_tool_timeout=1.0) as box:
            await box.tools()
            calls = (box.call("shop", "write_note", {"text": text}) for text in "ab")
            said = {result.text for result in await asyncio.gather(*calls)}

    assert said == {"noted: a", "noted: b"}


async def test_nobody_is_waited_for_longer_than_the_login_allows(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        settings = config(server, tmp_path, on_redirect=lambda _: None, wait_seconds=0.2)
        async with Toolbox(settings) as box:
            await box.tools()
            with pytest.raises(Exception, match="no sign-in within") as caught:
                await box.call("shop", "write_note", {"text": "x"})

    assert not isinstance(caught.value, CallTimeoutError)


async def test_a_person_is_sent_away_only_when_somebody_calls(tmp_path: Path) -> None:
    keeper = Keeper()
    with oauth_server() as server:
        async with Toolbox({"shop": {"url": server.url, "auth": keeper}}) as box:
            with pytest.raises(AuthRequiredError):
                await box.tools()
            # After the pause a server without persons would be tried again.
            await eventually(lambda: box.status()["shop"].state == "idle")

            assert box.status()["shop"].needs_auth
            assert len(keeper.sent_to) == 1
            with pytest.raises(AuthRequiredError):
                await box.tools()
            assert len(keeper.sent_to) == 2


async def test_of_several_authorization_servers_one_that_answers_is_used(tmp_path: Path) -> None:
    with oauth_server() as server:
        server.advertise(f"http://127.0.0.1:{free_port()}", server.issuer)

        await signed_in(server, tmp_path)

        assert server.counts["authorization_code"] == 1


async def test_of_several_authorization_servers_the_one_with_the_login_is_used(
    tmp_path: Path,
) -> None:
    with oauth_server() as server, oauth_server() as other:
        await signed_in(server, tmp_path)
        server.advertise(other.issuer, server.issuer)
        server.revoke()

        await signed_in(server, tmp_path)

        assert server.counts["authorization_code"] == 2
        assert server.counts["register"] == 1
        assert other.counts["metadata"] == 0


async def test_of_several_authorization_servers_the_configured_one_is_used(tmp_path: Path) -> None:
    with oauth_server() as server, oauth_server() as other:
        server.advertise(other.issuer, server.issuer)

        await signed_in(server, tmp_path, issuer=server.issuer)

        assert server.counts["authorization_code"] == 1
        assert other.counts["metadata"] == 0


async def test_an_authorization_server_that_calls_itself_otherwise_gets_nothing(
    tmp_path: Path,
) -> None:
    with oauth_server() as server:
        server.advertise(server.issuer.replace("127.0.0.1", "localhost"))
        servers = config(server, tmp_path, on_redirect=Browser())
        async with Toolbox(servers) as box:
            with pytest.raises(AuthRequiredError, match="has the issuer"):
                await box.tools()

        assert server.counts["metadata"] > 0
        assert server.counts["register"] == server.counts["authorize"] == 0
