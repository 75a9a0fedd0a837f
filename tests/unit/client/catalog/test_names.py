"""Public names: legal, unique, and the same whatever else is listed and in which order."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.client.catalog.names import NamePolicy, collisions, legal_name, with_public_names
from plait.client.catalog.overrides import ToolOverride, apply_override
from plait.client.catalog.tool import Tool
from plait.errors import ConfigError

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")

Pair = tuple[str, str]


def _tool(server: str, name: str) -> Tool:
    return Tool(server=server, wire_name=name, name=name, description=f"{server}/{name}")


def _names(*pairs: Pair, policy: NamePolicy | None = None) -> list[str]:
    return [tool.name for tool in with_public_names([_tool(*pair) for pair in pairs], policy)]


def _renamed(server: str, wire_name: str, name: str) -> Tool:
    return apply_override(_tool(server, wire_name), ToolOverride(name=name))


policies = st.builds(
    NamePolicy,
    separator=st.sampled_from(["", "_", "__"]),
    extra=st.sampled_from(["", "p", "my prefix", "x" * 70]),
)
servers = st.sampled_from(["a", "b", "a__a", "a b", "ä", "x" * 70])
wire_names = (
    st.sampled_from(["read", "a__read", "read.file", "read_file", "read-file", "ä", "", "x" * 64])
    | st.sampled_from(["x" * 65, "x" * 70 + "1", "x" * 70 + "2", "_", "a__a__read"])
    | st.text(max_size=80)
)
pairs = st.tuples(servers, wire_names)


renames = st.none() | st.sampled_from(["read", "a__read", "b", "ä"])


def _listed_tool(pair: Pair, rename: str | None) -> Tool:
    return _tool(*pair) if rename is None else _renamed(*pair, rename)


tools = st.builds(_listed_tool, pairs, renames)
NO_POLICY = NamePolicy()


@given(st.lists(tools, max_size=12), policies, st.sets(st.sampled_from(["read", "a__read", "_"])))
@example([_tool("a", "read")] * 4, NO_POLICY, set())
@example([_tool("a", "read"), _tool("b", "read"), _tool("a b", "a__read")], NO_POLICY, set())
@example([_tool("a", "x.y"), _tool("a", "x-y"), _tool("a", "x_y")], NO_POLICY, {"a__x_y"})
@example([_tool("ä", "read"), _tool("_", "read")], NO_POLICY, set())
@example([_tool("a_b", "c"), _tool("a", "b_c")], NamePolicy("_"), set())
@example([_tool("a", "/b"), _tool("a/", "b")], NamePolicy("__"), set())
@example([_tool("a", ""), _tool("a", "x" * 70 + "\ud83d")], NO_POLICY, set())
def test_every_tool_gets_a_legal_name_of_its_own(
    listed: list[Tool], policy: NamePolicy, taken: set[str]
) -> None:
    named = with_public_names(listed, policy, taken=taken)

    assert [replace(tool, name="") for tool in named] == [replace(tool, name="") for tool in listed]
    for tool in named:
        assert LEGAL.fullmatch(tool.name), tool.name
    names = [tool.name for tool in named]
    assert len(set(names)) == len(names)
    assert not taken.intersection(names)


@given(
    st.lists(tools, max_size=8, unique_by=lambda tool: (tool.server, tool.wire_name)),
    policies,
    st.randoms(use_true_random=False),
)
@example([_tool("a", "x.y"), _tool("a", "x_y")], NO_POLICY, Random(1))
@example([_tool("a", "read"), _tool("b", "read"), _tool("b", "a__read")], NO_POLICY, Random(1))
@example([_tool("a", "/b"), _tool("a/", "b")], NamePolicy("__"), Random(3))
def test_names_do_not_depend_on_the_order(
    listed: list[Tool], policy: NamePolicy, random: Random
) -> None:
    other = random.sample(listed, len(listed))

    first = {tool.full_name: tool.name for tool in with_public_names(listed, policy)}
    second = {tool.full_name: tool.name for tool in with_public_names(other, policy)}

    assert first == second


def test_a_name_that_looks_like_the_hash_of_another_does_not_depend_on_the_order() -> None:
    twins = [_tool("a", "x.y"), _tool("a", "x_y")]
    hashed = with_public_names(twins)[0].name
    listed = [*twins, _tool("b", hashed)]

    first = {tool.full_name: tool.name for tool in with_public_names(listed)}
    second = {tool.full_name: tool.name for tool in with_public_names(listed[::-1])}

    assert first == second
    assert first[f"b/{hashed}"] == hashed
    assert len(set(first.values())) == 3


@given(st.lists(tools, max_size=8), policies)
def test_tools_that_are_named_again_keep_their_names(
    listed: list[Tool], policy: NamePolicy
) -> None:
    named = with_public_names(listed, policy)

    assert with_public_names(named, policy) == named


@given(st.lists(pairs, max_size=8))
@example([("a", "read"), ("b", "read"), ("c", "a__read")])
def test_a_name_that_is_legal_and_wanted_once_is_kept(listed: list[Pair]) -> None:
    wanted = Counter(legal_name(name) for _, name in listed)

    for (_, wire_name), name in zip(listed, _names(*listed), strict=True):
        if wanted[wire_name] == 1 and LEGAL.fullmatch(wire_name):
            assert name == wire_name


@given(st.lists(tools, max_size=8, unique_by=lambda tool: (tool.server, tool.wire_name)), policies)
def test_refusing_collisions_changes_nothing_where_there_are_none(
    listed: list[Tool], policy: NamePolicy
) -> None:
    strict = replace(policy, on_collision="error")

    if collisions(listed, policy):
        with pytest.raises(ConfigError):
            with_public_names(listed, strict)
    else:
        assert with_public_names(listed, strict) == with_public_names(listed, policy)


IN_FRONT = (
    *((NamePolicy(), "read"), (NamePolicy("_"), "files_read"), (NamePolicy("__"), "files__read")),
    (NamePolicy(extra="p"), "p__read"),
    (NamePolicy("_", "p"), "p__files_read"),
    (NamePolicy("__", "p"), "p__files__read"),
)


@pytest.mark.parametrize(
    ("listed", "policy", "names"),
    [
        *(([("files", "read")], policy, [name]) for policy, name in IN_FRONT),
        pytest.param(
            [("a", "read_file"), ("a", "write-file"), ("b", "Search2")],
            NO_POLICY,
            ["read_file", "write-file", "Search2"],
            id="a name that is legal and alone is kept",
        ),
        (
            [("a", "x"), ("b", "x"), ("c", "x"), ("c", "y")],
            NO_POLICY,
            ["a__x", "b__x", "c__x", "y"],
        ),
        ([("a", "read.file"), ("b", "read_file")], NO_POLICY, ["a__read_file", "b__read_file"]),
        ([("a", "x"), ("b", "x")], NamePolicy(extra="p"), ["p__a__x", "p__b__x"]),
        ([("a_b", "c"), ("a", "b_c")], NamePolicy("_"), ["a_b__c", "a__b_c"]),
    ],
)
def test_names_that_clash_get_their_server_in_front(
    listed: list[Pair], policy: NamePolicy, names: list[str]
) -> None:
    assert _names(*listed, policy=policy) == names


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        *(("read", "read"), ("read.file", "read_file"), ("a/b c", "a_b_c"), ("ünï", "_n_")),
        ("x" * 64, "x" * 64),
    ],
)
def test_illegal_characters_become_underscores(name: str, legal: str) -> None:
    assert legal_name(name) == legal


def test_a_name_too_long_is_cut_and_marked() -> None:
    one, two = legal_name("x" * 70 + "1"), legal_name("x" * 70 + "2")

    assert len(one) == len(two) == 64
    assert one != two
    assert one.startswith("x" * 55)


def test_a_name_from_an_override_stands_without_its_server() -> None:
    policy = NamePolicy("__", "p")

    (tool,) = with_public_names([_renamed("files", "read", "open.file")], policy)

    assert (tool.name, tool.wire_name) == ("p__open_file", "read")


def test_a_name_from_an_override_that_another_tool_has_clashes() -> None:
    listed = [_renamed("a", "x", "search"), _tool("b", "search")]

    assert [tool.name for tool in with_public_names(listed)] == ["a__search", "b__search"]


def test_a_name_that_is_taken_is_not_given() -> None:
    tools = [_tool("a", "task"), _tool("a", "read"), _tool("b", "read")]

    named = with_public_names(tools, taken={"task", "b__read"})

    assert [tool.name for tool in named[:2]] == ["a__task", "a__read"]
    assert re.fullmatch(r"b__read_[0-9a-f]{8}", named[2].name)


def test_collisions_name_the_tools_that_want_one_name() -> None:
    listed = [_tool("a", "read"), _tool("b", "read"), _tool("b", "write"), _tool("b", "write")]

    assert collisions(listed) == {"read": (listed[0], listed[1])}
    assert collisions(listed, NamePolicy("__")) == {}


def test_a_strict_policy_refuses_names_that_clash_and_says_what_to_do() -> None:
    listed = [_tool("shop", "read"), _tool("files", "read")]

    with pytest.raises(ConfigError) as caught:
        with_public_names(listed, NamePolicy(on_collision="error"))

    message = caught.value.message
    assert '"read": files/read, shop/read' in message
    assert "prefix_tool_name_with_server_name" in message
    assert "override" in message
    assert "exclude" in message


def test_a_strict_policy_refuses_a_name_that_is_taken_and_bears_one_tool_listed_twice() -> None:
    strict = NamePolicy(on_collision="error")

    with pytest.raises(ConfigError, match="files/read"):
        with_public_names([_tool("files", "read")], strict, taken=["read"])
    assert len({tool.name for tool in with_public_names([_tool("a", "x")] * 2, strict)}) == 2
