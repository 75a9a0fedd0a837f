"""JSON keeps its shape and a text its head and tail; paths read what is left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.client.calls.result_budget import (
    CUT,
    CutNote,
    PathError,
    cut_json,
    cut_text,
    head_of,
    is_single,
    parsed_json,
    path_to,
    select,
    share_room,
    size_of_text,
    tail_of,
    written_json,
)

MARK = CutNote("r_abcdefghijklmnop", "read_more")

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=60)
    | st.integers(0, 900).map("ü".__mul__)
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=25,
)
containers = st.lists(values, max_size=20) | st.dictionaries(st.text(max_size=8), values)


def size(value: Any) -> int:
    return len(written_json(value).encode())


@settings(max_examples=60)
@given(containers, st.integers(400, 1500))
def test_what_is_cut_fits_and_has_the_same_shape(value: Any, allowed: int) -> None:
    shorter = cut_json(value, allowed, MARK)

    assert size(shorter) <= allowed
    assert json.loads(written_json(shorter)) == shorter
    assert type(shorter) is type(value)
    if size(value) <= allowed:
        assert shorter == value
    else:
        assert MARK.handle in written_json(shorter)
        assert_same_shape(value, shorter)


def assert_same_shape(whole: Any, shorter: Any) -> None:
    """Compare what is left with what there was: kept, shortened, or a note."""
    if isinstance(whole, dict) and isinstance(shorter, dict):
        for key in shorter.keys() & whole.keys():
            assert_same_shape(whole[key], shorter[key])
        assert {key.rstrip("_") for key in shorter.keys() - whole.keys()} <= {CUT, "…"}
    elif isinstance(whole, list) and isinstance(shorter, list):
        for before, after in zip(whole, shorter[:-1], strict=False):
            assert_same_shape(before, after)
    elif isinstance(whole, str):
        assert isinstance(shorter, str)
        assert shorter == whole or shorter.partition("…")[0] == whole[: shorter.index("…")]
    else:
        assert shorter == whole or shorter == "…"


def test_rows_are_kept_whole_from_the_first_on_and_the_rest_is_counted() -> None:
    rows = [{"id": number, "name": f"row {number}"} for number in range(1000)]

    shorter = cut_json({"total": 1000, "rows": rows}, 4000, MARK)

    assert list(shorter) == ["total", "rows", CUT]
    assert shorter["total"] == 1000
    *kept, note = shorter["rows"]
    assert kept == rows[: len(kept)]
    assert len(kept) > 80
    left = 1000 - len(kept)
    assert note == {"…": f"…[{left} of 1000 items left out, path=$.rows, start={len(kept)}]"}


def test_a_list_at_the_root_ends_with_the_call_that_reads_on() -> None:
    shorter = cut_json(list(range(10_000)), 1000, MARK)

    *kept, note = shorter
    assert kept == list(range(len(kept)))
    read = f'read_more(handle="r_abcdefghijklmnop", path="$", start={len(kept)})'
    assert note == f"{10_000 - len(kept)} of 10000 items are left out; to read on: {read}"


def test_paths_of_marks_lead_to_what_is_left_out() -> None:
    value = {"a b": [{"text": "x" * 5000}, 1], "c": {"d": "y" * 5000}, "e": "z"}

    shorter = cut_json(value, 1500, MARK)

    found = re.findall(
        r"([xy]+)…\[(\d+) characters left out, path=(.*?), start=(\d+)\]",
        json.dumps(shorter, ensure_ascii=False).replace('\\"', '"'),
    )
    assert len(found) == 2
    for head, left, path, start in found:
        text = select(value, path)
        assert text[: int(start)] == head
        assert len(text) == int(start) + int(left)
    assert shorter["e"] == "z"


def test_all_keys_are_kept_while_their_values_are_shortened() -> None:
    value = {f"key {number}": "v" * 500 for number in range(20)}

    assert list(cut_json(value, 2000, MARK)) == [*value, CUT]


def test_keys_that_do_not_fit_are_counted() -> None:
    value = {f"key {number}": number for number in range(2000)}

    shorter = cut_json(value, 1000, MARK)

    kept = [key for key in shorter if key in value]
    assert kept == list(value)[: len(kept)]
    assert shorter["…"] == f"…[{2000 - len(kept)} keys left out, path=$, start={len(kept)}]"


def test_a_key_of_the_tool_is_not_overwritten() -> None:
    shorter = cut_json({CUT: "mine", "text": "x" * 5000}, 1000, MARK)

    assert shorter[CUT] == "mine"
    assert MARK.handle in shorter[f"{CUT}_"]


@pytest.mark.parametrize("depth", [100, 450])
def test_what_is_nested_deeply_is_still_json(depth: int) -> None:
    text = '{"a":[' * depth + f'"{"x" * 100_000}"' + "]}" * depth

    shorter = cut_json(json.loads(text), 4000, MARK)

    assert size(shorter) <= 4000
    assert MARK.handle in written_json(shorter)


def test_halves_of_surrogate_pairs_are_escaped_and_still_fit() -> None:
    value = {"text": "ü" * 2000, "odd": "\ud800"}

    text = written_json(cut_json(value, 1000, MARK))

    assert len(text.encode()) <= 1000
    assert text.isascii()


@pytest.mark.parametrize("text", ["plain", '"text"', "12", "[1, 2", "[NaN]", "[" * 100_000, ""])
def test_what_is_no_object_or_list_is_not_taken_for_json(text: str) -> None:
    assert parsed_json(text) is None


@given(st.lists(st.integers(0, 100)), st.integers(0, 1000))
def test_room_is_shared_fairly(wanted: list[int], room: int) -> None:
    given_out = share_room(wanted, room)

    assert sum(given_out) <= room
    assert all(got <= want for got, want in zip(given_out, wanted, strict=True))
    if sum(wanted) <= room:
        assert given_out == wanted
    else:
        least = min(got for got, want in zip(given_out, wanted, strict=True) if got < want)
        assert max(given_out) <= least + 1


LINE = re.compile(
    r"\n\[… (\d+) of (\d+) characters are left out here; to read on: "
    r'read_more\(handle="r_abcdefghijklmnop", start=(\d+)\) …\]\n'
)
pieces = st.text(max_size=30) | st.sampled_from(["a", "é", "語", "🎈", "\n", "\ud800"])
texts = st.builds(lambda piece, times: piece * times, pieces, st.integers(0, 200))


@given(texts, st.integers(200, 2000))
def test_head_and_tail_are_those_of_the_text_and_the_line_counts_right(
    text: str, allowed: int
) -> None:
    shorter = cut_text(text, allowed, MARK)

    assert shorter is not None
    assert size_of_text(shorter) <= allowed
    if size_of_text(text) <= allowed:
        assert shorter == text
        return
    found = LINE.search(shorter)
    assert found is not None
    left, total, start = map(int, found.groups())
    head, tail = shorter[: found.start()], shorter[found.end() :]
    assert (total, start) == (len(text), len(head))
    assert text == head + text[start : start + left] + tail


def test_a_cut_is_made_between_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))

    shorter = cut_text(text, 1000, MARK)

    assert shorter is not None
    assert {line for line in shorter.splitlines() if line and "left out" not in line} <= {
        f"line {number}" for number in range(1000)
    }
    assert shorter.startswith("line 0\n")
    assert shorter.endswith("line 999\n")


def test_where_the_line_does_not_fit_there_is_no_text() -> None:
    assert cut_text("x" * 1000, 50, MARK) is None


@given(texts, st.integers(0, 500))
def test_heads_and_tails_hold_as_many_characters_as_fit(text: str, allowed: int) -> None:
    head, tail = head_of(text, allowed), tail_of(text, allowed)

    assert text.startswith(head)
    assert text.endswith(tail)
    assert size_of_text(head) <= allowed
    assert size_of_text(tail) <= allowed
    if len(head) < len(text):
        assert size_of_text(text[: len(head) + 1]) > allowed
        assert size_of_text(text[len(text) - len(tail) - 1 :]) > allowed


DATA: dict[str, Any] = {
    "rows": [{"id": 0, "name": "zero"}, {"id": 1}, {"id": 2, "name": "two"}],
    "a b": {"c.d": [10, 20, 30], "": 1, '"': 2},
    "größe": 3,
    "last-run": None,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", DATA),
        ("", DATA),
        ("$.rows[0].name", "zero"),
        ("rows[0].name", "zero"),
        ("$.rows[-1].id", 2),
        ("$.rows[1:].id", [1, 2]),
        ("$.rows[:2]", DATA["rows"][:2]),
        ("$.rows[*].name", ["zero", "two"]),
        ("$.rows.*.id", [0, 1, 2]),
        ("$['a b'][\"c.d\"][ 1 : 3 ]", [20, 30]),
        ('$["a b"]["\\""]', 2),
        ("$['a b']['']", 1),
        ("$.größe", 3),
        ("$.last-run", None),
        ("[0:100]", list(DATA.values())),
    ],
)
def test_a_path_leads_to_a_value(path: str, value: Any) -> None:
    assert select(DATA, path) == value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("$.rows[3]", "3 items"),
        ("$.row", "rows, a b"),
        ("$.rows.id", "is a list"),
        ("$.größe.x", "is a number"),
        ("$.größe[0]", "is a number"),
        ("$.rows[0][1:2].x", "is a string"),
        ("$.rows[*].none", "no 'none'"),
        ("$.rows[?(@.id)]", r"from '\[\?"),
        ("$..id", r"from '\.\.id'"),
        ('$["a', "from"),
    ],
)
def test_a_path_that_leads_nowhere_says_why(path: str, reason: str) -> None:
    with pytest.raises(PathError, match=reason):
        select(DATA, path)


def test_ranges_make_lists() -> None:
    assert is_single("$.a[1].b")
    assert not is_single("$.a[1:2].b")
    assert not is_single("$.a[*]")


@given(st.lists(st.text() | st.integers(0, 5), max_size=5), st.integers())
def test_a_path_that_was_made_leads_back(steps: list[str | int], leaf: int) -> None:
    value: Any = leaf
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [None] * step + [value]
    path: str | None = "$"
    for step in steps:
        path = path_to(path, step)

    assert path is not None
    assert select(value, path) == leaf
