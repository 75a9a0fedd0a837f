"""Draw the shape of a schema in a few characters, for places where only a text fits."""

from __future__ import annotations

from typing import Any

from plait.client.catalog.schemas.describe import choices, limits, listed
from plait.client.catalog.schemas.keywords import types_of
from plait.client.catalog.schemas.values import MOST_SHOWN, Schema, as_list, as_schema, is_schema

_MOST_PARTS = 20
_MOST_LEVELS = 4


def outline(schema: Any, levels: int = _MOST_LEVELS) -> str:
    """Draw a schema: `{"id": integer, "tags"?: list of string}`; anything is "anything"."""
    text = _outline(schema, levels)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _outline(schema: Any, levels: int) -> str:
    if isinstance(schema, bool) or not is_schema(schema):
        return "nothing" if schema is False else "anything"
    if levels == 0:
        return "…"
    if "const" in schema or as_list(schema.get("enum")):
        return " or ".join(text.removeprefix("Must be ") for text in choices(schema)).removeprefix(
            "one of: "
        )
    parts = [_kind(kind, schema, levels) for kind in types_of(schema) or _guessed(schema)]
    texts = [" or ".join(parts)] if parts else []
    for key, joint in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if members := as_list(schema.get(key)):
            inner = [_outline(member, levels - 1) for member in members[:_MOST_PARTS]]
            texts.append(joint.join(dict.fromkeys(inner)))
    if "not" in schema:
        texts.append(f"not {_outline(schema['not'], levels - 1)}")
    if words := limits(schema):
        texts.append(f"({'; '.join(words)})")
    return " ".join(text for text in texts if text) or "anything"


def _guessed(schema: Schema) -> list[str]:
    if schema.keys() & {"properties", "required", "additionalProperties", "patternProperties"}:
        return ["object"]
    return ["array"] if schema.keys() & {"items", "prefixItems"} else []


def _kind(kind: str, schema: Schema, levels: int) -> str:
    if kind == "object":
        return _object(schema, levels)
    if kind == "array":
        return _array(schema, levels)
    return kind


def _object(schema: Schema, levels: int) -> str:
    required = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
    properties = as_schema(schema.get("properties"))
    parts = [
        f"{listed([name])}{'' if name in required else '?'}: {_outline(inner, levels - 1)}"
        for name, inner in list(properties.items())[:_MOST_PARTS]
    ]
    parts += [f"{listed([name])}: anything" for name in required if name not in properties]
    for pattern, inner in as_schema(schema.get("patternProperties")).items():
        parts.append(f"<name like {pattern}>: {_outline(inner, levels - 1)}")
    others = schema.get("additionalProperties")
    if is_schema(others):
        parts.append(f"<name>: {_outline(others, levels - 1)}")
    if not parts:
        return "object" if others is not False else "{}"
    return f"{{{', '.join(parts)}}}"


def _array(schema: Schema, levels: int) -> str:
    first = [_outline(inner, levels - 1) for inner in as_list(schema.get("prefixItems"))]
    rest = schema.get("items")
    if first:
        return f"[{', '.join([*first, '…'] if rest is not False else first)}]"
    return f"list of {_outline(rest, levels - 1)}" if is_schema(rest) and rest else "list"
