"""Every way to sign in: registered, described by a document, by secret, by key, by hand."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from plait import AuthRequiredError, ConfigError, ForbiddenError, OAuth, Toolbox
from plait.client import FileTokenStore, HttpServer, MemoryTokenStore, finish_sign_in
from plait.client.transports.auth.login import login_status, sign_in, sign_out
from plait.client.transports.auth.oauth import key_for
from plait.client.transports.auth.prompts import prompt_in_terminal
from plait.testing import eventually, free_port, oauth_server
from tests.integration.auth.helpers import Browser, Keeper, config, signed_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


async def whoami(settings: OAuth | dict[str, Any] | object, url: str) -> str:
    async with Toolbox({"shop": {"url": url, "auth": settings}}) as box:
        return (await box.call("shop", "whoami")).text


async def test_a_person_signs_in_in_a_browser_and_is_told_so(tmp_path: Path) -> None:
    with oauth_server() as server:
        browser = await signed_in(server, tmp_path)

        (page,) = browser.pages
        query = parse_qs(urlsplit(browser.addresses[0]).query)
        assert "Signed in" in page
        assert query["code_challenge_method"] == ["S256"]
        assert query["resource"] == [server.url]
        assert query["scope"] == ["read"]
        assert server.counts["register"] == 1


async def test_servers_on_the_older_transport_are_signed_in_to_too(tmp_path: Path) -> None:
    with oauth_server() as server:
        store = FileTokenStore(tmp_path)
        quiet = {"url": server.sse_url, "transport": "sse", "auth": OAuth(store=store)}
        asking = {**quiet, "auth": OAuth(store=store, on_redirect=Browser())}
        async with Toolbox({"shop": quiet}) as box:
            with pytest.raises(AuthRequiredError, match="plait auth login shop"):
                await box.tools()
            assert box.status()["shop"].needs_auth
        async with Toolbox({"shop": asking}) as box:
            assert (await box.call("shop", "whoami")).text == "client-1 with read"
        async with Toolbox({"shop": quiet}) as box:
            await box.tools()
            server.end_access()
            assert (await box.call("shop", "whoami")).text == "client-1 with read"

        assert server.counts["authorize"] == server.counts["refresh_token"] == 1


async def test_calls_that_wait_for_one_person_ask_once(tmp_path: Path) -> None:
    with oauth_server() as server:
        browser = Browser()
        async with Toolbox(config(server, tmp_path, on_redirect=browser)) as box:
            calls = (box.call("shop", "whoami") for _ in range(10))
            said = {result.text for result in await asyncio.gather(*calls)}

        assert said == {"client-1 with read"}
        assert len(browser.addresses) == 1


async def test_a_client_described_by_a_document_does_not_register(tmp_path: Path) -> None:
    document = "https://example.com/plait/client.json"
    with oauth_server() as server:
        settings = OAuth(
            store=FileTokenStore(tmp_path), client_metadata_url=document, on_redirect=Browser()
        )

        assert await whoami(settings, server.url) == f"{document} with read"
        assert server.counts["register"] == 0


async def test_a_client_registered_by_hand_is_used_as_it_is(tmp_path: Path) -> None:
    port = free_port()
    with oauth_server() as server:
        server.add_client(
            "by-hand", secret="pa55-word", redirect_uris=(f"http://127.0.0.1:{port}/callback",)
        )
        settings = OAuth(
            store=FileTokenStore(tmp_path),
            client_id="by-hand",
            client_secret="pa55-word",
            redirect_port=port,
            on_redirect=Browser(),
        )

        assert await whoami(settings, server.url) == "by-hand with read"
        assert server.counts["register"] == 0


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_signs_in_with_its_secret(method: str, tmp_path: Path) -> None:
    with oauth_server(scopes=("read", "list")) as server:
        server.add_client("robot", secret="pa55:word/+")
        settings = {
            "type": "oauth",
            "grant": "client_credentials",
            "client_id": "robot",
            "client_secret": "pa55:word/+",
            "issuer": server.issuer,
            "scope": "list extra",
            "token_endpoint_auth_method": method,
            "store": FileTokenStore(tmp_path),
        }

        assert await whoami(settings, server.url) == "robot with list extra read"
        server.end_access()
        assert await whoami(settings, server.url) == "robot with list extra read"
        assert server.counts["client_credentials"] == 2


async def test_a_program_renews_its_own_login_ahead_of_time() -> None:
    store = MemoryTokenStore()
    with oauth_server() as server:
        server.add_client("robot", secret="pa55word")
        settings = OAuth(
            grant="client_credentials", client_id="robot", client_secret="pa55word", store=store
        )
        assert await whoami(settings, server.url) == "robot with read"
        login = await store.load(key_for(settings, server.url))
        assert login is not None
        await store.save(replace(login, expires_at=time.time() + 10))
        server.counts.clear()

        assert await whoami(settings, server.url) == "robot with read"

        assert server.counts["client_credentials"] == 1
        assert server.counts["unauthorized"] == server.counts["metadata"] == 0


@pytest.mark.parametrize("in_file", [True, False])
async def test_a_program_signs_in_with_its_key(in_file: bool, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key.pem").write_text(private)
    given: dict[str, Any] = (
        {"private_key_file": str(tmp_path / "key.pem")} if in_file else {"private_key": private}
    )
    with oauth_server() as server:
        server.add_client("robot", public_key=public.decode())
        settings = OAuth(
            grant="client_credentials",
            client_id="robot",
            key_id="key-1",
            issuer=server.issuer,
            store=FileTokenStore(tmp_path / "logins"),
            **given,
        )

        assert await whoami(settings, server.url) == "robot with read"


async def test_a_wrong_secret_is_an_auth_error_without_the_secret(tmp_path: Path) -> None:
    with oauth_server() as server:
        server.add_client("robot", secret="right")
        settings = OAuth(
            grant="client_credentials",
            client_id="robot",
            client_secret="wrong-8f2a61",
            store=FileTokenStore(tmp_path),
        )
        with pytest.raises(AuthRequiredError, match="invalid_client") as caught:
            await whoami(settings, server.url)

        assert "wrong-8f2a61" not in f"{caught.value!r}{caught.value.to_dict()}"


async def test_credentials_go_to_no_other_authorization_server(tmp_path: Path) -> None:
    with oauth_server() as server:
        server.add_client("robot", secret="pa55word")
        for grant in ("client_credentials", "authorization_code"):
            settings = OAuth(
                grant=grant,
                client_id="robot",
                client_secret="pa55word",
                issuer="https://auth.example.com",
                store=FileTokenStore(tmp_path),
                on_redirect=None if grant == "client_credentials" else Browser(),
            )
            with pytest.raises(AuthRequiredError, match=r"issuer|metadata"):
                await whoami(settings, server.url)

        assert server.counts["client_credentials"] == server.counts["authorize"] == 0


async def test_a_tool_that_needs_more_scopes_makes_the_person_sign_in_for_them(
    tmp_path: Path,
) -> None:
    with oauth_server() as server:
        browser = Browser()
        async with Toolbox(config(server, tmp_path, on_redirect=browser)) as box:
            assert (await box.call("shop", "whoami")).text == "client-1 with read"
            assert (await box.call("shop", "write_note", {"text": "x"})).text == "noted: x"
            assert (await box.call("shop", "whoami")).text == "client-1 with read write"

        assert len(browser.addresses) == 2
        assert server.counts["register"] == 1


async def test_without_a_person_the_missing_scopes_are_named(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        async with Toolbox(config(server, tmp_path)) as box:
            with pytest.raises(ForbiddenError, match="plait auth login shop --scope write"):
                await box.call("shop", "write_note", {"text": "x"})

            assert (await box.call("shop", "add", {"a": 1, "b": 2})).text == "3"


async def test_where_there_is_no_browser_the_answer_is_pasted(tmp_path: Path) -> None:
    shown: list[str] = []

    def paste() -> str:
        return httpx2.get(shown[-1]).headers["location"]

    with oauth_server() as server:
        settings = OAuth(store=FileTokenStore(tmp_path))
        shop = HttpServer(url=server.url, auth=settings)
        login = await sign_in("shop", shop, prompt_in_terminal(shown.append, paste), "write")

        assert login is not None
        assert login.scope == "write read"
        status = await login_status("shop", shop)
        assert status is not None
        assert status.signed_in
        assert status.issuer == server.issuer
        assert status.renewable
        assert await whoami(settings, server.url) == "client-1 with write read"
        assert (await sign_out("shop", shop)).was_signed_in
        assert not (await sign_out("shop", shop)).was_signed_in
        with pytest.raises(AuthRequiredError):
            await whoami(settings, server.url)


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("http://127.0.0.1/callback?code=abc&state=other", "another attempt"),
        ("http://127.0.0.1/callback?error=access_denied", "access_denied"),
        ("what is this", "neither an address nor a code"),
    ],
)
async def test_a_wrong_answer_signs_nobody_in(pasted: str, said: str, tmp_path: Path) -> None:
    with oauth_server() as server:
        shop = HttpServer(url=server.url, auth=OAuth(store=FileTokenStore(tmp_path)))
        with pytest.raises(AuthRequiredError, match=said):
            await sign_in("shop", shop, prompt_in_terminal(lambda _: None, lambda: pasted))

        assert server.counts["authorization_code"] == 0


async def test_a_failed_login_leaves_the_one_before(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        shop = HttpServer(url=server.url, auth=OAuth(store=FileTokenStore(tmp_path)))
        with pytest.raises(AuthRequiredError):
            await sign_in("shop", shop, prompt_in_terminal(lambda _: None, lambda: "?error=no"))

        assert await whoami(shop.auth, server.url) == "client-1 with read"


async def test_functions_may_show_the_address_and_bring_the_answer(tmp_path: Path) -> None:
    shown: list[str] = []

    async def answer() -> str:
        return (await asyncio.to_thread(httpx2.get, shown[-1])).headers["location"]

    with oauth_server() as server:
        settings = OAuth(
            store=FileTokenStore(tmp_path),
            on_redirect=shown.append,
            on_callback=answer,
            redirect_uri="https://app.example.com/callback",
        )

        assert await whoami(settings, server.url) == "client-1 with read"
        assert "redirect_uri=https%3A%2F%2Fapp.example.com%2Fcallback" in shown[0]


async def test_nobody_who_signs_in_is_waited_for_only_so_long(tmp_path: Path) -> None:
    with oauth_server() as server:
        settings = config(server, tmp_path, on_redirect=lambda _: None, wait_seconds=0.2)
        async with Toolbox(settings) as box:
            with pytest.raises(AuthRequiredError, match="no sign-in within"):
                await box.tools()


async def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="client_id"):
        OAuth(grant="client_credentials")


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
            answer = httpx2.get(keeper.sent_to[-1]).headers["location"]
            await finish_sign_in(keeper, server.url, answer)

            await eventually(lambda: box.status()["shop"].state == "ready")
            assert (await box.call("shop", "whoami")).text == "client-1 with read extra"
            assert len(keeper.sent_to) == 1


async def test_a_call_right_after_the_sign_in_is_made() -> None:
    keeper = Keeper()
    with oauth_server() as server:
        async with Toolbox({"shop": {"url": server.url, "auth": keeper}}) as box:
            with pytest.raises(AuthRequiredError):
                await box.call("shop", "whoami")
            answer = httpx2.get(keeper.sent_to[-1]).headers["location"]
            await finish_sign_in(keeper, server.url, answer)
            assert (await box.call("shop", "whoami")).text == "client-1 with read extra"


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
    keeper = kind()
    with oauth_server() as server:
        with pytest.raises(AuthRequiredError, match="finish_sign_in"):
            await whoami(keeper, server.url)
        answer = httpx2.get(keeper.sent_to[-1]).headers["location"]
        later = kind()  # another process, which has what was kept and nothing else
        later.kept = dict(keeper.kept)

        await finish_sign_in(later, server.url, answer)

        assert await whoami(later, server.url) == "client-1 with read extra"
        assert later.kept["tokens"]["expires_at"] > 0

        restarted = kind()
        restarted.kept = dict(later.kept)
        server.end_access()
        assert await whoami(restarted, server.url) == "client-1 with read extra"
        assert server.counts["refresh_token"] == 1
