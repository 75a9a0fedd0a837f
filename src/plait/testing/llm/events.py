"""Streams of server-sent events, whole or cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

_WORDS = re.compile(r"\s*\S+|\s+$")


class EventStream(Response):
    """An answer that is sent event by event."""

    media_type = "text/event-stream"

    def __init__(self, events: Iterable[str], *, ends: bool = True) -> None:
        super().__init__()
        # The length is not told before a stream.
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.events: Sequence[str] = tuple(events)
        self.ends = ends
        """Whether the end of the stream is sent; otherwise the line is to be broken."""

    def cut(self, after: int, *, ends: bool) -> Self:
        """Return the first events only."""
        return type(self)(self.events[:after], ends=ends)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        for event in self.events:
            chunk = {"type": "http.response.body", "body": event.encode(), "more_body": True}
            await send(chunk)
        if self.ends:
            await send({"type": "http.response.body", "body": b""})


def words(text: str) -> Iterator[str]:
    """Yield the pieces in which a text is streamed."""
    return (match[0] for match in _WORDS.finditer(text))


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces that end anywhere, also inside of words."""
    return (text[start : start + size] for start in range(0, len(text), size))
