"""The words after `plait call SERVER TOOL` become typed arguments."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.cli.arguments import check_names, parse_arguments
from plait.cli.exits import ArgumentError
from plait.client.catalog.tool import Tool

SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ids": {"type": "array", "items": {"type": "integer"}},
        "filter": {"$ref": "#/$defs/Filter"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "dotted.name": {"type": "string"},
        "anything": {},
        "mode": {"enum": ["1", "2"]},
    },
    "required": ["query"],
    "$defs": {
        "Filter": {
            "type": "object",
            "properties": {
                "organic": {"type": "boolean"},
                "maker": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        }
    },
}


def no_files(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def files(**texts: str) -> Callable[[str], str]:
    return lambda path: texts[path.replace(".", "_").replace("-", "stdin")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["query=tea"], {"query": "tea"}),
        (["query=5"], {"query": "5"}),
        (["query=a=b"], {"query": "a=b"}),
        (["query="], {"query": ""}),
        (["limit=5"], {"limit": 5}),
        (["limit=-5"], {"limit": -5}),
        (["ratio=2"], {"ratio": 2}),
        (["ratio=1.5"], {"ratio": 1.5}),
        (["exact=true"], {"exact": True}),
        (["exact=False"], {"exact": False}),
        (['tags=["a","b"]'], {"tags": ["a", "b"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (["ids=1", "ids=2"], {"ids": [1, 2]}),
        (["ids=[1, 2]"], {"ids": [1, 2]}),
        (['filter={"organic": true}'], {"filter": {"organic": True}}),
        (["filter.organic=true"], {"filter": {"organic": True}}),
        (
            ["filter.organic=true", "filter.maker.name=1"],
            {"filter": {"organic": True, "maker": {"name": "1"}}},
        ),
        (["maybe=3"], {"maybe": 3}),
        (["maybe=null"], {"maybe": None}),
        (["either=3"], {"either": "3"}),
        (["either:=3"], {"either": 3}),
        (["query:=null"], {"query": None}),
        (["dotted.name=x"], {"dotted.name": "x"}),
        ([r"other\.name=x"], {"other.name": "x"}),
        (["anything=1"], {"anything": 1}),
        (["anything=tea"], {"anything": "tea"}),
        (["unknown=[1]"], {"unknown": [1]}),
        (["mode=1"], {"mode": "1"}),
        (['{"query": "tea"}'], {"query": "tea"}),
        (['{"query": "tea"}', "limit=5"], {"query": "tea", "limit": 5}),
        (['{"limit": 4}', "limit=5"], {"limit": 5}),
        (["query=@@home"], {"query": "@home"}),
    ],
)
def test_words_become_the_types_the_schema_wants(words: list[str], expected: object) -> None:
    assert parse_arguments(words, SEARCH, no_files) == expected


def test_a_file_gives_text_or_json() -> None:
    read = files(notes_txt="two\nlines\n", limit_json="7", all_json='{"query": "x"}')

    assert parse_arguments(["query=@notes.txt"], SEARCH, read) == {"query": "two\nlines\n"}
    assert parse_arguments(["limit:=@limit.json"], SEARCH, read) == {"limit": 7}
    assert parse_arguments(["limit=@limit.json"], SEARCH, read) == {"limit": 7}
    assert parse_arguments(["@all.json"], SEARCH, read) == {"query": "x"}


def test_a_dash_reads_the_object_from_stdin() -> None:
    assert parse_arguments(["-"], SEARCH, files(stdin='{"limit": 1}')) == {"limit": 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tea"], "'tea' is neither JSON nor a pair; write query=tea"),
        (["=tea"], "'=tea' is neither JSON nor a pair; write query==tea"),
        (["limit=many"], "limit: must be integer, not 'many'"),
        (["limit=1.5"], "limit: must be integer, not '1.5'"),
        (["limit=true"], "limit: must be integer, not 'true'"),
        (["exact=1"], "exact: must be boolean, not '1'"),
        (["ids=one"], "ids: must be integer, not 'one'"),
        (["ratio=NaN"], "ratio: must be number, not 'NaN'"),
        (["limit:=x"], "limit: not valid JSON: Expecting value at line 1, column 1"),
        (["limit:=NaN"], "limit: not valid JSON: NaN is not JSON"),
        (["query=a", "query=b"], "query is set twice"),
        (["[1]"], 'the arguments must be a JSON object, like \'{"name": "value"}\''),
        (["{"], "the arguments: not valid JSON: Expecting property name enclosed in double quotes"),
        (["a..b=1"], "'a..b' has an empty part between its dots"),
        (["anything=1", "anything.x=1"], "anything.x: anything already has a value"),
        (["other.x=1", "other=1"], "other is set both as a whole and in parts"),
        (
            ["query=@gone.txt"],
            "cannot read gone.txt: No such file or directory (for the text itself write @@gone",
        ),
    ],
)
def test_a_word_that_cannot_be_understood_is_named(words: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_arguments(words, SEARCH, no_files)

    assert str(caught.value).startswith(message)


CLOSED = {**SEARCH, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "arguments", "message", "call"),
    [
        (SEARCH, {"limit": 5}, "find needs query", "query=STRING limit=5"),
        (
            SEARCH,
            {"qury": "x"},
            "find needs query and has no argument 'qury' (did you mean \"query\"?)",
            "query=STRING",
        ),
        (
            CLOSED,
            {"query": "two words", "limt": 1},
            "find has no argument 'limt' (did you mean \"limit\"?)",
            "'query=two words'",
        ),
    ],
)
def test_names_that_are_missing_or_unknown_are_said_with_a_call_that_would_work(
    schema: dict[str, object], arguments: dict[str, object], message: str, call: str
) -> None:
    tool = Tool(server="shop", wire_name="find", name="find", input_schema=schema)

    with pytest.raises(ArgumentError) as caught:
        check_names(tool, arguments)

    assert (str(caught.value), caught.value.hint) == (message, f"plait call shop find {call}")


def test_names_that_the_tool_may_know_are_sent() -> None:
    tool = Tool(server="shop", wire_name="find", name="find", input_schema=SEARCH)

    check_names(tool, {"query": "x", "other": 1})


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values))
def test_any_json_object_arrives_unchanged(arguments: dict[str, object]) -> None:
    assert parse_arguments([json.dumps(arguments)], SEARCH, no_files) == arguments


@given(values)
def test_any_value_after_colon_equals_arrives_unchanged(value: object) -> None:
    assert parse_arguments([f"x:={json.dumps(value)}"], SEARCH, no_files) == {"x": value}


@given(st.text().filter(lambda text: not text.startswith("@")))
def test_any_text_for_a_string_arrives_unchanged(text: str) -> None:
    assert parse_arguments([f"query={text}"], SEARCH, no_files) == {"query": text}


@given(st.lists(st.text(min_size=1), max_size=4))
def test_any_words_are_either_understood_or_refused_with_a_reason(words: list[str]) -> None:
    try:
        parse_arguments(words, SEARCH, no_files)
    except ArgumentError as error:
        assert str(error)  # noqa: PT017
