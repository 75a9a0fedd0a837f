"""The roots of a client: folders that its servers may see."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

from plait.client.calls.callbacks import resolve

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp.client.session import ListRootsFnT

RootLike = str | os.PathLike[str] | Root
"""A folder's path, a URI, or a root."""

Roots = (
    RootLike | Iterable[RootLike] | Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
)
"""The roots, or a function that returns them whenever a server asks."""


def roots_callback(roots: Roots) -> ListRootsFnT:
    """Create the callback that answers `roots/list`."""
    fixed = None if callable(roots) else _root_list(roots)

    async def answer(context: ClientRequestContext) -> ListRootsResult:
        del context
        if fixed is not None or not callable(roots):
            return ListRootsResult(roots=fixed or [])
        return ListRootsResult(roots=_root_list(await resolve(roots())))

    return answer


def _root_list(roots: RootLike | Iterable[RootLike]) -> list[Root]:
    if isinstance(roots, str | os.PathLike | Root):
        return [_root(roots)]
    return [_root(root) for root in roots]


def _root(root: RootLike) -> Root:
    if isinstance(root, Root):
        return root
    text = os.fspath(root)
    uri = text if "://" in text else Path(text).resolve().as_uri()
    return Root(uri=FileUrl(uri), name=unquote(uri.rstrip("/").rpartition("/")[2]) or None)
