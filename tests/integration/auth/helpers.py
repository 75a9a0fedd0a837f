"""A person in front of a browser, and programs that share a folder of logins."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

from plait import OAuth, Toolbox
from plait.client import FileTokenStore
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


def config(server: OAuthServer, folder: Path, **settings: Any) -> dict[str, Any]:
    """Return the configuration of the protected server, with its logins in a folder."""
    auth = OAuth(store=FileTokenStore(folder), **settings)
    return {"shop": {"url": server.url, "auth": auth}}


async def signed_in(server: OAuthServer, folder: Path, **settings: Any) -> Browser:
    """Sign a person in, and leave the login in the folder."""
    browser = Browser()
    async with Toolbox(config(server, folder, on_redirect=browser, **settings)) as box:
        assert (await box.call("shop", "add", {"a": 1, "b": 1})).text == "2"
    return browser


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
