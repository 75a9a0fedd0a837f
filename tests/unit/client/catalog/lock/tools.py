"""Tools and schemas for the tests of locking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from plait.client.catalog.lock import Identity, LockedServer, LockedTool
from plait.client.catalog.tool import Tool

names = st.text("abcdefgh", min_size=1, max_size=4)
leaves = st.one_of(
    st.sampled_from(["string", "integer", "boolean"]).map(lambda kind: {"type": kind}),
    st.fixed_dictionaries({"type": st.just("string"), "description": st.text(max_size=20)}),
    st.fixed_dictionaries({"enum": st.lists(st.integers() | st.text(max_size=3), max_size=3)}),
    st.fixed_dictionaries({"type": st.just("number"), "maximum": st.floats(-9, 9)}),
)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    required = sorted(properties)[: len(properties) // 2]
    return {"type": "object", "properties": properties, "required": required}


schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(
    leaves,
    lambda inner: (
        st.dictionaries(names, inner, max_size=3).map(_object)
        | inner.map(lambda items: {"type": "array", "items": items})
    ),
    max_leaves=5,
).flatmap(lambda one: st.dictionaries(names, st.just(one) | leaves, max_size=4).map(_object))


def tool(
    name: str = "pay",
    description: str = "Pay a bill of the shop, in euros.",
    *,
    title: str | None = None,
    schema: Mapping[str, Any] | None = None,
    output: Mapping[str, Any] | None = None,
    **hints: bool,
) -> Tool:
    return Tool(
        server="shop",
        wire_name=name,
        name=name,
        title=title,
        description=description,
        input_schema=schema or {"type": "object", "properties": {"amount": {"type": "number"}}},
        output_schema=output,
        annotations=hints,
    )


def locked(*tools: Tool, **identity: Any) -> LockedServer:
    told: dict[str, Any] = {
        "name": "shop",
        "version": "1",
        "transport": "stdio",
        "target": "shop",
        **identity,
    }
    return LockedServer.of(Identity(**told), tools)


def shuffled(value: Any) -> Any:
    """Return the same JSON with the keys of every object in the opposite order."""
    return json.loads(json.dumps(value), object_pairs_hook=lambda pairs: dict(reversed(pairs)))


def hash_of(one: Tool) -> str:
    return LockedTool.of(one).hash
