"""A person in front of a browser, and programs that share a folder of logins."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import traceback
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from plait import AuthRequiredError, OAuth, Toolbox
from plait.client import FileTokenStore, HttpServer
from plait.testing import OAuthServer


class Browser:
    """Follows the address it is shown, as a person who says yes to everything."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.addresses: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, address: str) -> None:
        self.addresses.append(address)
        task = asyncio.get_running_loop().create_task(self._visit(address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _visit(self, address: str) -> None:
        # Not with httpx2, whose log would tell what the page was called with.
        self.pages.append(await asyncio.to_thread(_page_at, address))


def _page_at(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


class Keeper:
    """A provider object as applications write it."""

    redirect_url = "https://app.example.com/callback"
    client_metadata: ClassVar[dict[str, Any]] = {
        "redirect_uris": ["https://app.example.com/callback"],
        "client_name": "My App",
        "scope": "read extra",
    }

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.sent_to: list[str] = []

    def client_information(self) -> Any:
        return self.kept.get("client")

    def save_client_information(self, client: Any) -> None:
        self.kept["client"] = client

    def tokens(self) -> Any:
        return self.kept.get("tokens")

    async def save_tokens(self, tokens: Any) -> None:
        self.kept["tokens"] = tokens

    async def redirect_to_authorization(self, address: str) -> None:
        self.sent_to.append(address)

    def save_code_verifier(self, verifier: str) -> None:
        self.kept["verifier"] = verifier

    def code_verifier(self) -> str:
        return self.kept["verifier"]


class Shop:
    """A protected server, and a folder for the logins of this machine."""

    def __init__(self, server: OAuthServer, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def auth(self, **settings: Any) -> OAuth:
        """Return settings that keep logins in the folder."""
        return OAuth(store=FileTokenStore(self.folder), **settings)

    def entry(self, **settings: Any) -> dict[str, Any]:
        """Return the configuration of the server."""
        return {"shop": {"url": self.server.url, "auth": self.auth(**settings)}}

    def http(self, **settings: Any) -> HttpServer:
        """Return the same as a value."""
        return HttpServer(url=self.server.url, auth=self.auth(**settings))

    def box(self, **settings: Any) -> Toolbox:
        """Return a toolbox for the server."""
        return Toolbox(self.entry(**settings))

    async def whoami(self, **settings: Any) -> str:
        """Return who the server takes a new client for."""
        async with self.box(**settings) as box:
            return (await box.call("shop", "whoami")).text

    async def sign_in(self, **settings: Any) -> Browser:
        """Sign a person in, and leave the login in the folder."""
        browser = Browser()
        await self.whoami(on_redirect=browser, **settings)
        return browser

    async def refused(self, match: str | None = None, **settings: Any) -> AuthRequiredError:
        """Return the error of a client that must not get in."""
        async with self.box(**settings) as box:
            with pytest.raises(AuthRequiredError, match=match) as caught:
                await box.tools()
            assert box.status()["shop"].needs_auth
        return caught.value

    @property
    def files(self) -> list[Path]:
        """The files of saved logins."""
        return list(self.folder.glob("*.json"))

    def saved(self) -> dict[str, Any]:
        """Return the only login."""
        (file,) = self.files
        return json.loads(file.read_text())

    def change(self, *, metadata: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        """Change the saved login, or what it says of the authorization server; return it."""
        login = self.saved() | fields
        login["authorization_server"] |= metadata or {}
        (file,) = self.files
        file.write_text(json.dumps(login))
        return login

    def count(self, *names: str) -> tuple[int, ...]:
        """Return how often the server was asked for some things."""
        return tuple(self.server.counts[name] for name in names)


def offering(**options: Any) -> pytest.MarkDecorator:
    """Let the fixture `shop` have an authorization server with these options."""
    return pytest.mark.parametrize("shop", [pytest.param(options, id="")], indirect=True)


def key_pair() -> tuple[str, str]:
    """Return a private key and its public one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


def whole_text(error: BaseException) -> str:
    """Return everything that an error and its causes say."""
    return "".join(traceback.format_exception(error)) + repr(error.__dict__)


def paste_from(shown: list[str]) -> str:
    """Return where a browser is sent to from the last address that was shown."""
    return httpx2.get(shown[-1]).headers["location"]


PROGRAM = """
import asyncio, sys
from plait import PlaitError, Toolbox

async def main():
    async with Toolbox({"shop": {"url": sys.argv[1], "auth": "oauth"}}) as box:
        await box.tools()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            print((await box.call("shop", "whoami")).text)
        except PlaitError as error:
            print(type(error).__name__, error)

asyncio.run(main())
"""


def program(server: OAuthServer, folder: Path) -> subprocess.Popen[str]:
    """Start another process that connects, waits for a line, and calls a tool."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, server.url],
        env={**os.environ, "PLAIT_TOKEN_DIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
