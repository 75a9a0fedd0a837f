"""The folders a client shows to its servers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from mcp.client import ClientRequestContext
from mcp.client.session import ListRootsFnT
from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

RootLike = str | os.PathLike[str] | Root
"""A folder's path, a URI, or a root as it is."""

Roots = Iterable[RootLike] | Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
"""The roots, or a function that returns them whenever a server asks."""


def roots_callback(roots: Roots) -> ListRootsFnT:
    """Make the answer to a server that asks for the roots."""

    async def answer(context: ClientRequestContext) -> ListRootsResult:
        del context
        given = roots() if callable(roots) else roots
        if inspect.isawaitable(given):
            given = await given
        return ListRootsResult(roots=[_root(one) for one in given])

    return answer


def _root(given: RootLike) -> Root:
    if isinstance(given, Root):
        return given
    text = os.fspath(given)
    uri = text if "://" in text else Path(text).resolve().as_uri()
    return Root(uri=FileUrl(uri), name=uri.rstrip("/").rpartition("/")[2] or None)
