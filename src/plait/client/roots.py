"""The folders a client shows to its servers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from urllib.parse import unquote

from mcp.client import ClientRequestContext
from mcp.client.session import ListRootsFnT
from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

RootLike = str | os.PathLike[str] | Root
"""A folder's path, a URI, or a root as it is."""

Roots = (
    RootLike | Iterable[RootLike] | Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
)
"""The roots, or a function that returns them whenever a server asks."""


def roots_callback(roots: Roots) -> ListRootsFnT:
    """Make the answer to a server that asks for the roots."""
    fixed = None if callable(roots) else _listed(roots)

    async def answer(context: ClientRequestContext) -> ListRootsResult:
        del context
        if fixed is not None or not callable(roots):
            return ListRootsResult(roots=fixed or [])
        given = roots()
        if inspect.isawaitable(given):
            given = await given
        return ListRootsResult(roots=_listed(given))

    return answer


def _listed(given: RootLike | Iterable[RootLike]) -> list[Root]:
    if isinstance(given, str | os.PathLike | Root):
        return [_root(given)]
    return [_root(one) for one in given]


def _root(given: RootLike) -> Root:
    if isinstance(given, Root):
        return given
    text = os.fspath(given)
    uri = text if "://" in text else Path(text).resolve().as_uri()
    return Root(uri=FileUrl(uri), name=unquote(uri.rstrip("/").rpartition("/")[2]) or None)
