"""Every way to sign in: registered, described by a document, by secret, by key, by hand."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from blockbuster import blockbuster_ctx

from plait import AuthRequiredError, CallTimeoutError, ForbiddenError, Toolbox
from plait.cli.logins import login_status, sign_in, sign_out
from plait.client import finish_sign_in
from plait.client.transports.auth.sign_in import prompt_in_terminal
from plait.testing import eventually, free_port, oauth_server
from tests.integration.auth.helpers import Browser, Keeper, Shop, key_pair, offering, paste_from

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


async def test_a_person_signs_in_in_a_browser_and_is_told_so(shop: Shop) -> None:
    browser = await shop.sign_in()

    (page,) = browser.pages
    query = parse_qs(urlsplit(browser.addresses[0]).query)
    assert "Signed in" in page
    assert query["code_challenge_method"] == ["S256"]
    assert query["resource"] == [shop.server.url]
    assert query["scope"] == ["read"]
    assert shop.count("register") == (1,)


async def test_servers_on_the_older_transport_are_signed_in_to_too(shop: Shop) -> None:
    quiet = {"url": shop.server.sse_url, "transport": "sse", "auth": shop.auth()}
    async with Toolbox({"shop": quiet}) as box:
        with pytest.raises(AuthRequiredError, match="plait auth login shop"):
            await box.tools()
        assert box.status()["shop"].needs_auth
    async with Toolbox({"shop": {**quiet, "auth": shop.auth(on_redirect=Browser())}}) as box:
        assert (await box.call("shop", "whoami")).text == "client-1 with read"
    async with Toolbox({"shop": quiet}) as box:
        await box.tools()
        shop.server.end_access()
        assert (await box.call("shop", "whoami")).text == "client-1 with read"

    assert shop.count("authorize", "refresh_token") == (1, 1)


async def test_calls_that_wait_for_one_person_ask_once(shop: Shop) -> None:
    browser = Browser()
    async with shop.box(on_redirect=browser) as box:
        results = await asyncio.gather(*(box.call("shop", "whoami") for _ in range(10)))

    assert {result.text for result in results} == {"client-1 with read"}
    assert len(browser.addresses) == 1


async def test_a_client_described_by_a_document_does_not_register(shop: Shop) -> None:
    document = "https://example.com/plait/client.json"

    name = await shop.whoami(client_metadata_url=document, on_redirect=Browser())

    assert (name, shop.count("register")) == (f"{document} with read", (0,))


async def test_a_client_registered_by_hand_is_used_as_it_is(shop: Shop) -> None:
    port = free_port()
    uri = f"http://127.0.0.1:{port}/callback"
    shop.server.add_client("by-hand", secret="pa55-word", redirect_uris=(uri,))
    client = {"client_id": "by-hand", "client_secret": "pa55-word", "redirect_port": port}

    name = await shop.whoami(**client, on_redirect=Browser())

    assert (name, shop.count("register")) == ("by-hand with read", (0,))


@offering(scopes=("read", "list"))
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_signs_in_with_its_secret(method: str, shop: Shop) -> None:
    shop.server.add_client("robot", secret="pa55:word/+")
    settings = {
        "grant": "client_credentials",
        "client_id": "robot",
        "client_secret": "pa55:word/+",
        "issuer": shop.server.issuer,
        "scopes": ("list", "extra"),
        "token_endpoint_auth_method": method,
    }

    assert await shop.whoami(**settings) == "robot with list extra read"
    shop.server.end_access()
    assert await shop.whoami(**settings) == "robot with list extra read"
    assert shop.count("client_credentials") == (2,)


ROBOT = {"grant": "client_credentials", "client_id": "robot", "client_secret": "pa55word"}


async def test_a_program_renews_its_own_login_ahead_of_time(shop: Shop) -> None:
    shop.server.add_client("robot", secret="pa55word")
    assert await shop.whoami(**ROBOT) == "robot with read"
    shop.change(expires_at=time.time() + 10)
    shop.server.counts.clear()

    assert await shop.whoami(**ROBOT) == "robot with read"

    assert shop.count("client_credentials", "unauthorized", "metadata") == (1, 0, 0)


@pytest.mark.parametrize("in_file", [True, False])
async def test_a_program_signs_in_with_its_key(in_file: bool, shop: Shop, tmp_path: Path) -> None:
    private, public = key_pair()
    file = tmp_path / "key.pem"
    file.write_text(private)
    key: dict[str, Any] = {"private_key_file": str(file)} if in_file else {"private_key": private}
    shop.server.add_client("robot", public_key=public)
    robot = {"grant": "client_credentials", "client_id": "robot", "issuer": shop.server.issuer}

    assert await shop.whoami(**robot, key_id="key-1", **key) == "robot with read"


@pytest.mark.parametrize("grant", ["client_credentials", "authorization_code"])
async def test_credentials_go_to_no_other_authorization_server(grant: str, shop: Shop) -> None:
    shop.server.add_client("robot", secret="pa55word")
    browser = None if grant == "client_credentials" else Browser()
    other = {"grant": grant, "issuer": "https://auth.example.com", "on_redirect": browser}

    await shop.refused(r"issuer|metadata", **{**ROBOT, **other})

    assert shop.count("client_credentials", "authorize") == (0, 0)


async def test_a_tool_that_needs_more_scopes_makes_the_person_sign_in_for_them(
    shop: Shop,
) -> None:
    browser = Browser()
    async with shop.box(on_redirect=browser) as box:
        assert (await box.call("shop", "whoami")).text == "client-1 with read"
        assert (await box.call("shop", "write_note", {"text": "x"})).text == "noted: x"
        assert (await box.call("shop", "whoami")).text == "client-1 with read write"

    assert len(browser.addresses) == 2
    assert shop.count("register") == (1,)


async def test_without_a_person_the_missing_scopes_are_named(shop: Shop) -> None:
    await shop.sign_in()
    async with shop.box() as box:
        with pytest.raises(ForbiddenError, match="plait auth login shop --scope write"):
            await box.call("shop", "write_note", {"text": "x"})

        assert (await box.call("shop", "add", {"a": 1, "b": 2})).text == "3"


async def test_where_there_is_no_browser_the_answer_is_pasted(shop: Shop) -> None:
    shown: list[str] = []
    server = shop.http()
    ask = prompt_in_terminal(shown.append, lambda: paste_from(shown))

    login = await sign_in("shop", server, ask, "write")

    assert login is not None
    assert login.scope == "write read"
    status = await login_status("shop", server)
    assert status is not None
    assert (status.signed_in, status.issuer) == (True, shop.server.issuer)
    assert status.renewable
    assert await shop.whoami() == "client-1 with write read"
    assert (await sign_out("shop", server)).was_signed_in
    assert not (await sign_out("shop", server)).was_signed_in
    await shop.refused()


@pytest.mark.parametrize(
    ("pasted", "message"),
    [
        ("http://127.0.0.1/callback?code=abc&state=other", "another attempt"),
        ("http://127.0.0.1/callback?error=access_denied", "access_denied"),
        ("what is this", "neither an address nor a code"),
    ],
)
async def test_a_wrong_answer_signs_nobody_in(pasted: str, message: str, shop: Shop) -> None:
    with pytest.raises(AuthRequiredError, match=message):
        await sign_in("shop", shop.http(), prompt_in_terminal(lambda _: None, lambda: pasted))

    assert shop.count("authorization_code") == (0,)


async def test_a_failed_login_leaves_the_one_before(shop: Shop) -> None:
    await shop.sign_in()
    with pytest.raises(AuthRequiredError):
        await sign_in("shop", shop.http(), prompt_in_terminal(lambda _: None, lambda: "?error=no"))

    assert await shop.whoami() == "client-1 with read"


async def test_functions_may_show_the_address_and_bring_the_answer(shop: Shop) -> None:
    shown: list[str] = []

    async def answer() -> str:
        return await asyncio.to_thread(paste_from, shown)

    uri = "https://app.example.com/callback"
    name = await shop.whoami(on_redirect=shown.append, on_callback=answer, redirect_uri=uri)

    assert name == "client-1 with read"
    assert "redirect_uri=https%3A%2F%2Fapp.example.com%2Fcallback" in shown[0]


async def test_nobody_who_signs_in_is_waited_for_only_so_long(shop: Shop) -> None:
    await shop.refused("no sign-in within", on_redirect=lambda _: None, wait_seconds=0.2)
    await shop.sign_in()
    async with shop.box(on_redirect=lambda _: None, wait_seconds=0.2) as box:
        await box.tools()
        with pytest.raises(Exception, match="no sign-in within") as caught:
            await box.call("shop", "write_note", {"text": "x"})

    assert not isinstance(caught.value, CallTimeoutError)


class SlowBrowser(Browser):
    """Belongs to a person who takes longer than a call may take."""

    async def _visit(self, address: str) -> None:
        await asyncio.sleep(1.3)
        await super()._visit(address)


async def test_signing_in_during_a_call_takes_nothing_from_its_time(shop: Shop) -> None:
    await shop.sign_in()
    async with Toolbox(shop.entry(on_redirect=SlowBrowser()), default_tool_timeout=1.0) as box:
        await box.tools()
        calls = (box.call("shop", "write_note", {"text": text}) for text in "ab")
        texts = {result.text for result in await asyncio.gather(*calls)}

    assert texts == {"noted: a", "noted: b"}


async def test_signing_in_renewing_and_stepping_up_never_block(shop: Shop) -> None:
    with blockbuster_ctx():
        async with shop.box(on_redirect=Browser()) as box:
            await box.call("shop", "whoami")
            shop.server.end_access()
            await box.call("shop", "whoami")
            assert (await box.call("shop", "write_note", {"text": "x"})).text == "noted: x"

    assert shop.count("refresh_token") == (1,)


# Provider objects


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_finished_sign_in_wakes_the_connection_that_waits_for_it(
    *, elsewhere: bool
) -> None:
    keeper = Keeper()
    with oauth_server() as server:
        box = Toolbox({"shop": {"url": server.url, "auth": keeper}})
        async with AsyncExitStack() as stack:
            if not elsewhere:
                await stack.enter_async_context(box)
            stack.push_async_callback(box.aclose)
            with pytest.raises(AuthRequiredError):
                await box.call("shop", "whoami")
            await finish_sign_in(keeper, server.url, paste_from(keeper.sent_to))

            await eventually(lambda: box.status()["shop"].state == "ready")
            assert (await box.call("shop", "whoami")).text == "client-1 with read extra"
            assert len(keeper.sent_to) == 1


async def test_a_call_right_after_the_sign_in_is_made() -> None:
    keeper = Keeper()
    with oauth_server() as server:
        async with Toolbox({"shop": {"url": server.url, "auth": keeper}}) as box:
            with pytest.raises(AuthRequiredError):
                await box.call("shop", "whoami")
            await finish_sign_in(keeper, server.url, paste_from(keeper.sent_to))
            assert (await box.call("shop", "whoami")).text == "client-1 with read extra"


async def test_a_person_is_sent_away_only_when_somebody_calls() -> None:
    keeper = Keeper()
    with oauth_server() as server:
        async with Toolbox({"shop": {"url": server.url, "auth": keeper}}) as box:
            for times in (1, 2):
                with pytest.raises(AuthRequiredError):
                    await box.tools()
                # After the pause a server without persons would be tried again.
                await eventually(lambda: box.status()["shop"].state == "idle")

                assert box.status()["shop"].needs_auth
                assert len(keeper.sent_to) == times


class JavaScriptKeeper(Keeper):
    """The same, spelled as in JavaScript."""

    redirectUrl = Keeper.redirect_url  # noqa: N815
    clientMetadata = Keeper.client_metadata  # noqa: N815
    clientInformation = Keeper.client_information  # noqa: N815
    saveClientInformation = Keeper.save_client_information  # noqa: N815
    saveTokens = Keeper.save_tokens  # noqa: N815
    redirectToAuthorization = Keeper.redirect_to_authorization  # noqa: N815
    saveCodeVerifier = Keeper.save_code_verifier  # noqa: N815
    codeVerifier = Keeper.code_verifier  # noqa: N815
    redirect_url = client_metadata = client_information = save_client_information = None  # pyright: ignore[reportAssignmentType]
    save_tokens = redirect_to_authorization = save_code_verifier = code_verifier = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize("kind", [Keeper, JavaScriptKeeper])
async def test_a_provider_object_sends_the_person_away_and_takes_the_answer_later(
    kind: type[Keeper],
) -> None:
    def another_process(before: Keeper) -> Keeper:
        """Return a provider that has what was kept, and nothing else."""
        after = kind()
        after.kept = dict(before.kept)
        return after

    async def whoami(keeper: Keeper) -> str:
        async with Toolbox({"shop": {"url": server.url, "auth": keeper}}) as box:
            return (await box.call("shop", "whoami")).text

    keeper = kind()
    with oauth_server() as server:
        with pytest.raises(AuthRequiredError, match="finish_sign_in"):
            await whoami(keeper)
        later = another_process(keeper)

        await finish_sign_in(later, server.url, paste_from(keeper.sent_to))

        assert await whoami(later) == "client-1 with read extra"
        assert later.kept["tokens"]["expires_at"] > 0
        server.end_access()
        assert await whoami(another_process(later)) == "client-1 with read extra"
        assert server.counts["refresh_token"] == 1


# Authorization servers


async def test_of_several_authorization_servers_one_that_answers_is_used(shop: Shop) -> None:
    shop.server.advertise(f"http://127.0.0.1:{free_port()}", shop.server.issuer)

    await shop.sign_in()

    assert shop.count("authorization_code") == (1,)


@pytest.mark.parametrize("is_known", [True, False], ids=["the one of the login", "the set one"])
async def test_of_several_authorization_servers_the_one_with_the_login_is_used(
    shop: Shop, is_known: bool
) -> None:
    with oauth_server() as other:
        if is_known:
            await shop.sign_in()
            shop.server.revoke()
        shop.server.advertise(other.issuer, shop.server.issuer)

        await shop.sign_in(issuer=None if is_known else shop.server.issuer)

        assert shop.count("authorization_code", "register") == (1 + is_known, 1)
        assert other.counts["metadata"] == 0


async def test_an_authorization_server_that_calls_itself_otherwise_gets_nothing(
    shop: Shop,
) -> None:
    shop.server.advertise(shop.server.issuer.replace("127.0.0.1", "localhost"))

    await shop.refused("has the issuer", on_redirect=Browser())

    assert shop.server.counts["metadata"] > 0
    assert shop.count("register", "authorize") == (0, 0)
