"""Servers that use a login to reach what they should not reach, or to get what is not theirs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from plait import AuthRequiredError, ConnectError, OAuth, PlaitError, Toolbox
from plait.cli.logins import probe_sign_in
from plait.client import FileTokenStore
from plait.client.config.servers import HttpServer
from plait.client.transports.auth.authorization_servers import EndpointGuard, exchange
from plait.testing import OAuthServer, oauth_server
from tests.integration.auth.helpers import Browser, Shop, whole_text

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CANARY = "canary-9f31"


class Internal:
    """A service inside a network, which answers everything with a secret."""

    def __init__(self, status: int = 200, body: str = CANARY) -> None:
        self.requests: list[str] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(f"{self.command} {self.path}")
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Routed(httpx2.AsyncHTTPTransport):
    """Stands for the Internet: a public name leads to a server of this test."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__()
        self._name = name
        self._url = urlsplit(url)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host == self._name:
            request.url = request.url.copy_with(
                scheme="http", host=self._url.hostname, port=self._url.port
            )
        return await super().handle_async_request(request)


@contextmanager
def public_server() -> Generator[tuple[OAuthServer, dict[str, Any]]]:
    """Run a server that is reached as https://shop.example; yield it and its configuration."""
    with oauth_server() as server:
        transport = partial(Routed, "shop.example", server.issuer)
        server.issuer = "https://shop.example"

        def factory(**options: Any) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(transport=transport(), **options)

        yield server, {"url": "https://shop.example/mcp", "httpx_client_factory": factory}


async def failure(servers: dict[str, Any]) -> PlaitError:
    """Return the error of a sign-in that must not succeed."""
    async with Toolbox(servers) as box:
        with pytest.raises(AuthRequiredError) as caught:
            await box.tools()
    return caught.value


PLACES = (
    "authorization server",
    "metadata of the resource",
    "token_endpoint",
    "registration_endpoint",
)


@pytest.mark.parametrize("place", PLACES)
async def test_a_public_server_cannot_make_this_machine_contact_itself(
    tmp_path: Path, place: str
) -> None:
    browser = Browser()
    with Internal() as internal, public_server() as (server, entry):
        if place == "authorization server":
            server.advertise(internal.url)
        elif place == "metadata of the resource":
            server.challenge_with(f"{internal.url}/.well-known/oauth-protected-resource")
        else:
            server.describe(**{place: f"{internal.url}/admin"})
        auth: dict[str, Any] = {"store": FileTokenStore(tmp_path), "on_redirect": browser}
        if place == "token_endpoint":
            server.add_client("me", secret="s3cret-value")
            auth = {"store": FileTokenStore(tmp_path), "grant": "client_credentials"}
            auth |= {"client_id": "me", "client_secret": "s3cret-value"}

        error = await failure({"shop": {**entry, "auth": OAuth(**auth)}})

    assert internal.requests == []
    assert "127.0.0.1, which is a loopback address" in str(error)


async def test_a_probe_contacts_nothing_inside_either(tmp_path: Path) -> None:
    with Internal() as internal, public_server() as (server, entry):
        server.advertise(internal.url)
        probe = await probe_sign_in(
            "shop",
            HttpServer(url=entry["url"], http_client_factory=entry["httpx_client_factory"]),
        )

    assert internal.requests == []
    assert "loopback address" in (probe.failure or "")


async def test_a_refused_authorization_server_does_not_hide_a_good_one(tmp_path: Path) -> None:
    with Internal() as internal, public_server() as (server, entry):
        server.advertise(internal.url, server.issuer)
        server.describe(code_challenge_methods_supported=["plain"])
        auth = OAuth(store=FileTokenStore(tmp_path), on_redirect=Browser())

        error = await failure({"shop": {**entry, "auth": auth}})

    assert internal.requests == []
    assert "https://shop.example" in str(error)
    assert "PKCE" in str(error)


async def test_of_many_authorization_servers_only_a_few_are_contacted(shop: Shop) -> None:
    with Internal() as internal:
        shop.server.advertise(*(f"{internal.url}/{number}" for number in range(100)))
        await shop.refused(on_redirect=Browser())
        probe = await probe_sign_in("shop", HttpServer(url=shop.server.url))

    assert {request.rpartition("/")[2] for request in internal.requests} <= {
        "openid-configuration",
        *(str(number) for number in range(5)),
    }
    assert probe.failure is not None


async def test_an_endpoint_that_answers_byte_by_byte_is_given_up() -> None:
    async def drip() -> AsyncGenerator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=drip()))
    async with httpx2.AsyncClient(transport=transport) as client:
        request = httpx2.Request("GET", "https://shop.example/.well-known/x")
        with pytest.raises(ConnectError, match=r"no whole answer in 0\.2 s"):
            await exchange(client.send, EndpointGuard("https://shop.example/mcp"), request, 0.2)


async def test_a_redirect_leads_nowhere_inside(tmp_path: Path) -> None:
    class Redirecting(Routed):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if "authorization-server" in request.url.path:
                return httpx2.Response(302, headers={"Location": f"{internal.url}/admin"})
            return await super().handle_async_request(request)

    with Internal() as internal, oauth_server() as server:
        transport = Redirecting("shop.example", server.issuer)
        server.issuer = "https://shop.example"
        entry = {
            "url": "https://shop.example/mcp",
            "httpx_client_factory": partial(httpx2.AsyncClient, transport=transport),
            "auth": OAuth(store=FileTokenStore(tmp_path), on_redirect=Browser()),
        }

        await failure({"shop": entry})

    assert internal.requests == []


@pytest.mark.parametrize("endpoint", ["token_endpoint", "registration_endpoint"])
async def test_endpoints_without_https_get_nothing(shop: Shop, endpoint: str) -> None:
    shop.server.describe(**{endpoint: "http://login.example/x"})
    reason = "http://login.example is refused: authorization servers need https"

    await shop.refused(reason, on_redirect=Browser())


@pytest.mark.parametrize(
    "address", ["http://login.example/authorize", "file:///etc/passwd", "javascript:alert(1)//"]
)
async def test_a_browser_is_sent_only_to_https(shop: Shop, address: str) -> None:
    browser = Browser()
    shop.server.describe(authorization_endpoint=address)
    await shop.refused(on_redirect=browser)

    assert browser.addresses == []


@pytest.mark.parametrize("methods", [None, [], ["plain"]], ids=str)
async def test_a_server_without_s256_gets_no_registration_and_no_person(
    shop: Shop, methods: list[str] | None
) -> None:
    browser = Browser()
    shop.server.describe(code_challenge_methods_supported=methods)
    await shop.refused("does not declare PKCE with S256", on_redirect=browser)

    assert (browser.addresses, shop.count("register")) == ([], (0,))


ANSWERS = {
    "text": (500, CANARY),
    "a code": (400, json.dumps({"error": CANARY, "error_description": CANARY})),
    "no token": (200, json.dumps({"access_token": [CANARY]})),
    "a redirect": (302, CANARY),
}


@pytest.mark.parametrize("endpoint", ["token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize("answer", ANSWERS)
async def test_no_error_quotes_what_an_endpoint_answered(
    shop: Shop, endpoint: str, answer: str
) -> None:
    with Internal(*ANSWERS[answer]) as internal:
        shop.server.describe(**{endpoint: internal.url})
        reason = "the authorization server at 127.0.0.1 refused"
        error = await shop.refused(reason, on_redirect=Browser())

    assert internal.requests == ["POST /"]
    assert CANARY not in whole_text(error)


async def visit(address: str) -> int:
    async with httpx2.AsyncClient() as client:
        return (await client.get(address)).status_code


async def test_the_listener_ignores_answers_without_its_state(shop: Shop) -> None:
    seen: list[int] = []

    class Attacked(Browser):
        async def _visit(self, address: str) -> None:
            back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
            queries = ("?code=evil", "?code=evil&state=", "?error=denied", "?error=x&state=y")
            seen.extend([await visit(back + query) for query in queries])
            await super()._visit(address)

    assert await shop.whoami(on_redirect=Attacked()) == "client-1 with read"
    assert seen == [400, 400, 400, 400]


async def test_connections_without_a_request_end_with_the_sign_in(shop: Shop) -> None:
    """Browsers open connections ahead of time; they would end with a traceback each."""
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    class Ahead(Browser):
        async def _visit(self, address: str) -> None:
            back = urlsplit(parse_qs(urlsplit(address).query)["redirect_uri"][0])
            held.append(await asyncio.open_connection(back.hostname, back.port))
            await super()._visit(address)

    async with shop.box(on_redirect=Ahead()) as box:
        await box.tools()
        [(reader, writer)] = held
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_an_answer_that_comes_before_anything_was_asked_is_ignored(shop: Shop) -> None:
    """The listener is there while the client registers: nobody can answer yet."""
    seen: list[int] = []

    class Registering(Routed):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/register":
                (uri,) = json.loads(await request.aread())["redirect_uris"]
                seen.extend([await visit(f"{uri}?code=evil"), await visit(f"{uri}?error=x")])
            return await super().handle_async_request(request)

    entry = shop.entry(on_redirect=Browser())
    transport = Registering("", shop.server.issuer)
    entry["shop"]["httpx_client_factory"] = partial(httpx2.AsyncClient, transport=transport)
    async with Toolbox(entry) as box:
        assert (await box.call("shop", "add", {"a": 1, "b": 2})).text == "3"

    assert seen == [400, 400]
