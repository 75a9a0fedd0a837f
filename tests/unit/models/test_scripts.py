"""Script files: what they may hold, and the errors about those that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.errors import ConfigError
from plait.models.scripts import Call, Say, read_script


def _problems(item: object, folder: Path) -> list[tuple[str, str]]:
    file = folder / "script.json"
    file.write_text(json.dumps([item]), "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_script(file)
    return [(problem.path, problem.code) for problem in caught.value.problems]


def test_a_file_holds_texts_and_whole_turns(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    usage = {"input_tokens": 5, "cache_read_tokens": 3}
    call = {"name": "add", "arguments": {"a": 1}, "id": "c1"}
    turn = {"text": "t", "calls": [call, {"name": "now"}], "thinking": "hm", "usage": usage}
    file.write_text(json.dumps(["hello", {**turn, "delay": 1}, {}]), "utf-8")

    assert read_script(file) == [
        Say("hello"),
        Say(
            "t",
            calls=(Call("add", {"a": 1}, "c1"), Call("now")),
            thinking="hm",
            usage=usage,
            delay=1.0,
        ),
        Say(),
    ]


def test_an_unknown_key_is_named_with_its_place_and_the_one_that_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('["fine", {"txt": "x"}, {"calls": [{"nam": "add"}]}, 7]', "utf-8")

    with pytest.raises(ConfigError) as caught:
        read_script(file)

    turn = "text, calls, thinking, usage, delay, stop"
    call = "name, arguments, id, encoded"
    assert str(caught.value).splitlines() == [
        "4 problems in the configuration:",
        f'  - {file}: item 2: unknown key "txt" (did you mean "text"? allowed: {turn})',
        f"  - {file}: item 3.calls[0]: a call needs the name of a tool",
        f'  - {file}: item 3.calls[0]: unknown key "nam" (did you mean "name"? allowed: {call})',
        f"  - {file}: item 4: must be a text or an object with {turn}, not a number",
    ]


@pytest.mark.parametrize(
    ("item", "path"),
    [
        (None, ""),
        ([], ""),
        ({"text": 1}, "text"),
        ({"thinking": []}, "thinking"),
        ({"calls": {}}, "calls"),
        ({"calls": ["add"]}, "calls[0]"),
        ({"calls": [{"name": 1}]}, "calls[0].name"),
        ({"calls": [{"name": ""}]}, "calls[0]"),
        ({"calls": [{"name": "add", "arguments": "{}"}]}, "calls[0].arguments"),
        ({"calls": [{"name": "add", "id": 5}]}, "calls[0].id"),
        ({"usage": 5}, "usage"),
        ({"usage": {"input_tokens": -1}}, "usage.input_tokens"),
        ({"usage": {"input_tokens": True}}, "usage.input_tokens"),
        ({"delay": -1}, "delay"),
        ({"delay": True}, "delay"),
        ({"delay": "1"}, "delay"),
        ({"delay": float("nan")}, "delay"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_path(
    item: object, path: str, tmp_path: Path
) -> None:
    place = f"item 1.{path}" if path else "item 1"
    assert _problems(item, tmp_path) == [(place, "invalid_value")]


def test_a_usage_with_an_unknown_count_is_refused(tmp_path: Path) -> None:
    problems = _problems({"usage": {"prompt_tokens": 1}}, tmp_path)
    assert problems == [("item 1.usage", "unknown_key")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"[1,", "is not JSON"),
        (b'["\xff"]', "is not UTF-8"),
        (b'{"text": "x"}', "must be an array"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_script_is_refused_by_name(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "script.json"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError, match=message) as caught:
        read_script(file)

    assert str(file) in str(caught.value)
