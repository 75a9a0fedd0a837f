"""Server-sent event streams, complete or cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

_WORDS = re.compile(r"\s*\S+|\s+$")


class EventStream(Response):
    """A response that is sent event by event."""

    media_type = "text/event-stream"

    def __init__(self, events: Iterable[str], *, ends: bool = True) -> None:
        super().__init__()
        # A stream has no known length.
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.events: Sequence[str] = tuple(events)
        self.ends = ends
        """Whether the end of the stream is sent; otherwise the connection is to be cut."""

    def cut(self, after: int, *, ends: bool) -> Self:
        """Return a stream of the first events only."""
        return type(self)(self.events[:after], ends=ends)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        for event in self.events:
            chunk = {"type": "http.response.body", "body": event.encode(), "more_body": True}
            await send(chunk)
        if self.ends:
            await send({"type": "http.response.body", "body": b""})


def words(text: str) -> Iterator[str]:
    """Split a text into the chunks in which it is streamed."""
    return (match[0] for match in _WORDS.finditer(text))


def pieces(text: str, size: int) -> Iterator[str]:
    """Split a text into pieces of a fixed size."""
    return (text[start : start + size] for start in range(0, len(text), size))
