"""The configuration that is served, which follows its file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from plait._support.files import file_changes, file_stamp
from plait._support.threads import in_thread
from plait.errors import ClientClosedError, ConfigError
from plait.serve.journal import ClientJournal, Journal
from plait.serve.shared import SharedServers, with_sharing
from plait.serve.snapshot import Snapshot
from plait.serve.upstream import Upstream

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.serve.names import Naming
    from plait.serve.session import ClientSession

logger = logging.getLogger("plait.serve")


class ServedConfiguration:
    """Connects clients with the servers of a file, and follows changes of it."""

    def __init__(
        self,
        read: Callable[[], ClientConfig],
        *,
        choices: tuple[str, ...] = (),
        naming: Naming = "server",
        search: bool = False,
        traces: bool = True,
    ) -> None:
        """Take what reads the file; `choices` are what else decides about the lists of tools."""
        self._read = read
        self.config = read()
        self._known = None if self.config.source is None else file_stamp(Path(self.config.source))
        self.journal = Journal(self.config, traces=traces)
        self._choices = (naming, *choices)
        self._naming: Naming = naming
        self._has_search = search
        self._upstreams: WeakSet[Upstream] = WeakSet()
        self._shared = SharedServers(self.config, self._upstreams)

    def open_upstream(self, session: ClientSession) -> Upstream:
        """Return the servers for a client."""
        # Servers may offer other tools to clients that can do more.
        snapshot = Snapshot(self.config, *self._choices, *sorted(session.capabilities))
        upstream = Upstream(
            self.config,
            session,
            snapshot,
            self._naming,
            search=self._has_search,
            shared=self._shared.box,
        )
        upstream.journal = ClientJournal(
            self.journal,
            session.name,
            program=session.program,
            servers=upstream.statuses,
        )
        self._upstreams.add(upstream)
        return upstream

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Follow the file, and keep the journal, during the block."""
        async with self._shared.box:
            tasks = [asyncio.create_task(one) for one in (self._follow(), self.journal.run())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self) -> None:
        """Use the servers of the file whenever it changes; a broken file changes nothing."""
        if self.config.source is None:
            return
        async for _ in file_changes(Path(self.config.source), self._known):
            try:
                config = await in_thread(self._read)
                self.journal.use(config)
                changed = await self._shared.box.use_servers(with_sharing(config, shared=True))
                for upstream in tuple(self._upstreams):
                    with suppress(ClientClosedError):  # its client has gone meanwhile
                        await upstream.use_config(config, changed)
            except ConfigError as error:
                logger.warning("going on with the last configuration: %s", error)
            else:
                self.config = config
