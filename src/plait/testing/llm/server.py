"""A small HTTP server in a thread of the test, and what it remembers."""

from __future__ import annotations

import json
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, cast

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from plait.models.scripts import Say
from plait.testing.llm.events import EventStream
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse, Script, Turn, turns_of
from plait.testing.llm.usage import total_of, usage_of
from plait.testing.ports import bind
from plait.testing.thread_server import ThreadServer
from plait.traces.messages.usage import UsageMetadata


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

    call_prefix = "call_"
    """How the ids of calls begin that the script gives none."""

    def __init__(
        self, script: Script | None = None, *, key: str | None = None, port: int = 0
    ) -> None:
        self._take_turn = turns_of(script, self.unscripted)
        self._key = key
        self._port = port
        self.requests: list[Asked] = []
        """Everything that was asked, in order."""
        self.reported: list[Mapping[str, int]] = []
        """The usage of every whole answer, in order, by the names in `USAGE_KEYS`."""
        self.given_up = 0
        """How many clients went away from a turn that hangs, or that they should wait for."""

    def __enter__(self) -> Self:
        listener = bind(port=self._port)
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
        self._take_turn = turns_of(script, self.unscripted)
        self.requests = []
        self.reported = []
        self.given_up = 0

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        """The bodies of the requests that had one."""
        return [asked.body for asked in self.requests if asked.body]

    @property
    def spent(self) -> UsageMetadata:
        """What all answers together needed, as they reported it."""
        return total_of(self.reported)

    @abstractmethod
    def answer(self, asked: Asked) -> Response | Turn:
        """Answer a request of an authorized client; the turn of a model may also be a fault."""

    @abstractmethod
    def said(self, say: Say, usage: Mapping[str, int], asked: Asked) -> Response:
        """Wrap what the model says; every call has an id."""

    @abstractmethod
    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Wrap a refusal."""

    def unscripted(self, body: Mapping[str, Any]) -> Turn:
        """Take a turn without a script."""
        return f"echo: {body['messages'][-1]['content']}"

    def credentials_of(self, asked: Asked) -> str | None:
        """Find the key that came with a request."""
        return asked.headers.get("authorization", "").removeprefix("Bearer ") or None

    def understood(self, asked: Asked) -> Asked | Refuse:
        """Return the request as the model gets it, such as with what was said before."""
        return asked

    def headers(self) -> Mapping[str, str]:
        """Make the headers that every answer has."""
        return {}

    def next_turn(self, asked: Asked) -> Turn:
        """Take the next turn of the script."""
        return self._take_turn(asked.body)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, is_json = await _asked(Request(scope, receive))
        self.requests.append(asked)
        turn: Response | Turn
        if not self._is_authorized(asked):
            turn = Refuse(status=401, message="invalid key")
        elif not is_json:
            turn = Refuse(status=400, message="the body is not a JSON object")
        else:
            meant = self.understood(asked)
            turn = meant if isinstance(meant, Refuse) else self.answer(meant)
            asked = asked if isinstance(meant, Refuse) else meant
        response = await self._response_to(turn, asked, receive)
        if response is not None:
            response.headers.update(self.headers())
            await response(scope, receive, send)
        if response is None or (isinstance(response, EventStream) and not response.ends):
            self._server.cut(cast("tuple[str, int]", scope["client"]))

    def _is_authorized(self, asked: Asked) -> bool:
        # Clients look whether anybody is there before they have a key.
        is_look = asked.method == "HEAD"
        return self._key is None or is_look or self.credentials_of(asked) == self._key

    async def _response_to(
        self, turn: Response | Turn, asked: Asked, receive: Receive
    ) -> Response | None:
        match turn:
            case Response():
                return turn
            case Hang():
                await self._is_left(receive)
                return None
            case Cut():
                return await self._cut(turn, asked, receive)
            case Raw():
                return Response(turn.body, turn.status, media_type="application/json")
            case Refuse():
                return self._refused(turn, self.credentials_of(asked) or "none")
            case str() | Say():
                return await self._said(turn, asked, receive)
            case _:
                return await self._said(json.dumps(turn, ensure_ascii=False), asked, receive)

    async def _said(self, turn: str | Say, asked: Asked, receive: Receive) -> Response | None:
        say = Say(turn) if isinstance(turn, str) else turn
        if say.delay and await self._is_left(receive, say.delay):
            return None
        usage = usage_of(say, asked.body)
        response = self.said(self._with_ids(say), usage, asked)
        self.reported.append(usage)
        return response

    async def _cut(self, cut: Cut, asked: Asked, receive: Receive) -> Response | None:
        if cut.after is None:
            return None
        before = len(self.reported)
        whole = await self._said(cut.say, asked, receive)
        # The usage stands in the last event, which does not come.
        del self.reported[before:]
        return whole.cut(cut.after, ends=cut.quiet) if isinstance(whole, EventStream) else None

    async def _is_left(self, receive: Receive, seconds: float = math.inf) -> bool:
        """Wait for the client to go away."""
        with anyio.move_on_after(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
            self.given_up += 1
            return True
        return False

    def _with_ids(self, say: Say) -> Say:
        calls = (
            replace(call, id=call.id or f"{self.call_prefix}{uuid.uuid4().hex[:24]}")
            for call in say.calls
        )
        return replace(say, calls=tuple(calls))

    def _refused(self, refuse: Refuse, credentials: str) -> Response:
        quoted = replace(refuse, message=f"{refuse.message} (you sent: {credentials})")
        headers = {} if refuse.retry_after is None else {"Retry-After": refuse.retry_after}
        return JSONResponse(self.refusal(quoted), refuse.status, headers)


async def _asked(request: Request) -> tuple[Asked, bool]:
    """Read a request; also say whether its body, if it has one, is an object in JSON."""
    raw = await request.body()
    try:
        body: object = json.loads(raw) if raw else {}
    except ValueError:
        body = None
    asked = Asked(
        method=request.method,
        path=request.url.path,
        headers=dict(request.headers),
        body=cast("dict[str, Any]", body) if isinstance(body, dict) else {},
    )
    return asked, isinstance(body, dict)
