"""The base of the stand-ins for model APIs: an HTTP server in a thread of the test.

Without a script it makes the tool calls that the user text lists; such a reply depends only on its
own request, so unrelated requests in between do not affect it.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from plait._support.http_servers import LocalServer
from plait.models.scripts import USAGE_KEYS, Call, Say, ScriptEndError, ScriptPlayer
from plait.testing.llm.turns import Cut, Hang, Raw, Refuse, Script, Turn
from plait.testing.ports import bind
from plait.traces.messages.message import UsageMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request that the stand-in received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ProviderServer(ABC):
    """The HTTP API of a provider; entering the context starts it.

    Refusals quote the credentials of the request, which reveals clients that leak such texts.
    """

    call_prefix = "call_"
    """The prefix of generated tool call ids."""

    def __init__(
        self, script: Script | None = None, *, key: str | None = None, port: int = 0
    ) -> None:
        self._set_script(script)
        self._key = key
        self._port = port
        self.requests: list[ApiRequest] = []
        """All requests, in order."""
        self.reported: list[Mapping[str, int]] = []
        """The usage of every complete answer, in order, by the names in `USAGE_KEYS`."""
        self.abandoned = 0
        """How many clients disconnected while a turn hung or was delayed."""

    def __enter__(self) -> Self:
        listener = bind(port=self._port)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = LocalServer(self._serve, lifespan="off", interface="asgi3")
        self._server.start(listener, name=type(self).__name__)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop()

    def play(self, script: Script | None) -> None:
        """Start another script, and clear the recorded requests."""
        self._set_script(script)
        self.requests = []
        self.reported = []
        self.abandoned = 0

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        """The request bodies that are not empty."""
        return [request.body for request in self.requests if request.body]

    @property
    def spent(self) -> UsageMetadata:
        """The sum of the reported usage; its total is input and output, without the caches."""
        read, written, cache_read, cache_made = (
            sum(usage[key] for usage in self.reported) for key in USAGE_KEYS
        )
        return UsageMetadata(
            input_tokens=read,
            output_tokens=written,
            total_tokens=read + written,
            cache_read_tokens=cache_read,
            cache_creation_tokens=cache_made,
        )

    @abstractmethod
    def answer(self, request: ApiRequest) -> Response | Turn:
        """Answer a request of an authorized client, with a response or a turn of the script."""

    @abstractmethod
    def response_for(self, say: Say, usage: Mapping[str, int], request: ApiRequest) -> Response:
        """Encode a turn of the model; every call has an id."""

    @abstractmethod
    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Encode a refusal."""

    def stream_error(self, kind: str) -> str:
        """Encode an error in the middle of a stream."""
        error = {"error": {"message": "failed while it answered", "type": kind, "code": kind}}
        return f"data: {json.dumps(error)}\n\n"

    def default_turn(self, body: Mapping[str, Any]) -> Turn:
        """Return the turn for a request when there is no script."""
        return f"echo: {body['messages'][-1]['content']}"

    def credentials_from(self, request: ApiRequest) -> str | None:
        """Return the key of a request."""
        return request.headers.get("authorization", "").removeprefix("Bearer ") or None

    def resolve(self, request: ApiRequest) -> ApiRequest | Refuse:
        """Return the request as the model gets it, such as with the stored history."""
        return request

    def headers(self) -> Mapping[str, str]:
        """Return the headers of every answer."""
        return {}

    def next_turn(self, request: ApiRequest) -> Turn:
        """Return the next turn of the script."""
        try:
            return self._player.next(request.body)
        except ScriptEndError as error:
            # Not a status that clients retry.
            return Refuse(status=410, message=str(error))

    def _set_script(self, script: Script | None) -> None:
        turns = self.default_turn if script is None else script
        self._player = ScriptPlayer[Mapping[str, Any], Turn](turns)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = Request(scope, receive)
        raw = await received.body()
        try:
            body: object = json.loads(raw) if raw else {}
        except ValueError:
            body = None
        request = ApiRequest(
            method=received.method,
            path=received.url.path,
            headers=dict(received.headers),
            body=cast("dict[str, Any]", body) if isinstance(body, dict) else {},
        )
        self.requests.append(request)
        turn: Response | Turn
        # Clients probe the server with HEAD before they have a key.
        is_open = self._key is None or request.method == "HEAD"
        if not is_open and self.credentials_from(request) != self._key:
            turn = Refuse(status=401, message="invalid key")
        elif not isinstance(body, dict):
            turn = Refuse(status=400, message="the body is not a JSON object")
        else:
            resolved = self.resolve(request)
            turn = resolved if isinstance(resolved, Refuse) else self.answer(resolved)
            request = request if isinstance(resolved, Refuse) else resolved
        response = await self._response_to(turn, request, receive)
        if response is not None:
            response.headers.update(self.headers())
            await response(scope, receive, send)
        if response is None or (isinstance(response, EventStream) and not response.ends):
            self._server.cut(cast("tuple[str, int]", scope["client"]))

    async def _response_to(
        self, turn: Response | Turn, request: ApiRequest, receive: Receive
    ) -> Response | None:
        match turn:
            case Response():
                return turn
            case Hang():
                await self._is_abandoned(receive)
                return None
            case Cut():
                return await self._cut(turn, request, receive)
            case Raw():
                return Response(turn.body, turn.status, media_type=turn.media_type)
            case Refuse():
                sent = self.credentials_from(request) or "none"
                quoted = replace(turn, message=f"{turn.message} (you sent: {sent})")
                headers = {} if turn.retry_after is None else {"Retry-After": turn.retry_after}
                return JSONResponse(self.refusal(quoted), turn.status, headers)
            case _:
                is_text = isinstance(turn, str | Say)
                said = turn if is_text else json.dumps(turn, ensure_ascii=False)
                return await self._respond(said, request, receive)

    async def _respond(
        self, turn: str | Say, request: ApiRequest, receive: Receive
    ) -> Response | None:
        say = Say(turn) if isinstance(turn, str) else turn
        if say.delay and await self._is_abandoned(receive, say.delay):
            return None
        usage = usage_of(say, request.body)
        calls = (
            replace(call, id=call.id or f"{self.call_prefix}{uuid.uuid4().hex[:24]}")
            for call in say.calls
        )
        response = self.response_for(replace(say, calls=tuple(calls)), usage, request)
        self.reported.append(usage)
        return response

    async def _cut(self, cut: Cut, request: ApiRequest, receive: Receive) -> Response | None:
        if cut.after is None:
            return None
        before = len(self.reported)
        whole = await self._respond(cut.say, request, receive)
        # The usage is in the last event, which is not sent.
        del self.reported[before:]
        if not isinstance(whole, EventStream):
            return None
        errors = [] if cut.error is None else [self.stream_error(cut.error)]
        sent = [*whole.events[: cut.after], *errors]
        return EventStream(sent, ends=cut.quiet and not cut.stalls, stalls=cut.stalls)

    async def _is_abandoned(self, receive: Receive, seconds: float = math.inf) -> bool:
        """Wait for the client to disconnect; return whether it did."""
        with anyio.move_on_after(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
            self.abandoned += 1
            return True
        return False


_WORDS = re.compile(r"\s*\S+|\s+$")


class EscapedJSON(JSONResponse):
    """JSON in ASCII, which may contain lone surrogates."""

    @override
    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


class EventStream(Response):
    """A response that is sent event by event."""

    media_type = "text/event-stream"

    def __init__(self, events: Iterable[str], *, ends: bool = True, stalls: bool = False) -> None:
        super().__init__()
        # A stream has no known length.
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.events: Sequence[str] = tuple(events)
        self.ends = ends
        """Whether the end of the stream is sent; otherwise the connection is to be cut."""
        self.stalls = stalls
        """Whether nothing follows the events until the client disconnects."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        for event in self.events:
            chunk = {"type": "http.response.body", "body": event.encode(), "more_body": True}
            await send(chunk)
        while self.stalls and (await receive())["type"] != "http.disconnect":
            pass
        if self.ends:
            await send({"type": "http.response.body", "body": b""})


def words(text: str) -> Iterator[str]:
    """Split a text into the chunks in which it is streamed."""
    return (match[0] for match in _WORDS.finditer(text))


def pieces(text: str, size: int) -> Iterator[str]:
    """Split a text into pieces of a fixed size."""
    return (text[start : start + size] for start in range(0, len(text), size))


_COUNTED = ("system", "messages", "tools")
"""The parts of a request body that count as input."""


def tokens(value: object) -> int:
    """Count the tokens of a value: four bytes of its JSON are a token."""
    return -(-len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) // 4)


def tokens_read(body: Mapping[str, Any]) -> int:
    """Count the tokens of a request."""
    return sum(tokens(body[part]) for part in _COUNTED if body.get(part))


def usage_of(say: Say, body: Mapping[str, Any]) -> dict[str, int]:
    """Count the usage of an answer, by the names in `USAGE_KEYS`; counts of the turn win."""
    texts = [text for text in (say.thinking, say.text) if text]
    called = [{"name": call.name, "arguments": dict(call.arguments)} for call in say.calls]
    counted = {
        **dict.fromkeys(USAGE_KEYS, 0),
        "input_tokens": tokens_read(body),
        "output_tokens": sum(map(tokens, [*texts, *called])),
    }
    return {**counted, **(say.usage or {})}


_LINE = re.compile(r"^[ \t]*(?P<then>THEN )?CALL (?P<tool>\S+) (?P<arguments>\{.*\})[ \t]*$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The part of a request that a default reply depends on, for any protocol."""

    question: str
    """The last text of the user."""
    rounds: int
    """How many turns with tool calls came after the question."""
    results: Sequence[str]
    """The results of these calls."""
    tools: Sequence[str]
    """The names of the tools in the request."""


def default_reply(conversation: Conversation) -> Say:
    """Make the next tool calls of the question, or return the results joined by `; `.

    The lines `CALL tool {json}` are one turn, each line `THEN CALL tool {json}` is another. Lines
    with an unknown tool are skipped; `mcp__server__tool` may be written `tool`.
    """
    first: list[Call] = []
    steps: list[tuple[Call, ...]] = []
    for line in _LINE.finditer(conversation.question):
        name = offered_name(line["tool"], conversation.tools)
        try:
            arguments = json.loads(line["arguments"])
        except json.JSONDecodeError:
            continue
        if name is not None and line["then"]:
            steps.append((Call(name, arguments),))
        elif name is not None:
            first.append(Call(name, arguments))
    if first:
        steps.insert(0, tuple(first))
    if conversation.rounds < len(steps):
        return Say(calls=steps[conversation.rounds])
    if conversation.rounds:
        return Say("; ".join(conversation.results))
    return Say(f"echo: {conversation.question}")


def conversation_from_anthropic(body: Mapping[str, Any]) -> Conversation:
    """Read a request of Anthropic's Messages API."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    start = _last(
        message["role"] == "user" and not content_blocks(message, "tool_result")
        for message in messages
    )
    since = messages[start + 1 :]
    return Conversation(
        question=_text_of(messages[start]["content"]) if start >= 0 else "",
        rounds=sum(bool(content_blocks(message, "tool_use")) for message in since),
        results=[
            ("ERROR: " if block.get("is_error") else "") + _text_of(block.get("content"))
            for message in since
            for block in content_blocks(message, "tool_result")
        ],
        tools=[tool["name"] for tool in body.get("tools") or () if "name" in tool],
    )


def conversation_from_openai(body: Mapping[str, Any]) -> Conversation:
    """Read a request for a chat completion."""
    messages: list[Mapping[str, Any]] = list(body["messages"])
    start = _last(message["role"] == "user" for message in messages)
    since = messages[start + 1 :]
    functions: list[Mapping[str, Any]] = [tool["function"] for tool in body.get("tools") or ()]
    return Conversation(
        question=_text_of(messages[start].get("content")) if messages else "",
        rounds=sum(bool(message.get("tool_calls")) for message in since),
        results=[_text_of(reply.get("content")) for reply in since if reply["role"] == "tool"],
        tools=[function["name"] for function in functions],
    )


def offered_name(name: str, tools: Sequence[str]) -> str | None:
    """Return the full name of a tool; Claude's CLI lists `tool` as `mcp__server__tool`."""
    if name in tools:
        return name
    return next((tool for tool in tools if tool.rpartition("__")[2] == name), None)


def _last(flags: Iterable[bool]) -> int:
    return max((index for index, flag in enumerate(flags) if flag), default=-1)


def content_blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the content blocks of one type."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in cast("list[Any]", content) if block.get("type") == kind]


def _text_of(content: object) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts: list[str] = []
    for block in cast("list[Mapping[str, Any]]", content):
        match block.get("type"):
            case "text":
                texts.append(str(block.get("text", "")))
            case "image" | "image_url":
                texts.append("<image>")
            case kind:
                texts.append(f"<{kind}>")
    return "\n".join(texts)
