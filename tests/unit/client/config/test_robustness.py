"""Whatever is written into a configuration, it is read or refused, and never breaks the reader."""

from __future__ import annotations

import contextlib
import json
import math
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.config.keys import (
    CLIENT_KEYS,
    EDITOR_KEYS,
    SERVER_LISTS,
    STRUCTURE_KEYS,
    server_keys,
)
from plait.client.config.read import ClientConfig, read_config
from plait.errors import ConfigError

words = st.sampled_from(
    [
        *("npx", "", " ", "~", "http", "stdio", "https://u:p@h/", "ws://h", "http://[", "${A}"),
        *("${", "0"),
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | words
    | st.text(max_size=5)
    | st.sampled_from([math.nan, 10**400, timedelta(1), b"x", object, print])
)
inner_keys = st.text(max_size=4) | st.integers() | st.sampled_from(["enabled", "delay", "id"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(inner_keys, inner, max_size=3),
    max_leaves=6,
)
known = server_keys(None).spellings | CLIENT_KEYS.spellings | STRUCTURE_KEYS | set(SERVER_LISTS)
keys = st.sampled_from(sorted(known | EDITOR_KEYS)) | st.text(max_size=4)
entries = st.dictionaries(keys, values, max_size=6) | values
wholes = st.dictionaries(keys | st.sampled_from(["mcp", "inputs"]), entries, max_size=4) | values


@given(st.dictionaries(st.text(max_size=4), entries, max_size=3) | wholes)
def test_any_value_is_read_or_refused(source: object) -> None:
    written = cast("dict[str, object]", source)
    try:
        outcome = read_config(written, environ={"A": "a"}, base=Path("/nowhere"))
    except ConfigError as error:
        outcome = error
    assert str(outcome)
    assert isinstance(outcome, ClientConfig) or outcome.problems


@given(
    st.text(max_size=40) | wholes.map(lambda value: json.dumps(value, default=str, skipkeys=True))
)
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    with contextlib.suppress(ConfigError):
        assert read_config(path, environ={}).source == str(path)
