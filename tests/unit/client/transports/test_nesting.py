"""Cutting JSON that is nested too deeply."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.protocol.nesting import shallow


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = {"a": [inner]}
    return inner


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return 1 + max(map(depth, parts), default=0)
    return 0


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "part", [b"x", b'"', b'\\"', b"\\", b'" "', b"'[", b'"[', b"a]", b'{"', b'\\"[', b"\xff"]
)
@pytest.mark.parametrize("start", [b"", b'"', b"{", b'x"'])
def test_no_body_takes_more_than_linear_time(part: bytes, start: bytes) -> None:
    shallow(start + part * (200_000 // len(part)))


def test_what_is_too_deep_is_replaced_by_a_text() -> None:
    body = {"before": "]}", "deep": nested(80), "after": ["[{", '\\"', nested(3)]}

    cut = json.loads(shallow(json.dumps(body).encode()))

    assert (cut["before"], cut["after"]) == (body["before"], body["after"])
    assert depth(cut) == 100
    assert "nested too deeply" in json.dumps(cut)


JSON = st.recursive(
    st.none() | st.text('"\\[]{}a') | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('"\\[]{}a'), inner),
)


@given(value=JSON)
def test_the_rest_is_unchanged(value: Any) -> None:
    body = json.dumps(value).encode()

    assert shallow(body) is body
    deep = {"value": value, "deep": nested(60), "again": value}
    cut = json.loads(shallow(json.dumps(deep).encode()))
    assert (cut["value"], cut["again"]) == (value, value)
