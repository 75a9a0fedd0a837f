"""`ToolingManifest.json` is found, read, and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.errors import ManifestError
from plait.gateway.manifest import (
    FILE,
    add_entries,
    find_manifest,
    manifest_places,
    read_manifest,
    remove_entries,
)


def url_for(name: str) -> str:
    return f"https://gateway.example/{name}"


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_the_file_is_looked_for_here_then_above_then_beside_the_program(tmp_path: Path) -> None:
    here = tmp_path / "project" / "src"
    program = tmp_path / "bin" / "run.py"

    assert manifest_places(here, str(program)) == [
        here / FILE,
        tmp_path / "project" / FILE,
        tmp_path / "bin" / FILE,
    ]


def test_the_nearest_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    above = written(tmp_path / FILE, "{}")

    assert find_manifest() == above

    here = written(inner / FILE, "{}")

    assert find_manifest() == here


def test_without_a_file_there_are_no_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.setattr("sys.argv", [""])

    assert len(read_manifest(None, url_for)) == 0
    assert FILE in caplog.text


def test_a_file_may_have_comments_and_a_mark_at_its_start(tmp_path: Path) -> None:
    text = '\ufeff{"mcpServers": [ // ours\n {"mcpServerName": "mail"}, ]}'
    found = read_manifest(written(tmp_path / FILE, text), url_for)

    assert [(one.mcp_server_name, one.url) for one in found] == [("mail", url_for("mail"))]


def test_a_file_without_a_list_has_no_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(read_manifest(written(tmp_path / FILE, '{"servers": []}'), url_for)) == 0
    assert "no list mcpServers" in caplog.text


def test_a_file_that_is_not_json_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = written(tmp_path / FILE, '{"mcpServers": [\n{"mcpServerName": }]}')

    with pytest.raises(ManifestError) as caught:
        read_manifest(path, url_for)

    assert caught.value.message.startswith(f"Failed to read MCP servers from {FILE}: ")
    assert "line 2" in caught.value.message


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="there is no"):
        read_manifest(tmp_path / "other.json", url_for)


def test_entries_are_added_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / FILE

    assert add_entries(path, [{"mcpServerName": "mail", "scope": "a"}]) == ["mail"]
    assert add_entries(
        path, [{"mcpServerName": "mail", "url": "https://x"}, {"mcpServerName": "b"}]
    ) == ["b"]
    assert json.loads(path.read_text())["mcpServers"] == [
        {"mcpServerName": "mail", "scope": "a", "url": "https://x"},
        {"mcpServerName": "b"},
    ]
    assert remove_entries(path, ["mail", "nobody"]) == ["mail"]
    assert json.loads(path.read_text()) == {"mcpServers": [{"mcpServerName": "b"}]}
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


def test_what_else_is_in_the_file_stays(tmp_path: Path) -> None:
    path = written(tmp_path / FILE, '{"version": 3, "mcpServers": ["odd"]}')

    add_entries(path, [{"mcpServerName": "mail"}])

    assert json.loads(path.read_text()) == {
        "version": 3,
        "mcpServers": ["odd", {"mcpServerName": "mail"}],
    }


def test_a_file_that_is_no_object_is_not_written_over(tmp_path: Path) -> None:
    path = written(tmp_path / FILE, "[]")

    with pytest.raises(ManifestError):
        add_entries(path, [{"mcpServerName": "mail"}])

    assert path.read_text() == "[]"
