"""The configuration that is served, which follows its file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from plait._support.threads import in_thread
from plait.errors import ConfigError
from plait.serve.journal import ClientJournal, Journal
from plait.serve.snapshot import Snapshot
from plait.serve.upstream import Upstream

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.serve.names import Naming
    from plait.serve.session import ClientSession

logger = logging.getLogger("plait.serve")

WATCH_SECONDS: Final = 0.5
"""How often the file is looked at; editors replace it, so that its folder would be watched too."""


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
        self._known = None if self.config.source is None else _stamp(Path(self.config.source))
        self.journal = Journal(self.config, traces=traces)
        self._choices = (naming, *choices)
        self._naming: Naming = naming
        self._has_search = search
        self._upstreams: WeakSet[Upstream] = WeakSet()

    def open_upstream(self, session: ClientSession) -> Upstream:
        """Return the servers for a client."""
        # Servers may offer other tools to clients that can do more.
        snapshot = Snapshot(self.config, *self._choices, *sorted(session.capabilities))
        upstream = Upstream(self.config, session, snapshot, self._naming, search=self._has_search)
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
        path = Path(self.config.source)
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            stamp = await in_thread(_stamp, path)
            if stamp in {self._known, None}:
                continue
            self._known = stamp
            try:
                config = await in_thread(self._read)
                self.journal.use(config)
                for upstream in tuple(self._upstreams):
                    await upstream.use_config(config)
            except ConfigError as error:
                logger.warning("going on with the last configuration: %s", error)
            else:
                self.config = config


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with the file; `None` while there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
