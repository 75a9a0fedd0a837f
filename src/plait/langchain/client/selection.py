"""Which tools of a toolbox a caller lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.client.catalog.tool import Tool
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.options import ToolPatterns
    from plait.client.toolbox import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of a toolbox's tools, and the credentials for listing them."""

    toolbox: Toolbox
    servers: tuple[str, ...] = ()
    include: ToolPatterns | None = None
    exclude: ToolPatterns | None = None
    access: CallerCredentials | None = None

    async def list_tools(
        self, run: Mapping[str, Any] | None, *, refresh: bool = False
    ) -> list[Tool]:
        """List the tools."""
        return await self.toolbox.tools(
            *self.servers,
            refresh=refresh,
            include=self.include,
            exclude=self.exclude,
            access=self.access,
            run=run,
        )
