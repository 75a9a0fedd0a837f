"""Structured content compared with what the text says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.langchain.tools.structured import is_said_by, json_text


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{"a": 1, "b": [true, null]}'], {"b": [True, None], "a": 1}),
        (["words"], "words"),
        (['"words"'], "words"),
        (["3.5"], {"result": 3.5}),
        (["null"], {"result": None}),
        (["[]"], {"result": []}),
        (["1", "2"], [1, 2]),
        (["NaN"], {"result": float("nan")}),
    ],
)
def test_the_same_in_other_words_is_said(texts: list[str], structured: Any) -> None:
    assert is_said_by(texts, structured)


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        ([], {}),
        ([], {"result": []}),
        (["1"], {"result": True}),
        (["1", "2"], [2, 1]),
        (["1", "2", "3"], [1, 2]),
        (["words and more"], {"result": "words"}),
        (["7"], {"value": 7}),
        (["7"], {"result": 7, "unit": "m"}),
        (["9" * 5000], {"a": 1}),
        (["[" * 100_000], {"a": 1}),
    ],
)
def test_something_else_is_not_said(texts: list[str], structured: Any) -> None:
    assert not is_said_by(texts, structured)


def test_json_is_written_for_a_reader() -> None:
    assert json_text({"name": "Zoë", "n": [1, 2]}) == '{"name": "Zoë", "n": [1, 2]}'


def test_a_value_that_is_no_json_is_written_as_it_can_be() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert json_text({"a": {1}}) == '{"a": "{1}"}'
    assert json_text(endless) == "a value that cannot be written as JSON"
    assert json.loads(json_text({"a": "\ud83d"})) == {"a": "\ud83d"}
    assert not is_said_by(["x"], endless)
