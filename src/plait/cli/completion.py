"""Completes the names of servers and tools in a shell, without prompts and without messages."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig

_FRESH_SECONDS = 600.0
"""How long the tools of a server are remembered for the next completion."""
MAX_WAIT_SECONDS = 5.0
"""How long a completion waits for a server whose tools are not remembered."""
_UNSAFE = frozenset(" \t\"'`$\\;&|<>(){}[]*?!#~,")
"""A shell would split or run a name with one of these."""


def complete_servers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a server of the configuration."""
    config = _configuration(ctx)
    already = ctx.params.get(param.name or "") or ()
    return _items([name for name in config.servers if name not in already], incomplete)


def complete_tools(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 - click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the name of a tool of the server before it."""
    from plait._support.files import write_atomically
    from plait.cli.session import narrowed
    from plait.client.catalog.listing import ListCache, cache_folder
    from plait.client.toolbox import Toolbox

    config, server = _configuration(ctx), str(ctx.params.get("server"))
    if server not in config.servers:
        return []
    path = ListCache(cache_folder() / "completion").path_of(server, config.servers[server])
    with contextlib.suppress(OSError, ValueError):
        if time.time() - path.stat().st_mtime < _FRESH_SECONDS:
            return _items(path.read_text(encoding="utf-8").splitlines(), incomplete)

    async def list_names() -> list[str]:
        alone = narrowed(config, [server], heal=False)
        async with asyncio.timeout(MAX_WAIT_SECONDS), Toolbox(alone) as box:
            return [tool.wire_name for tool in await box.tools(server)]

    names: list[str] = []
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        names = asyncio.run(list_names())
    if names:
        with contextlib.suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, "\n".join(names), mode=0o600)
    return _items(names, incomplete)


def _items(names: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin like this; those that a shell would misread are left out."""
    safe = (name for name in names if name.isprintable() and not _UNSAFE.intersection(name))
    return [CompletionItem(name) for name in safe if name.startswith(incomplete)]


def _configuration(ctx: click.Context) -> ClientConfig:
    """Read the configuration; without servers if it cannot be read, or needs the user."""
    from plait.cli.session import load_config
    from plait.client.config.read import ClientConfig

    sys.stdin = io.StringIO()  # nothing may be asked while the shell waits
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        return load_config(ctx)
    return ClientConfig(servers={})
