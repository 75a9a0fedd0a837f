"""Public names: legal, unique, and the same whatever else is listed and in which order."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.catalog.names import legal_name, with_public_names
from plait.catalog.tool import Tool

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")

Pair = tuple[str, str]


def _tool(server: str, name: str) -> Tool:
    return Tool(server=server, wire_name=name, name=name, description=f"{server}/{name}")


def _names(*pairs: Pair) -> list[str]:
    return [tool.name for tool in with_public_names(_tool(*pair) for pair in pairs)]


servers = st.sampled_from(["a", "b", "a__a", "a b", "ä", "x" * 70])
wire_names = (
    st.sampled_from(["read", "a__read", "read.file", "read_file", "read-file", "ä", "", "x" * 64])
    | st.sampled_from(["x" * 65, "x" * 70 + "1", "x" * 70 + "2", "_", "a__a__read"])
    | st.text(max_size=80)
)
pairs = st.tuples(servers, wire_names)


@given(st.lists(pairs, max_size=12))
@example([("a", "read")] * 4)
@example([("a", "read"), ("b", "read"), ("a b", "a__read")])
@example([("a", "x.y"), ("a", "x-y"), ("a", "x_y"), ("b", "x_y")])
@example([("ä", "read"), ("_", "read")])
def test_every_tool_gets_a_legal_name_of_its_own(listed: list[Pair]) -> None:
    named = with_public_names(_tool(*pair) for pair in listed)

    assert [(tool.server, tool.wire_name) for tool in named] == listed
    for tool in named:
        assert LEGAL.fullmatch(tool.name), tool.name
    names = [tool.name for tool in named]
    assert len(set(names)) == len(names)


@given(st.lists(pairs, max_size=8, unique=True), st.randoms(use_true_random=False))
@example([("a", "x.y"), ("a", "x_y")], None)
@example([("a", "read"), ("b", "read"), ("b", "a__read")], None)
def test_names_do_not_depend_on_the_order(listed: list[Pair], random: object) -> None:
    other = list(reversed(listed))
    shuffle = getattr(random, "shuffle", None)
    if shuffle is not None:
        shuffle(other)

    first = dict(zip(listed, _names(*listed), strict=True))
    second = dict(zip(other, _names(*other), strict=True))

    assert first == second


@given(st.lists(pairs, max_size=8))
def test_names_are_the_same_every_time(listed: list[Pair]) -> None:
    assert _names(*listed) == _names(*listed)


@given(st.lists(pairs, max_size=8))
def test_nothing_but_the_name_changes(listed: list[Pair]) -> None:
    for before, after in zip(
        (_tool(*pair) for pair in listed),
        with_public_names(_tool(*pair) for pair in listed),
        strict=True,
    ):
        assert (after.server, after.wire_name) == (before.server, before.wire_name)
        assert after.description == before.description


def test_a_name_that_is_legal_and_alone_is_kept() -> None:
    assert _names(("a", "read_file"), ("a", "write-file"), ("b", "Search2")) == [
        "read_file",
        "write-file",
        "Search2",
    ]


@pytest.mark.parametrize("swap", [False, True])
def test_two_servers_with_one_name_both_get_their_server_in_front(swap: bool) -> None:
    listed = [("b", "read"), ("a", "read")] if swap else [("a", "read"), ("b", "read")]

    assert sorted(_names(*listed)) == ["a__read", "b__read"]


def test_three_servers_with_one_name_all_get_their_server_in_front() -> None:
    assert _names(("a", "x"), ("b", "x"), ("c", "x"), ("c", "y")) == ["a__x", "b__x", "c__x", "y"]


def test_names_that_become_equal_clash_too() -> None:
    assert _names(("a", "read.file"), ("b", "read_file")) == ["a__read_file", "b__read_file"]


def test_a_name_given_twice_by_one_server_stays_apart() -> None:
    names = _names(("a", "read"), ("a", "read"), ("a", "read"))

    assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("read", "read"),
        ("read.file", "read_file"),
        ("a/b c", "a_b_c"),
        ("ünï", "_n_"),
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


def test_an_empty_name_gets_one() -> None:
    assert LEGAL.fullmatch(legal_name(""))


def test_half_of_a_surrogate_pair_in_a_name_is_no_reason_to_fail() -> None:
    assert LEGAL.fullmatch(legal_name("x" * 70 + "\ud83d"))
