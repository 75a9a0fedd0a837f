"""The values of a message are counted without parsing it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.client.transports import oversize
from plait.client.transports.oversize import has_too_many_values

JSON = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a,[{"\\\n')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
)


def _openings(value: object) -> int:
    """Count the commas and opening brackets of JSON outside of its texts."""
    match value:
        case dict() | list():
            inner = value.values() if isinstance(value, dict) else value
            return 1 + max(0, len(value) - 1) + sum(map(_openings, inner))
        case _:
            return 0


@settings(deadline=None)
@given(JSON, st.integers(2, 9))
def test_values_are_counted_as_they_are_whatever_the_texts_hold(value: object, part: int) -> None:
    body, count = json.dumps([[[value]]]).encode(), _openings([[[value]]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oversize, "LARGE_BYTES", 0)
        patch.setattr(oversize, "_COUNTED_BYTES", part)

        assert has_too_many_values(body, count) is (len(body) > count)
        assert not has_too_many_values(body, count + 1)


def test_a_small_message_is_not_counted() -> None:
    assert not has_too_many_values(b"[" + b"{}," * 100_000 + b"1]", 1000)
