"""Tools are found by what they do, whatever the form of the words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.deferral import ToolIndex, query_words_of, stem, synonyms_of, words_of
from plait.client.catalog.tool import Tool

DATA = Path(__file__).parents[3] / "data"
QUERIES: dict[str, str] = json.loads((DATA / "tool_queries.json").read_text("utf-8"))
LISTED: list[dict[str, Any]] = json.loads((DATA / "real_tools.json").read_text("utf-8"))
REAL = [
    Tool(
        server=one["server"],
        wire_name=one["name"],
        name=one["name"],
        title=one["title"],
        description=one["description"],
        input_schema=one["input_schema"],
    )
    for one in LISTED
]


def _tool(name: str, description: str = "", **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return Tool(
        server="s",
        wire_name=name,
        name=name,
        description=description,
        input_schema={"type": "object", "properties": properties},
    )


def _found(tools: list[Tool], query: str, limit: int = 5) -> list[str]:
    return [match.tool.name for match in ToolIndex(tools).search(query, limit)]


def test_the_queries_are_many_and_name_no_tool() -> None:
    assert len(QUERIES) >= 110
    assert len(set(QUERIES.values())) >= 49
    for query, wanted in QUERIES.items():
        name = _spaced(wanted.partition("/")[2])
        assert f" {name} " not in f" {_spaced(query)} ", query


def test_the_right_tool_is_among_the_first_five_for_95_percent_of_the_queries() -> None:
    index = ToolIndex(REAL)
    missed = [
        query
        for query, wanted in QUERIES.items()
        if wanted not in [match.tool.full_name for match in index.search(query, 5)]
    ]

    assert len(missed) <= 0.05 * len(QUERIES), missed


def test_parameters_are_searched_too() -> None:
    tools = [_tool("alpha", "Do one thing.", city="Where it is."), _tool("beta", "Do one thing.")]

    assert _found(tools, "city") == ["alpha"]


def test_parameters_inside_of_others_are_searched_too() -> None:
    inner = {"type": "object", "properties": {"postcode": {"enum": ["berlin", "paris"]}}}
    schema = {"type": "object", "properties": {"stops": {"type": "array", "items": inner}}}
    tool = Tool(server="s", wire_name="t", name="t", input_schema=schema)

    assert _found([_tool("other", "Something."), tool], "postcode of paris") == ["t"]


def test_a_word_in_the_name_counts_more_than_one_in_the_description() -> None:
    tools = [_tool("one", "Sends an invoice somewhere."), _tool("invoice", "Sends it somewhere.")]

    assert _found(tools, "invoice")[0] == "invoice"


def test_words_written_as_one_or_as_two_are_the_same() -> None:
    tools = [_tool("a", "Names the timezone."), _tool("b", "Counts sheep.")]

    assert _found(tools, "time zone") == ["a"]
    assert _found([_tool("c", "Reads a data base."), _tool("b", "Counts sheep.")], "database") == [
        "c"
    ]


def test_nothing_is_found_where_no_word_fits() -> None:
    assert _found(REAL, "xylophone") == []
    assert _found(REAL, "") == []
    assert _found([], "file") == []


@given(st.text(max_size=80), st.integers(1, 10))
def test_a_search_returns_each_tool_once_and_the_best_first(query: str, limit: int) -> None:
    matches = ToolIndex(REAL[:20]).search(query, limit)

    assert len(matches) <= limit
    assert len({match.tool.full_name for match in matches}) == len(matches)
    assert [one.score for one in matches] == sorted((one.score for one in matches), reverse=True)


def _spaced(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


@pytest.mark.parametrize(
    "forms",
    [
        ("file", "files", "filed", "filing"),
        ("create", "creates", "created", "creating"),
        ("directory", "directories"),
        ("branch", "branches"),
        ("stop", "stops", "stopped", "stopping"),
        ("relation", "relations", "relate"),
        ("compress", "compressed", "compression"),
    ],
)
def test_the_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("status", "state"), ("thing", "the"), ("sing", "s"), ("need", "ne")]
)
def test_words_that_are_not_alike_stay_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_names_are_split_where_programmers_join_words() -> None:
    assert words_of("getHTTPServer_list-items2") == words_of("get HTTP server list items 2")


def test_words_of_other_scripts_are_words() -> None:
    assert words_of("поиск файлов") == ["поиск", "файлов"]


def test_words_that_tell_nothing_are_left_out() -> None:
    assert words_of("what is in the file") == [stem("file")]


def test_the_name_of_a_file_means_a_file_and_an_abbreviation_does_not() -> None:
    assert query_words_of("open notes.md") == ["open", "file"]
    assert query_words_of("all *.py") == ["all", "file"]
    assert "file" not in query_words_of("wait 2.5 s, e.g. here")


def test_words_of_one_meaning_know_each_other() -> None:
    assert stem("directory") in synonyms_of(stem("folder"))
    assert stem("relation") in synonyms_of(stem("relationship"))
    assert stem("create") in synonyms_of(stem("creation"))
    assert stem("folder") not in synonyms_of(stem("folder"))
    assert synonyms_of("giraffe") == frozenset()


@given(st.text(max_size=60))
def test_any_text_has_words_that_stay_as_they_are(text: str) -> None:
    for word in words_of(text):
        assert word
        assert word == word.lower()
