"""Nothing that was handed out is ever shown, and nothing leaves the origin it was meant for."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from plait import OAuth, PlaitError, Toolbox
from plait.client import FileTokenStore
from plait.testing import OAuthServer, oauth_server
from tests.integration.auth.helpers import Browser, config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

SECRET = "canary-5d41402abc4b"


def everything_of(error: BaseException | None) -> str:
    """Return the texts of an error and of all that led to it."""
    texts: list[str] = []
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


async def life_of_a_login(server: OAuthServer, folder: Path) -> list[str]:
    """Sign in, step up, refresh and lose the login; return all that could be seen of it."""
    seen: list[str] = []
    auth = OAuth(store=FileTokenStore(folder), on_redirect=Browser())
    async with Toolbox({"shop": {"url": server.url, "auth": auth}}) as box:
        await box.call("shop", "whoami")
        await box.call("shop", "write_note", {"text": "x"})
        server.end_access()
        await box.call("shop", "whoami")
        seen += [repr(auth), str(box.status().to_dict()), repr(box)]
    server.refuse_next(10)
    async with Toolbox(config(server, folder)) as box:
        for _ in range(2):
            with pytest.raises(PlaitError) as caught:
                await box.call("shop", "whoami")
            seen += [everything_of(caught.value), str(caught.value.to_dict())]
            server.revoke()
        seen += [str(box.status().to_dict()), repr(box.status())]
    return seen


async def test_tokens_and_codes_are_in_no_error_status_repr_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with oauth_server() as server:
        seen = await life_of_a_login(server, tmp_path)
        seen += [caplog.text, *capfd.readouterr()]

        assert len(server.issued) > 6
        assert "the login is refused" in "".join(seen)
        assert [secret for secret in server.issued if secret in "\n".join(seen)] == []


async def test_a_server_that_quotes_the_token_gives_nothing_away(tmp_path: Path) -> None:
    with oauth_server() as server:
        server.refuse_next(1000)
        servers = config(server, tmp_path, on_redirect=Browser())
        async with Toolbox(servers) as box:
            with pytest.raises(PlaitError) as caught:
                await box.tools()
            seen = everything_of(caught.value) + str(box.status().to_dict())

        assert "the credentials *** are not good enough" in seen
        assert [secret for secret in server.issued if secret in seen] == []


async def test_a_client_secret_is_in_no_error_repr_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with oauth_server() as server:
        auth = {
            "type": "oauth",
            "grant": "client_credentials",
            "client_id": "robot",
            "client_secret": SECRET,
            "store": FileTokenStore(tmp_path),
        }
        async with Toolbox({"shop": {"url": server.url, "auth": auth}}) as box:
            with pytest.raises(PlaitError) as caught:
                await box.tools()
            seen = [everything_of(caught.value), repr(box), str(box.status().to_dict())]

        assert SECRET not in "\n".join([*seen, caplog.text])


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_credentials_do_not_follow_a_redirect_to_another_origin(
    status: int, tmp_path: Path
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.close()

    other = await asyncio.start_server(listen, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/mcp"

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            f"HTTP/1.1 {status} Elsewhere\r\nLocation: {address}\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    first = await asyncio.start_server(redirect, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{first.sockets[0].getsockname()[1]}/mcp"
    auth = OAuth(store=FileTokenStore(tmp_path))
    headers = {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}
    server = {"url": url, "auth": auth, "headers": headers, "reconnect": {"max_attempts": 1}}
    async with first, other, Toolbox({"shop": server}) as box:
        with pytest.raises(PlaitError):
            await box.tools()

    assert heard == []
