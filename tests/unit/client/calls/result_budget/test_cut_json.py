"""What is cut from JSON leaves JSON of the same shape, within its bytes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.client.calls.result_budget.cut import (
    CUT,
    CutNote,
    cut_json,
    parsed_json,
    share_room,
    written_json,
)
from plait.client.calls.result_budget.limiter import select

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
