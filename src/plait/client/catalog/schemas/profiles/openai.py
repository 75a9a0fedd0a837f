"""For OpenAI's models without strict mode: lenient, but for the top level and for arrays.

The API refuses `oneOf`, `anyOf`, `allOf`, `enum`, `const` and `not` at the top level, and arrays
without `items`: https://developers.openai.com/api/docs/guides/function-calling
"""

from __future__ import annotations

from typing import Any

from plait.client.catalog.schemas.keywords import map_children, types_of
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.roots import describe_at_root, plain_root
from plait.client.catalog.schemas.values import Schema, as_list, as_schema

_FLAGS = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
"""Here a boolean is usual; elsewhere it would be taken for a mistake."""


def convert(schema: Schema, notes: Notes) -> Schema:
    """Return the schema with a plain top, and with items for every array."""
    root = describe_at_root(plain_root(schema, notes), ("enum", "const", "not"), notes)
    return _with_items(root)


def _with_items(schema: Schema) -> Schema:
    changed = map_children(_counted(schema), lambda inner, _: _with_items(as_schema(inner)))
    for key in _FLAGS:
        if isinstance(schema.get(key), bool):
            changed[key] = schema[key]
    if "array" in types_of(changed):
        changed.setdefault("items", {})
    return changed


def _counted(schema: Schema) -> dict[str, Any]:
    """Forbid more items by their number instead of by `items: false`."""
    if schema.get("items") is not False:
        return schema
    first = len(as_list(schema.get("prefixItems")))
    most = min(first, schema.get("maxItems", first))
    return {**schema, "items": {}, "maxItems": most}
