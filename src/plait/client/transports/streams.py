"""The stream interface of the SDK, for ends that belong to somebody else."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from mcp.shared.message import SessionMessage


class BorrowedStream:
    """An end of a connection; closing it does nothing, its transport does that."""

    async def aclose(self) -> None:
        """Leave the connection to the transport's own ending."""

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
    """A receiving end; subclasses say where the next message comes from."""

    async def __anext__(self) -> SessionMessage:
        """Return the next message, or end the iteration."""
        raise StopAsyncIteration

    def __aiter__(self) -> Self:
        return self

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        return await self.__anext__()
