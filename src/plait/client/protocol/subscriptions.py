"""Streams of changes of modern servers: `subscriptions/listen`."""

# https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ValidationError

from plait._support import mcp_types as types
from plait.client.protocol.peer import RequestError

if TYPE_CHECKING:
    from plait.client.protocol.session import McpSession

_numbers = count(1)
MAX_PENDING_EVENTS = 1024
"""Events that wait to be read; a stream with more is lost."""
_LISTS = {
    "notifications/tools/list_changed": "tools_list_changed",
    "notifications/prompts/list_changed": "prompts_list_changed",
    "notifications/resources/list_changed": "resources_list_changed",
}


class SubscriptionLostError(Exception):
    """The stream ended, and the server did not end it in good order."""


class Subscription:
    """A stream of changes: an iterator over URIs, and methods of changed lists."""

    def __init__(self) -> None:
        self.honored = types.SubscriptionFilter()
        """What the server has agreed to announce; nothing before that."""
        self._has_begun = False
        self.end: Literal["graceful", "lost"] | None = None
        self._error: RequestError | None = None
        self._pending: dict[str, None] = {}
        self._changed = asyncio.Event()

    def acknowledge(self, honored: object) -> bool:
        """Note which changes the server announces; return whether that can be read."""
        try:
            agreed = types.SubscriptionFilter.model_validate(honored)
        except ValidationError:
            return False
        if not self._has_begun:
            self.honored, self._has_begun = agreed, True
            self._changed.set()
        return True

    def deliver(self, method: str, params: dict[str, Any]) -> None:
        """Add a change that the server has announced, once while it waits to be read."""
        if self.end is not None:
            return
        event = method
        if (kind := _LISTS.get(method)) is not None:
            if getattr(self.honored, kind) is not True:
                return
        elif method == "notifications/resources/updated" and self.honored.resource_subscriptions:
            uri = params.get("uri")
            if not isinstance(uri, str):
                return
            event = uri
        else:
            return
        if len(self._pending) >= MAX_PENDING_EVENTS:
            text = f"more than {MAX_PENDING_EVENTS} changes wait to be read"
            self.settle("lost", RequestError(types.INTERNAL_ERROR, text))
            return
        self._pending[event] = None
        self._changed.set()

    def settle(self, end: Literal["graceful", "lost"], error: RequestError | None = None) -> None:
        """Note that the server has ended the stream in good order, or that it has broken."""
        if self.end is None:
            self.end, self._error = end, error
            self._has_begun = self._has_begun or end == "graceful"
            self._changed.set()

    async def agreed(self) -> None:
        """Wait until the server has subscribed, or raise why it does not."""
        while not self._has_begun:
            if self.end is not None:
                raise self._error or SubscriptionLostError("it ended before it was acknowledged")
            self._changed.clear()
            await self._changed.wait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._pending:
            if self.end == "lost":
                raise SubscriptionLostError("the stream of changes was lost") from self._error
            if self.end is not None:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event = next(iter(self._pending))
        del self._pending[event]
        return event


@asynccontextmanager
async def opened_subscription(
    session: McpSession, wanted: types.SubscriptionFilter
) -> AsyncGenerator[Subscription]:
    """Subscribe for the block, which begins when the server has agreed."""
    request_id = f"listen-{next(_numbers)}"
    stream = session.inbound.routes[request_id] = Subscription()
    fields = wanted.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def stay() -> None:
        try:
            await session.request(
                "subscriptions/listen", {"notifications": fields}, request_id=request_id
            )
        except RequestError as error:
            stream.settle("lost", error)
        else:
            stream.settle("graceful")  # the response comes when the server ends the stream

    session.peer.streams += 1
    staying = session.peer.start(stay())
    try:
        await stream.agreed()
        yield stream
    finally:
        staying.cancel()
        session.peer.streams -= 1
        del session.inbound.routes[request_id]
