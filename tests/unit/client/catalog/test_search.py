from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.deferral import ToolIndex
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
