"""Posts exchanges with a client of httpx2, which knows cookies, proxies, auth and HTTP/2.

The exchanges are those of `HttpPool`: a response is handled in one way, whatever receives it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anyio
import httpx2

from plait.client.transports.http_client import set_cookies
from plait.client.transports.http_pool import DRAIN_SECONDS, MAX_DRAIN_BYTES, HttpExchange


class ClientPool:
    """Posts each exchange in a task, in the context of its request."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._tasks: dict[HttpExchange, asyncio.Task[None]] = {}
        self._closed = False

    def submit(self, exchange: HttpExchange) -> None:
        """Start to post a request."""
        if self._closed:
            raise anyio.ClosedResourceError
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run(exchange), context=exchange.context.copy())
        self._tasks[exchange] = task
        task.add_done_callback(lambda _: self._tasks.pop(exchange, None))

    def drop(self, exchange: HttpExchange) -> None:
        """Give up an exchange, and close its connection."""
        exchange.ended = True
        if (task := self._tasks.get(exchange)) is not None:
            task.cancel()

    def abandon(self, exchange: HttpExchange) -> None:
        """Stop waiting for a response; its connection is closed if it does not end soon."""
        exchange.ended = True
        if (task := self._tasks.get(exchange)) is not None:
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, task.cancel)

    async def close(self) -> None:
        """Give up all exchanges."""
        self._closed = True
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, exchange: HttpExchange) -> None:
        try:
            await self._post(exchange)
        except Exception as fault:  # noqa: BLE001  # boundary: code of the user may raise anything
            if not exchange.ended:
                exchange.on_fault(fault)
        else:
            if not exchange.ended:
                exchange.on_end()

    async def _post(self, exchange: HttpExchange) -> None:
        template = exchange.template
        headers = template.headers.copy()
        headers.pop("content-length", None)
        if "cookie" not in self._client.headers:
            headers.pop("cookie", None)  # the server may have set others since
        request = httpx2.Request(
            "POST",
            template.url,
            headers=headers,
            content=exchange.body,
            extensions=template.extensions,
        )
        set_cookies(request, self._client)
        response = await self._client.send(request, stream=True)
        async with contextlib.aclosing(response):
            reader = exchange.connection = _Reader()
            exchange.extensions = response.extensions
            fields = [(name.lower(), value) for name, value in response.headers.raw]
            exchange.on_response(response.status_code, fields)
            try:
                if response.is_stream_consumed:
                    exchange.on_data(response.content)
                    return
                async with contextlib.aclosing(response.aiter_raw()) as chunks:
                    async for chunk in chunks:
                        if not exchange.ended:
                            exchange.on_data(chunk)
                        if exchange.ended:
                            await _drain(chunks)
                            return
                        await reader.going.wait()
                        await asyncio.sleep(0)  # what has arrived is returned without waiting
            finally:
                exchange.connection = None


class _Reader:
    """Reads the response of an exchange, and may be paused."""

    def __init__(self) -> None:
        self.going = asyncio.Event()
        self.going.set()

    def pause(self) -> None:
        self.going.clear()

    def resume(self) -> None:
        self.going.set()

    def abort(self) -> None:
        self.going.set()  # the exchange has ended, so that what is read is dropped


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read a little more, so that the connection can be used again if the response ends there."""
    drained = 0
    with contextlib.suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in chunks:
                drained += len(chunk)
                if drained > MAX_DRAIN_BYTES:
                    return
