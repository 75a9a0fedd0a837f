"""A server that takes payments, each in its own way, and writes every one of them to a ledger."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from plait.testing import ServerProcess
from plait.testing.serve_transports import serve_on_port

LEDGER = "ledger"
SIGNED_IN = "signed-in"
OPEN = "open"


class Confirmation(BaseModel):
    """What a user says to a payment."""

    sure: bool


def ask_whether_sure(amount: int) -> Elicit[Confirmation]:
    return Elicit(f"Pay {amount}?", Confirmation)


def till(folder: Path) -> MCPServer:
    """Make the server; what it writes and waits for are files in the folder."""
    server = MCPServer("Till", version="1", log_level="CRITICAL")

    def paid(amount: int) -> str:
        with (folder / LEDGER).open("a") as ledger:
            ledger.write(f"{amount}\n")
        return f"paid {amount}"

    @server.tool(structured_output=False)
    def pay(amount: int) -> str:
        """Pay, without further ado."""
        return paid(amount)

    @server.tool(structured_output=False)
    def pay_approved(amount: int) -> str:
        """Pay; the policy of tests has a person approve it."""
        return paid(amount)

    @server.tool(structured_output=False)
    def pay_signed(amount: int) -> str:
        """Pay, if somebody has signed in."""
        return paid(amount)

    @server.tool(structured_output=False)
    def pay_asked(
        amount: int, sure: Annotated[ElicitationResult[Confirmation], Resolve(ask_whether_sure)]
    ) -> str:
        """Pay, if the user is sure."""
        if isinstance(sure, AcceptedElicitation) and sure.data.sure:
            return paid(amount)
        return "not sure"

    @server.tool(structured_output=False)
    def pay_later(amount: int) -> str:
        """Pay, and answer when the folder says that it is open."""
        text = paid(amount)
        while not (folder / OPEN).exists():
            time.sleep(0.005)
        return text

    return server


class SignedIn:
    """Refuses calls of `pay_signed` until somebody has signed in."""

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._app = app
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        message: Any = json.loads(body)
        tool = (message.get("params") or {}).get("name")
        if tool == "pay_signed" and not (self._folder / SIGNED_IN).exists():
            await PlainTextResponse("sign in", 401)(scope, receive, send)
            return
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(parts, None) or await receive()

        await self._app(scope, again, send)


def served_till(folder: Path) -> ServerProcess:
    """Return the server on a port; entering its context starts it."""
    from tests.nursery import python

    return ServerProcess([*python(), str(Path(__file__).resolve()), str(folder)])


def ledger_of(folder: Path) -> list[int]:
    """Return the amounts that were paid, in order."""
    path = folder / LEDGER
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    folder = Path(sys.argv[1])
    serve_on_port(SignedIn(till(folder).streamable_http_app(), folder))


if __name__ == "__main__":
    main()
