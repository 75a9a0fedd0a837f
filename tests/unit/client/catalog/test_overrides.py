"""What a model sees of a changed tool, and what the server gets."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator

from plait.client.catalog.overrides import (
    ArgumentOverride,
    ToolOverride,
    apply_override,
    complete_arguments,
    declared_arguments,
    override_for,
    override_problems,
    read_overrides,
)
from plait.client.catalog.tool import Tool
from plait.errors import ConfigError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "what to find"},
        "limit": {"type": "integer"},
        "user_id": {"type": "string"},
    },
    "required": ["query", "user_id"],
}

SEARCH = Tool(
    server="shop",
    wire_name="search",
    name="search",
    title="Search",
    description="Finds things.",
    input_schema=SCHEMA,
    annotations={"read_only_hint": False, "idempotent_hint": True},
)


def _tool(schema: dict[str, Any]) -> Tool:
    return Tool(server="shop", wire_name="search", name="search", input_schema=schema)


def _changed(tool: Tool = SEARCH, **arguments: ArgumentOverride) -> Tool:
    return apply_override(tool, ToolOverride(arguments=arguments))


def test_an_override_that_says_nothing_changes_nothing() -> None:
    tool = apply_override(SEARCH, ToolOverride())

    assert tool.to_dict() == SEARCH.to_dict()
    assert tool.input_schema is SEARCH.wire_schema
    assert tool.override == ToolOverride()


def test_texts_are_replaced_and_may_hold_the_original() -> None:
    tool = apply_override(
        SEARCH,
        ToolOverride(
            name="find",
            title="Find",
            description="{description} Cheap.",
            arguments={"query": ArgumentOverride(description="Only {description}, {please}.")},
        ),
    )

    assert (tool.name, tool.wire_name, tool.title) == ("find", "search", "Find")
    assert tool.description == "Finds things. Cheap."
    assert tool.input_schema["properties"]["query"] == {
        "type": "string",
        "description": "Only what to find, {please}.",
    }


def test_hints_are_merged_in_either_spelling_and_null_takes_one_away() -> None:
    override = ToolOverride(annotations={"readOnlyHint": True, "idempotent": None, "title": "T"})

    tool = apply_override(SEARCH, override)

    assert tool.annotations == {"read_only_hint": True, "title": "T"}
    assert tool.read_only


def test_the_model_sees_the_changed_schema_and_the_server_keeps_its_own() -> None:
    before = json.dumps(SCHEMA)

    tool = _changed(
        query=ArgumentOverride(name="words", default="all"),
        limit=ArgumentOverride(hide=True),
        user_id=ArgumentOverride(value="u1"),
    )

    assert tool.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "words": {"type": "string", "description": "what to find", "default": "all"}
            },
        }
    )
    assert tool.wire_schema is SCHEMA
    assert json.dumps(SCHEMA) == before


def test_a_default_makes_an_argument_optional_and_is_shown_unless_it_is_worked_out() -> None:
    fixed = _changed(query=ArgumentOverride(default="all"))
    worked_out = _changed(query=ArgumentOverride(default=lambda: "all"))

    assert fixed.input_schema["required"] == ["user_id"]
    assert fixed.input_schema["properties"]["query"]["default"] == "all"
    assert worked_out.input_schema["required"] == ["user_id"]
    assert "default" not in worked_out.input_schema["properties"]["query"]


def test_a_required_argument_cannot_be_hidden_without_a_value() -> None:
    with pytest.raises(ConfigError, match=r'shop/search: the argument "user_id" is hidden'):
        _changed(user_id=ArgumentOverride(hide=True))

    assert (
        "user_id"
        not in _changed(user_id=ArgumentOverride(hide=True, default="u1")).input_schema[
            "properties"
        ]
    )


def test_two_arguments_cannot_get_one_name() -> None:
    with pytest.raises(ConfigError, match='"query", "limit" would all be called "limit"'):
        _changed(query=ArgumentOverride(name="limit"))


def test_arguments_may_swap_names() -> None:
    tool = _changed(query=ArgumentOverride(name="limit"), limit=ArgumentOverride(name="query"))

    assert tool.input_schema["properties"]["query"] == {"type": "integer"}
    assert tool.input_schema["required"] == ["limit", "user_id"]


def test_an_argument_that_is_not_there_is_passed_over_and_reported() -> None:
    override = ToolOverride(arguments={"userid": ArgumentOverride(value=1)})

    assert apply_override(SEARCH, override).input_schema is SCHEMA
    assert override_problems(SEARCH, override) == (
        'the override is for an argument "userid", which is not there (did you mean "user_id"?)',
    )
    assert override_problems(SEARCH, ToolOverride(arguments={"zz": ArgumentOverride()})) == (
        'the override is for an argument "zz", which is not there',
    )
    assert override_problems(SEARCH, ToolOverride(arguments={"query": ArgumentOverride()})) == ()


@pytest.mark.anyio
async def test_a_schema_of_ones_own_may_use_the_new_names() -> None:
    override = ToolOverride(
        input_schema={"type": "object", "properties": {"words": {"type": "string"}}},
        arguments={
            "query": ArgumentOverride(name="words"),
            "user_id": ArgumentOverride(value=7),
        },
    )

    tool = apply_override(SEARCH, override)

    assert tool.input_schema == override.input_schema
    assert override_problems(SEARCH, override) == ()
    assert await complete_arguments(tool, {"words": "a"}) == {"query": "a", "user_id": 7}


@pytest.mark.anyio
async def test_a_new_name_for_an_argument_that_is_not_there_takes_nothing_away() -> None:
    rules = {"text": ArgumentOverride(name="query")}
    plain = apply_override(SEARCH, ToolOverride(arguments=rules))
    shaped = apply_override(SEARCH, ToolOverride(arguments=rules, input_schema=SCHEMA))

    for tool in (plain, shaped):
        assert await complete_arguments(tool, {"query": "a"}) == {"query": "a"}


def test_a_schema_of_ones_own_without_what_the_server_requires_is_reported() -> None:
    override = ToolOverride(input_schema={"type": "object", "properties": {"query": {}}})

    assert override_problems(SEARCH, override) == (
        'the server requires "user_id", which the schema of the override does not have',
    )


BRANCHED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": True},
    "allOf": [{"required": ["a"]}, {"properties": {"d": {"type": "integer"}}}],
    "oneOf": [{"required": ["b"]}, {"required": ["c"]}],
    "not": {"required": ["a", "b"]},
    "if": {"properties": {"a": {"const": "x"}}},
    "then": {"required": ["c"]},
    "dependentRequired": {"b": ["a"]},
    "examples": [{"a": "x"}],
    "$defs": {"n": {"type": "number"}},
}


def test_conditions_on_a_hidden_argument_are_left_to_the_server() -> None:
    tool = _changed(_tool(BRANCHED), a=ArgumentOverride(value="x"))

    assert tool.input_schema == snapshot(
        {
            "type": "object",
            "properties": {"b": {"type": "string"}, "c": True},
            "allOf": [{}, {"properties": {"d": {"type": "integer"}}}],
            "oneOf": [{"required": ["b"]}, {"required": ["c"]}],
            "$defs": {"n": {"type": "number"}},
        }
    )


def test_branches_that_can_no_longer_be_told_apart_need_not_be() -> None:
    tool = _changed(_tool(BRANCHED), b=ArgumentOverride(hide=True, default="y"))

    assert tool.input_schema["anyOf"] == [{}, {"required": ["c"]}]
    assert "oneOf" not in tool.input_schema
    assert tool.input_schema["if"] == BRANCHED["if"]


def test_an_argument_that_is_forbidden_or_unspecified_stays_so() -> None:
    tool = _tool({"type": "object", "properties": {"no": False, "any": True}})
    text = ArgumentOverride(description="x")

    assert _changed(tool, no=text, any=text).input_schema["properties"] == {
        "no": False,
        "any": {"description": "x"},
    }


def test_an_argument_within_a_branch_can_be_changed() -> None:
    tool = _changed(_tool(BRANCHED), d=ArgumentOverride(name="depth", description="how deep"))

    assert tool.input_schema["allOf"][1] == {
        "properties": {"depth": {"type": "integer", "description": "how deep"}}
    }


@pytest.mark.anyio
async def test_a_tool_without_an_override_gets_what_was_sent() -> None:
    assert await complete_arguments(SEARCH, {"query": "a", "x": 1}) == {"query": "a", "x": 1}


@pytest.mark.anyio
async def test_the_server_gets_its_names_the_defaults_and_the_injected_values() -> None:
    tool = _changed(
        query=ArgumentOverride(name="words"),
        limit=ArgumentOverride(default=10),
        user_id=ArgumentOverride(value="u1"),
    )

    assert await complete_arguments(tool, {"words": "a"}) == {
        "query": "a",
        "limit": 10,
        "user_id": "u1",
    }
    assert await complete_arguments(tool, {"words": "a", "limit": 1, "user_id": "root"}) == {
        "query": "a",
        "limit": 1,
        "user_id": "u1",
    }


@pytest.mark.anyio
async def test_what_is_hidden_and_not_sent_is_dropped_even_if_it_is_not_declared() -> None:
    tool = _changed(
        user_id=ArgumentOverride(value="u1"),
        limit=ArgumentOverride(hide=True),
        debug=ArgumentOverride(hide=True),
        admin=ArgumentOverride(value=False),
    )

    sent = {"query": "a", "limit": 99, "debug": True, "admin": True}

    assert await complete_arguments(tool, sent) == {"query": "a", "user_id": "u1"}


@pytest.mark.anyio
async def test_a_tool_that_takes_any_argument_gets_the_injected_ones() -> None:
    tool = _changed(
        _tool({"type": "object", "additionalProperties": True}), admin=ArgumentOverride(value=False)
    )

    assert await complete_arguments(tool, {"admin": True}) == {"admin": False}


@pytest.mark.anyio
async def test_a_visible_argument_may_take_the_name_of_a_hidden_one() -> None:
    tool = _changed(query=ArgumentOverride(name="user_id"), user_id=ArgumentOverride(value="me"))

    assert await complete_arguments(tool, {"user_id": "you"}) == {"query": "you", "user_id": "me"}


@pytest.mark.anyio
async def test_a_null_is_injected_like_any_value() -> None:
    tool = _changed(user_id=ArgumentOverride(value=None))

    assert await complete_arguments(tool, {"user_id": "x"}) == {"user_id": None}


class _User:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, context: object) -> str:
        return f"{self.name} of {context}"


async def _later(context: object) -> str:
    await anyio.lowlevel.checkpoint()
    return f"later {context}"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda: "none", "none"),
        (lambda context: f"one {context}", "one ctx"),
        (lambda context=None: f"maybe {context}", "maybe ctx"),
        (lambda *all_of_it: all_of_it, ("ctx",)),
        (_User("ann"), "ann of ctx"),
        (_later, "later ctx"),
    ],
)
async def test_a_function_gets_the_context_if_it_takes_one_and_is_awaited_if_need_be(
    function: object, value: object
) -> None:
    injected = _changed(user_id=ArgumentOverride(value=function))
    defaulted = _changed(user_id=ArgumentOverride(default=function))

    assert (await complete_arguments(injected, {}, "ctx"))["user_id"] == value
    assert (await complete_arguments(defaulted, {}, "ctx"))["user_id"] == value


@pytest.mark.anyio
async def test_a_builtin_without_a_signature_is_called_without_the_context() -> None:
    tool = _changed(user_id=ArgumentOverride(value=time.monotonic))

    assert isinstance((await complete_arguments(tool, {}, "ctx"))["user_id"], float)


@pytest.mark.anyio
async def test_a_function_that_fails_ends_the_call() -> None:
    def fails() -> str:
        raise LookupError("no user")

    with pytest.raises(LookupError, match="no user"):
        await complete_arguments(_changed(user_id=ArgumentOverride(value=fails)), {})


@pytest.mark.anyio
async def test_what_becomes_of_one_call_does_not_change_the_next() -> None:
    tool = _changed(user_id=ArgumentOverride(value=["a"]))

    first = await complete_arguments(tool, {})
    first["user_id"].append("b")

    assert await complete_arguments(tool, {}) == {"user_id": ["a"]}


def test_an_injected_value_is_not_shown_in_logs() -> None:
    override = ToolOverride(arguments={"key": ArgumentOverride(value="hunter2", default="hunter2")})

    assert "hunter2" not in repr(override)


def _texts(*keys: str) -> dict[str, ToolOverride]:
    return {key: ToolOverride(description=key) for key in keys}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (("s*", "shop/*", "search", "shop/search"), "shop/search"),
        (("s*", "shop/*", "search"), "search"),
        (("s*", "shop/*"), "shop/*"),
        (("*", "s*"), "*"),
        (("web/search", "sea", "sho*"), None),
        ((), None),
    ],
)
def test_the_more_specific_key_wins(keys: tuple[str, ...], found: str | None) -> None:
    override = override_for(_texts(*keys), SEARCH)

    assert (override and override.description) == found


def test_a_key_that_is_the_very_name_of_a_tool_wins_over_its_meaning_as_a_glob() -> None:
    tool = Tool(server="s", wire_name="a[1]", name="a")

    found = override_for(_texts("*", "a[1]"), tool)

    assert found is not None
    assert found.description == "a[1]"


def test_overrides_are_read_from_plain_data() -> None:
    mine = ToolOverride(title="mine")

    read = read_overrides(
        {
            "search": {
                "name": "find",
                "description": None,
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": True, "open_world": None, "title": "T"},
                "arguments": {
                    "user_id": {"value": None},
                    "limit": {"default": 3, "description": "{description} ${x}"},
                    "debug": False,
                    "q": {"name": "query", "hide": False},
                    "x": ArgumentOverride(name="y"),
                },
            },
            "files/*": "A file tool.",
            "mine": mine,
        }
    )

    assert read == {
        "search": ToolOverride(
            name="find",
            input_schema={"type": "object"},
            annotations={"read_only_hint": True, "open_world_hint": None, "title": "T"},
            arguments={
                "user_id": ArgumentOverride(value=None),
                "limit": ArgumentOverride(default=3, description="{description} ${x}"),
                "debug": ArgumentOverride(hide=True),
                "q": ArgumentOverride(name="query"),
                "x": ArgumentOverride(name="y"),
            },
        ),
        "files/*": ToolOverride(description="A file tool."),
        "mine": mine,
    }


def test_everything_that_is_wrong_with_overrides_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_overrides(
            {
                "a": {"descripton": "x", "name": " ", "arguments": []},
                "b": False,
                "c": {
                    "arguments": {
                        "p": "text",
                        "q": True,
                        "r": {"valu": 1},
                        "s": {"value": 1, "default": 2},
                        "t": {"hide": "yes"},
                    },
                    "annotations": {"read_onyl": True, "destructive": "no"},
                    "input_schema": "x",
                    "inputSchema": {},
                },
            }
        )

    found = [(problem.path, problem.code, problem.suggestion) for problem in caught.value.problems]
    how = 'write {"value": …}, {"default": …} or {"description": …}'
    assert found == [
        ("tool_overrides.a.descripton", "unknown_key", 'did you mean "description"?'),
        ("tool_overrides.a.name", "empty_value", None),
        ("tool_overrides.a.arguments", "wrong_type", None),
        ("tool_overrides.b", "wrong_type", 'to leave the tool out, use "exclude"'),
        ("tool_overrides.c.arguments.p", "wrong_type", how),
        ("tool_overrides.c.arguments.q", "wrong_type", how),
        ("tool_overrides.c.arguments.r.valu", "unknown_key", 'did you mean "value"?'),
        ("tool_overrides.c.arguments.s", "conflict", "keep one of them"),
        ("tool_overrides.c.arguments.t.hide", "wrong_type", None),
        ("tool_overrides.c.annotations.read_onyl", "unknown_key", 'did you mean "read-only"?'),
        ("tool_overrides.c.annotations.destructive", "wrong_type", None),
        ("tool_overrides.c.input_schema", "wrong_type", None),
        ("tool_overrides.c.inputSchema", "duplicate_key", "keep one of them"),
    ]


def test_overrides_that_are_no_object_are_refused() -> None:
    not_an_object: Any = ["search"]

    with pytest.raises(ConfigError, match="expected an object of overrides, by tool"):
        read_overrides(not_an_object)


names = st.sampled_from(["a", "b", "c", "d", "e"])
values = st.integers() | st.text(max_size=3)


@st.composite
def changed_tools(draw: st.DrawFn) -> tuple[Tool, dict[str, ArgumentOverride]]:
    """Draw a tool, and an override that fits it."""
    declared = draw(st.lists(names, unique=True))
    branch = draw(st.lists(names, unique=True))
    required = draw(st.lists(st.sampled_from(declared), unique=True)) if declared else []
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": ["integer", "string"]} for name in declared},
        "required": required,
        draw(st.sampled_from(["allOf", "anyOf", "oneOf"])): [
            {"properties": {name: {"type": ["integer", "string"]} for name in branch}}
        ],
    }
    rules: dict[str, ArgumentOverride] = {}
    for name in draw(st.lists(names, unique=True)):
        kind = draw(st.sampled_from(["value", "default", "hide", "hidden default", "rename"]))
        match kind:
            case "value":
                rules[name] = ArgumentOverride(value=draw(values))
            case "default":
                rules[name] = ArgumentOverride(default=draw(values))
            case "hidden default":
                rules[name] = ArgumentOverride(hide=True, default=draw(values))
            case "rename":
                rules[name] = ArgumentOverride(name=f"new_{name}")
            case _ if name not in required:
                rules[name] = ArgumentOverride(hide=True)
            case _:
                pass
    return _changed(_tool(schema), **rules), rules


@given(changed_tools())
def test_what_is_hidden_is_nowhere_in_the_schema(
    drawn: tuple[Tool, dict[str, ArgumentOverride]],
) -> None:
    tool, rules = drawn
    hidden = {name for name, rule in rules.items() if rule.hidden}

    assert not hidden.intersection(declared_arguments(tool.input_schema))
    assert not any(f'"{name}"' in json.dumps(tool.input_schema) for name in hidden)


@given(changed_tools(), st.dictionaries(names | names.map(lambda name: f"new_{name}"), values))
def test_the_model_never_sets_what_is_hidden(
    drawn: tuple[Tool, dict[str, ArgumentOverride]], sent: dict[str, Any]
) -> None:
    tool, rules = drawn

    completed = anyio.run(complete_arguments, tool, sent)
    alone = anyio.run(complete_arguments, tool, {})

    for name, rule in rules.items():
        if rule.hidden:
            assert (name in completed) is (name in alone)
            assert completed.get(name) == alone.get(name)


@given(changed_tools(), st.data())
def test_what_fits_the_schema_that_is_shown_becomes_what_the_server_takes(
    drawn: tuple[Tool, dict[str, ArgumentOverride]], data: st.DataObject
) -> None:
    tool, rules = drawn
    shown = list(declared_arguments(tool.input_schema))
    required: list[str] = list(tool.input_schema.get("required", []))
    chosen = {*required, *(data.draw(st.lists(st.sampled_from(shown))) if shown else [])}
    sent = {name: data.draw(values) for name in sorted(chosen)}

    completed = anyio.run(complete_arguments, tool, sent)

    assert Draft202012Validator(tool.input_schema).is_valid(sent)
    assert Draft202012Validator(tool.wire_schema).is_valid(completed)
    back = {rule.name: name for name, rule in rules.items() if rule.name is not None}
    for name, value in sent.items():
        assert completed[back.get(name, name)] == value
