"""The folders a client shows to its servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

from plait.client.options import Roots, roots_callback

pytestmark = pytest.mark.anyio


async def _asked(roots: Roots) -> list[tuple[str, str | None]]:
    """Ask once, as a server would."""
    answer = await roots_callback(roots)(cast("Any", None))
    assert isinstance(answer, ListRootsResult)
    return [(str(root.uri), root.name) for root in answer.roots]


async def test_paths_become_addresses_with_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "project"

    assert await _asked([folder]) == [(folder.as_uri(), "project")]
    assert await _asked([str(folder)]) == await _asked([folder])


async def test_the_name_of_a_root_is_for_people(tmp_path: Path) -> None:
    folder = tmp_path / "my project"

    assert await _asked([folder]) == [(folder.as_uri(), "my project")]


async def test_a_relative_path_becomes_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert await _asked(["here"]) == [((tmp_path / "here").as_uri(), "here")]


async def test_addresses_and_roots_pass_as_they_are() -> None:
    root = Root(uri=FileUrl("file:///a/b"), name="mine")

    assert await _asked(["file:///x/y/", root]) == [("file:///x/y/", "y"), ("file:///a/b", "mine")]


async def test_a_function_is_asked_each_time(tmp_path: Path) -> None:
    folders = [tmp_path / "one"]
    callback = roots_callback(lambda: folders)

    first = await callback(cast("Any", None))
    folders.append(tmp_path / "two")
    second = await callback(cast("Any", None))

    assert isinstance(first, ListRootsResult)
    assert isinstance(second, ListRootsResult)
    assert [len(first.roots), len(second.roots)] == [1, 2]


async def test_an_async_function_is_awaited(tmp_path: Path) -> None:
    async def roots() -> list[Path]:
        return [tmp_path]

    assert await _asked(roots) == [(tmp_path.as_uri(), tmp_path.name)]


async def test_no_roots_are_an_empty_list() -> None:
    assert await _asked([]) == []


async def test_roots_that_can_be_read_only_once_are_there_for_every_server(tmp_path: Path) -> None:
    callback = roots_callback(iter([tmp_path]))

    for _ in range(2):
        answer = await callback(cast("Any", None))
        assert isinstance(answer, ListRootsResult)
        assert len(answer.roots) == 1


async def test_one_path_is_one_root(tmp_path: Path) -> None:
    assert await _asked(str(tmp_path)) == [(tmp_path.as_uri(), tmp_path.name)]
