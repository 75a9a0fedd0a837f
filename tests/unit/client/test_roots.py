"""The folders a client shows to its servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

from plait import ConfigError
from plait.client.options import roots_callback

if TYPE_CHECKING:
    from plait.client.protocol.session import OnRoots

pytestmark = pytest.mark.anyio


async def _answer(callback: OnRoots) -> list[tuple[str, str | None]]:
    """Ask once, as a server would."""
    answer = await callback(cast("Any", None))
    assert isinstance(answer, ListRootsResult)
    return [(str(root.uri), root.name) for root in answer.roots]


async def test_paths_addresses_and_roots_are_shown_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my project"
    shown = [(folder.as_uri(), "my project")]

    for roots in ([folder], [str(folder)], str(folder), folder, ["my project"]):
        assert await _answer(roots_callback(roots)) == shown
    mine = Root(uri=FileUrl("file:///a/b"), name="mine")
    assert await _answer(roots_callback(["file:///x/y/", mine])) == [
        ("file:///x/y/", "y"),
        ("file:///a/b", "mine"),
    ]
    assert await _answer(roots_callback([])) == []


async def test_a_function_is_asked_each_time_and_may_be_async(tmp_path: Path) -> None:
    folders = [tmp_path / "one"]

    async def later() -> list[Path]:
        return folders

    callbacks = [roots_callback(lambda: folders), roots_callback(later)]
    assert [len(await _answer(callback)) for callback in callbacks] == [1, 1]
    folders.append(tmp_path / "two")
    assert [len(await _answer(callback)) for callback in callbacks] == [2, 2]


async def test_roots_that_can_be_read_only_once_are_there_for_every_server(tmp_path: Path) -> None:
    callback = roots_callback(iter([tmp_path]))

    for _ in range(2):
        assert len(await _answer(callback)) == 1


@pytest.mark.parametrize("roots", [["http://x"], ["file://["], [5], 5, "http://x"])
async def test_what_is_no_folder_is_said_in_our_own_words(roots: Any) -> None:
    with pytest.raises(ConfigError, match="roots takes folders, file URIs, or a function"):
        roots_callback(roots)
    with pytest.raises(ConfigError, match="roots takes folders, file URIs, or a function"):
        await _answer(roots_callback(lambda: roots))
