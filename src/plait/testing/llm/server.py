"""A small HTTP server in a thread of the test, and what it remembers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from plait.testing.llm.turns import Cut, Hang, Raw, Refuse, Script, Turn, turns_of
from plait.testing.ports import bind
from plait.testing.thread_server import ThreadServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that came."""

    method: str

    path: str

    headers: Mapping[str, str]

    body: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ProviderServer(ABC):
    """The HTTP API of a provider; entering the context starts it.

    Refusals quote the credentials that came, so that a client that shows such texts is found out.
    """

    def __init__(self, script: Script | None = None, *, key: str | None = None) -> None:
        self._take_turn = turns_of(script)
        self._key = key
        self.requests: list[Asked] = []
        """Everything that was asked, in order."""
        self.given_up = 0
        """How many clients went away from a turn that hangs."""

    def __enter__(self) -> Self:
        listener = bind()
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        name = type(self).__name__
        self._server = ThreadServer(self._serve, name=name, lifespan="off", interface="asgi3")
        self._server.start(listener)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()

    def play(self, script: Script | None) -> None:
        """Begin another script, and forget what was asked so far."""
        self._take_turn = turns_of(script)
        self.requests = []
        self.given_up = 0

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        """The bodies of the requests that had one."""
        return [asked.body for asked in self.requests if asked.body]

    @abstractmethod
    def answer(self, asked: Asked) -> Response | Turn:
        """Answer a request of an authorized client; the turn of a model may also be a fault."""

    @abstractmethod
    def said(self, text: str, asked: Asked) -> Response:
        """Wrap what the model says."""

    @abstractmethod
    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Wrap a refusal."""

    def next_turn(self, asked: Asked) -> Turn:
        """Take the next turn of the script."""
        return self._take_turn(asked.body)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        asked = await _asked(request)
        self.requests.append(asked)
        credentials = asked.headers.get("authorization", "none")
        if self._key is not None and credentials != f"Bearer {self._key}":
            turn: Response | Turn = Refuse(status=401, message="invalid key")
        else:
            turn = self.answer(asked)
        match turn:
            case Hang():
                while (await receive())["type"] != "http.disconnect":
                    pass
                self.given_up += 1
                return
            case Cut():
                self._server.cut(cast("tuple[str, int]", scope["client"]))
                return
            case Raw():
                response = Response(turn.body, turn.status, media_type="application/json")
            case Refuse():
                response = self._refused(turn, credentials)
            case str():
                response = self.said(turn, asked)
            case Response():
                response = turn
            case _:
                response = self.said(json.dumps(turn, ensure_ascii=False), asked)
        await response(scope, receive, send)

    def _refused(self, refuse: Refuse, credentials: str) -> Response:
        quoted = Refuse(
            status=refuse.status,
            message=f"{refuse.message} (you sent: {credentials})",
            param=refuse.param,
        )
        headers = {} if refuse.retry_after is None else {"Retry-After": refuse.retry_after}
        return JSONResponse(self.refusal(quoted), refuse.status, headers)


def tokens(value: object) -> int:
    """Count the tokens of a value: four bytes of its JSON are one."""
    return -(-len(json.dumps(value, ensure_ascii=False).encode()) // 4)


async def _asked(request: Request) -> Asked:
    raw = await request.body()
    return Asked(
        method=request.method,
        path=request.url.path,
        headers=dict(request.headers),
        body=json.loads(raw) if raw else {},
    )
