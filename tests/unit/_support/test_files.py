"""Files that are replaced in one step."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from plait._support.files import write_atomically


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o640)

    write_atomically(path, "new\n")

    assert path.read_bytes() == b"new\n"
    assert mode_of(path) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_has_the_permissions_of_any_new_file(
    tmp_path: Path, mask: int, expected: int
) -> None:
    earlier = os.umask(mask)
    try:
        write_atomically(tmp_path / "a.json", "new")
    finally:
        os.umask(earlier)

    assert mode_of(tmp_path / "a.json") == expected


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_permissions_can_be_set(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    write_atomically(path, "new", mode=mode)

    assert mode_of(path) == mode


def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
