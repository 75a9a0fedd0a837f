"""The configuration is the named file, else the nearest."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.cli.found_config import config_places, find_config
from plait.errors import ConfigError


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_places_are_searched_in_order(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "work"
    environ = {"HOME": str(home)}
    user = touch(home / ".config" / "plait" / "mcp.json")
    assert find_config(None, cwd=cwd, environ=environ).path == user

    hidden = touch(cwd / ".mcp.json")
    assert find_config(None, cwd=cwd, environ=environ).path == hidden

    plain = touch(cwd / "mcp.json")
    assert find_config(None, cwd=cwd, environ=environ).path == plain

    named = touch(tmp_path / "named.json")
    environ["PLAIT_CONFIG"] = str(named)
    assert find_config(None, cwd=cwd, environ=environ).path == named

    explicit = touch(tmp_path / "explicit.json")
    assert find_config(str(explicit), cwd=cwd, environ=environ).path == explicit


def test_the_user_folder_follows_the_desktop_standard(tmp_path: Path) -> None:
    environ = {"HOME": "/home/ann", "XDG_CONFIG_HOME": str(tmp_path)}

    assert config_places(cwd=tmp_path, environ=environ)[-1] == tmp_path / "plait" / "mcp.json"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    touch(tmp_path / "mcp.json")

    with pytest.raises(ConfigError, match="--config does not exist"):
        find_config(str(tmp_path / "other.json"), cwd=tmp_path, environ={})
    with pytest.raises(ConfigError, match=r"\$PLAIT_CONFIG is a folder"):
        find_config(None, cwd=tmp_path, environ={"PLAIT_CONFIG": str(tmp_path)})


def test_nothing_found_names_every_place_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        find_config(None, cwd=tmp_path, environ={"HOME": str(tmp_path / "home")})

    (problem,) = caught.value.problems
    assert problem.message.replace(str(tmp_path), "…") == (
        "no configuration found; looked for --config, $PLAIT_CONFIG, …/mcp.json, …/.mcp.json, "
        "~/.config/plait/mcp.json"
    )
    assert problem.suggestion == "`plait init` creates one"
