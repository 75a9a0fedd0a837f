"""Bases for streams with the SDK's interface."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from mcp.shared.message import SessionMessage


class BorrowedStream:
    """A stream that its transport closes; closing it here does nothing."""

    async def aclose(self) -> None:
        """Leave closing to the transport."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return None


class MessageSource(BorrowedStream):
    """A receiving stream; subclasses implement `__anext__`."""

    async def __anext__(self) -> SessionMessage:
        """Return the next message, or end the iteration."""
        raise StopAsyncIteration

    def __aiter__(self) -> Self:
        return self

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        return await self.__anext__()
