"""Lists of tools on disk, and their texts without what is hidden in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from plait.client.catalog.listing import ListCache, StoredList, cache_folder, sanitize_tool
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_config
from plait.client.config.servers import ServerConfig
from plait.client.connections.operations import ToolList

SCHEMA = {"type": "object", "properties": {"a": {"default": None, "enum": [None, 1]}}}
STORED = StoredList(
    ToolList(
        (
            {
                "name": "add",
                "title": "Add",
                "description": "Füge hinzu.",
                "inputSchema": SCHEMA,
                "annotations": {"readOnlyHint": True},
                "_meta": {"x": None},
            },
        ),
        public=True,
    ),
    {"name": "demo", "version": "1"},
    ("tool 'x' was left out",),
)


def _server(**entry: Any) -> ServerConfig:
    written = entry if "url" in entry else {"command": "demo", **entry}
    return read_config({"servers": {"demo": written}}).servers["demo"]


@pytest.fixture
def cache(tmp_path: Path) -> ListCache:
    return ListCache(tmp_path / "tools")


def test_what_was_stored_comes_back_as_it_was(cache: ListCache) -> None:
    cache.save("demo", _server(), STORED)

    assert cache.load("demo", _server()) == STORED


def test_only_the_owner_can_read_the_file(cache: ListCache) -> None:
    cache.save("demo", _server(), STORED)

    path = cache.path_of("demo", _server())
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "other",
    [
        {"command": "other"},
        {"args": ["--all"]},
        {"env": {"LOG_LEVEL": "debug"}},
        {"cwd": "/"},
        {"url": "http://127.0.0.1:1/mcp"},
    ],
)
def test_another_configuration_has_another_list(cache: ListCache, other: dict[str, Any]) -> None:
    cache.save("demo", _server(), STORED)

    assert cache.load("demo", _server(**other)) is None
    assert cache.load("twin", _server()) is None


def test_another_secret_has_the_same_list_and_stands_nowhere(cache: ListCache) -> None:
    cache.save("demo", _server(env={"API_KEY": "canary-one"}), STORED)

    assert cache.load("demo", _server(env={"API_KEY": "canary-two"})) == STORED
    for path in cache.folder.iterdir():
        assert "canary" not in path.name + path.read_text("utf-8")


def test_a_list_that_holds_a_secret_is_not_stored(cache: ListCache) -> None:
    tool = {"name": "add", "description": 'Uses can"ary.', "inputSchema": {"type": "object"}}
    server = _server(env={"API_KEY": 'can"ary'})
    cache.save("demo", server, STORED)

    cache.save("demo", server, StoredList(ToolList((tool,))))

    assert cache.load("demo", server) is None
    assert list(cache.folder.iterdir()) == []


def test_a_program_that_changes_has_no_list(cache: ListCache, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text("1")
    server = _server(command="python", args=[str(program)])
    cache.save("demo", server, STORED)
    assert cache.load("demo", server) == STORED

    program.write_text("another one")

    assert cache.load("demo", server) is None


@pytest.mark.parametrize(
    ("hint", "own", "age", "holds"),
    [
        (None, None, 6 * 86400, True),
        (None, None, 8 * 86400, False),
        (60.0, None, 59, True),
        (60.0, None, 61, False),
        (60.0, 3600.0, 61, True),
        (None, 0.0, 0, False),
        (None, None, -5, False),
    ],
)
def test_a_list_grows_old(
    tmp_path: Path, hint: float | None, own: float | None, age: float, *, holds: bool
) -> None:
    stored = StoredList(ToolList(STORED.listed.tools, ttl_seconds=hint))
    ListCache(tmp_path, now=lambda: 1000.0).save("demo", _server(), stored)

    later = ListCache(tmp_path, now=lambda: 1000.0 + age)
    found = later.load("demo", _server(), ttl_seconds=own)

    assert found == (stored if holds else None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tools": [{"name": 1}]}', "\x00"])
def test_a_broken_file_is_no_list_and_is_replaced(cache: ListCache, text: str) -> None:
    path = cache.path_of("demo", _server())
    cache.save("demo", _server(), STORED)
    path.write_text(text)

    assert cache.load("demo", _server()) is None
    cache.save("demo", _server(), STORED)
    assert cache.load("demo", _server()) == STORED


@pytest.mark.parametrize("change", ["others can write it", "another version of plait", "dropped"])
def test_a_list_that_cannot_be_believed_is_none(cache: ListCache, change: str) -> None:
    cache.save("demo", _server(), STORED)
    path = cache.path_of("demo", _server())
    if change == "dropped":
        cache.drop("demo", _server())
    elif change == "others can write it":
        path.chmod(0o666)
    else:
        path.write_text(path.read_text("utf-8").replace('"plait":"', '"plait":"9'), "utf-8")

    assert cache.load("demo", _server()) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ListCache(tmp_path / "file" / "tools")

    cache.save("demo", _server(), STORED)
    cache.drop("demo", _server())

    assert cache.load("demo", _server()) is None


def test_the_folder_can_be_chosen() -> None:
    assert cache_folder({"PLAIT_CACHE_DIR": "/c"}) == Path("/c")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/plait")
    assert cache_folder({}) == Path(os.path.expanduser("~/.cache/plait"))  # noqa: PTH111


HIDING_SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "Whom\U000e0041 to pay.", "enum": ["a\u200b", "b"]},
        "na\u200bme": {"type": "string"},
    },
    "required": ["na\u200bme"],
}


def test_a_clean_tool_is_the_same_tool() -> None:
    tool = Tool(server="s", wire_name="t", name="t", description="Plain.", input_schema={"a": [1]})

    assert sanitize_tool(tool) == (tool, ())
    assert sanitize_tool(tool)[0].input_schema is tool.input_schema


def test_every_text_of_a_tool_is_sanitized_and_noted() -> None:
    tool = Tool(
        server="s",
        wire_name="t\u200b",
        name="t",
        title="Pay\x07",
        description="Pay.\u202e",
        input_schema=HIDING_SCHEMA,
        output_schema={"description": "Out\ufeff"},
        annotations={"title": "P\u2060ay", "read_only_hint": True},
    )

    clean, notes = sanitize_tool(tool)

    assert (clean.title, clean.description) == ("Pay\\u0007", "Pay.\\u202e")
    assert clean.input_schema == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Whom to pay.", "enum": ["a", "b"]},
            "name": {"type": "string"},
        },
        "required": ["name"],
    }
    assert clean.output_schema == {"description": "Out"}
    assert clean.annotations == {"title": "Pay", "read_only_hint": True}
    assert clean.wire_name == tool.wire_name
    assert clean.wire_schema == HIDING_SCHEMA
    assert [note.partition(":")[0] for note in notes] == [
        *("title", "description", "arguments.to.description", "arguments.to.enum"),
        *("arguments.name", "arguments.required", "result.description", "annotations.title"),
        "name",
    ]


def test_a_key_that_hides_cannot_take_the_place_of_another() -> None:
    tool = Tool(server="s", wire_name="t", name="t", input_schema={"a": 1, "a\u200b": 2})

    assert sanitize_tool(tool)[0].input_schema == {"a": 1, "a\\u200b": 2}
