"""Limits of what runs at once: in all, by model and by server, lower while a provider refuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio

from plait.traces.events import ModelRetried, TraceEvent
from plait.verification.plan import RunOptions
from plait.verification.suite import Caps

REFUSED: Final = (429, 529)
"""The statuses with which a provider refuses for now."""
_TOTAL: Final = 8
_PER_MODEL: Final = 4


class AdaptiveCap:
    """A number of places, which is halved by a refusal and grows again with success.

    The rule is that of TCP: a refusal halves, and as many successes as there are places add one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._size = float(most)
        self._places = anyio.CapacityLimiter(most)
        self._under_way = 0
        self._refusals = 0

    @property
    def size(self) -> int:
        """The number of places now."""
        return int(self._size)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Wait for a place, and keep it for the block."""
        holder = object()  # not the task, which may hold several
        await self._places.acquire_on_behalf_of(holder)
        try:
            yield
        finally:
            self._places.release_on_behalf_of(holder)

    def refused(self) -> None:
        """Halve the places; refusals of requests that were already under way count once."""
        self._refusals += 1
        if self._under_way:
            self._under_way -= 1
            return
        self._resize(max(1.0, self._size / 2))
        self._under_way = max(0, self._places.borrowed_tokens - 1)

    def watch(self, event: TraceEvent) -> None:
        """Count the refusals among the events of a run."""
        if isinstance(event, ModelRetried) and event.status in REFUSED:
            self.refused()

    def take_refusals(self) -> int:
        """Return how often it was refused since this was called last."""
        count, self._refusals = self._refusals, 0
        return count

    def succeeded(self) -> None:
        """Grow towards the full number of places."""
        self._under_way = max(0, self._under_way - 1)
        self._resize(min(float(self.most), self._size + 1 / self._size))

    def _resize(self, size: float) -> None:
        self._size = size
        self._places.total_tokens = self.size


class RunCaps:
    """The caps of a suite.

    Places are taken in one order (world, servers, model, all), so that no runs wait for each other.
    A run that waits for its judge keeps its world and servers, and frees the rest.
    """

    def __init__(self, options: RunOptions, caps: Caps) -> None:
        self._caps = caps
        self._per_model = options.per_model or caps.per_model or _PER_MODEL
        self._per_server = options.per_server or caps.per_server
        self.total = AdaptiveCap(options.concurrency or caps.total or _TOTAL)
        self.worlds = AdaptiveCap(2 * self.total.most)
        """Runs whose servers are open, or about to be."""
        self.models: dict[str, AdaptiveCap] = {}
        self.servers: dict[str, AdaptiveCap] = {}

    def of_model(self, model: str | None) -> AdaptiveCap:
        """Return the cap of a model."""
        name = model or ""
        if name not in self.models:
            self.models[name] = AdaptiveCap(self._caps.models.get(name, self._per_model))
        return self.models[name]

    @asynccontextmanager
    async def request(self, model: str | None) -> AsyncGenerator[AdaptiveCap]:
        """Wait until a model may be called."""
        cap = self.of_model(model)
        async with cap.place(), self.total.place():
            yield cap

    @asynccontextmanager
    async def using(self, servers: Iterable[str]) -> AsyncGenerator[None]:
        """Wait until servers may be used."""
        async with AsyncExitStack() as stack:
            for name in sorted(servers):
                most = self._caps.servers.get(name, self._per_server)
                if most is not None:
                    cap = self.servers.setdefault(name, AdaptiveCap(most))
                    await stack.enter_async_context(cap.place())
            yield
