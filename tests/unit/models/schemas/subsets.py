"""What each provider documents that a schema may say; written from the documentation alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema.validators import Draft202012Validator

TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
SCHEMA_KEYS = {"items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"} | {
    *("contains", "propertyNames", "not", "if", "then", "else", "contentSchema"),
}
LIST_KEYS = {"allOf", "anyOf", "oneOf", "prefixItems"}
MAP_KEYS = {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}


def places(schema: Any, path: str = "#") -> Iterator[tuple[str, Any]]:
    """Yield every schema in a schema with its place; data, such as defaults, is not looked into."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in SCHEMA_KEYS:
            yield from places(value, f"{path}/{key}")
        elif key in LIST_KEYS:
            for index, inner in enumerate(value):
                yield from places(inner, f"{path}/{key}/{index}")
        elif key in MAP_KEYS:
            for name, inner in value.items():
                yield from places(inner, f"{path}/{key}/{name}")


def general_problems(schema: Any) -> Iterator[str]:
    """MCP and every provider: the schema of an object, without references."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        yield "the top is no object with properties"
    for path, place in places(schema):
        if isinstance(place, dict):
            for key in ("$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions"):
                if key in place:
                    yield f"{path}: {key}"


def openai_problems(schema: Any) -> Iterator[str]:
    yield from general_problems(schema)
    for key in {"oneOf", "anyOf", "allOf", "enum", "const", "not"} & schema.keys():
        yield f"{key} at the top"
    for path, place in places(schema):
        flag = path.endswith(("Properties", "unevaluatedItems"))
        if isinstance(place, bool):
            if not flag:
                yield f"{path}: a boolean for a schema"
        elif "array" in _types(place) and not isinstance(place.get("items"), dict):
            yield f"{path}: array schema missing items"


def anthropic_problems(schema: Any) -> Iterator[str]:
    yield from general_problems(schema)
    for key in {"oneOf", "anyOf", "allOf"} & schema.keys():
        yield f"{key} at the top"


ABOUT = {"type", "title", "description", "enum"}
STRICT_KEYS = {
    "string": {"pattern", "format"},
    "number": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "integer": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
    "boolean": set[str](),
    "null": set[str](),
}
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname"} | {
    "ipv4",
    "ipv6",
    "uuid",
}


def strict_problems(schema: Any) -> Iterator[str]:
    yield from general_problems(schema)
    if "anyOf" in schema:
        yield "the top must not be anyOf"
    yield from _strict(schema, "#", 1)


def _strict(schema: Any, path: str, level: int) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{path}: not an object"
        return
    if "anyOf" in schema:
        if extra := schema.keys() - {"anyOf", "title", "description"}:
            yield f"{path}: {extra} beside anyOf"
        for index, member in enumerate(schema["anyOf"]):
            yield from _strict(member, f"{path}/anyOf/{index}", level)
        yield from _first_keys(schema["anyOf"], path)
        return
    kinds = _types(schema)
    others = [kind for kind in kinds if kind != "null"]
    if not kinds or len(others) > 1:
        yield f"{path}: needs one type, perhaps with null: {kinds}"
        return
    allowed = ABOUT | {key for kind in kinds for key in STRICT_KEYS[kind]}
    if extra := schema.keys() - allowed:
        yield f"{path}: {extra} not permitted"
    if schema.get("format", "date") not in STRICT_FORMATS:
        yield f"{path}: {schema['format']} is not a valid format"
    if "array" in kinds:
        if "items" not in schema:
            yield f"{path}: array schema missing items"
        else:
            yield from _strict(schema["items"], f"{path}/items", level)
    if "object" in kinds:
        yield from _strict_object(schema, path, level)


def _strict_object(schema: Any, path: str, level: int) -> Iterator[str]:
    if level > 10:
        yield f"{path}: more than 10 levels"
    if schema.get("additionalProperties") is not False:
        yield f"{path}: additionalProperties must be false"
    if sorted(schema.get("required", [])) != sorted(schema.get("properties", {})):
        yield f"{path}: every property must be required"
    for name, inner in schema.get("properties", {}).items():
        yield from _strict(inner, f"{path}/properties/{name}", level + 1)


def _first_keys(members: list[Any], path: str) -> Iterator[str]:
    """Objects may share their first key only where nothing tells them apart at all."""
    objects = [member for member in members if member.get("properties")]
    for number, one in enumerate(objects):
        for other in objects[number + 1 :]:
            first = next(iter(one["properties"]))
            if first != next(iter(other["properties"])):
                continue
            values = [one["properties"][first].get("enum"), other["properties"][first].get("enum")]
            apart = all(values) and not any(value in values[1] for value in values[0])
            # With a name of their own on both sides, one of them can come first.
            own = set(one["properties"]) - set(other["properties"])
            if not apart and own and len(objects) == 2:
                yield f"{path}: identical first key {first}"


GEMINI_FIELDS = {"type", "format", "title", "description", "nullable", "enum", "maxItems"} | {
    *("minItems", "properties", "required", "minProperties", "maxProperties", "minLength"),
    *("maxLength", "pattern", "example", "anyOf", "propertyOrdering", "default", "items"),
    *("minimum", "maximum"),
}
GEMINI_FORMATS = {"string": {"enum", "date-time"}, "integer": {"int32", "int64"}} | {
    "number": {"float", "double"}
}


def gemini_problems(schema: Any) -> Iterator[str]:
    yield from general_problems(schema)
    # A function without arguments is declared without parameters, so an empty top is fine.
    yield from _gemini(schema, "#", may_be_empty=True)


def _gemini(schema: Any, path: str, *, may_be_empty: bool = False) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{path}: not an object"
        return
    if extra := schema.keys() - GEMINI_FIELDS:
        yield f"{path}: unknown fields {extra}"
    if "anyOf" in schema:
        if len(schema) > 1:
            yield f"{path}: when using any_of, it must be the only field set"
        for index, member in enumerate(schema["anyOf"]):
            yield from _gemini(member, f"{path}/anyOf/{index}")
        return
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        yield f"{path}: type is not one of the types: {kind}"
        return
    if "enum" in schema and (
        kind != "string" or not all(isinstance(value, str) and value for value in schema["enum"])
    ):
        yield f"{path}: enum only for texts that are not empty"
    if "format" in schema and schema["format"] not in GEMINI_FORMATS.get(kind, set()):
        yield f"{path}: format {schema['format']} for {kind}"
    if kind == "array":
        if "items" not in schema:
            yield f"{path}: items missing"
        else:
            yield from _gemini(schema["items"], f"{path}/items")
    if kind == "object":
        properties = schema.get("properties", {})
        if not properties and not may_be_empty:
            yield f"{path}: properties should be non-empty"
        if set(schema.get("required", [])) - set(properties):
            yield f"{path}: required property is not defined"
        for name, inner in properties.items():
            yield from _gemini(inner, f"{path}/properties/{name}")


def is_valid(schema: Any) -> bool:
    """Say whether a schema is one of JSON Schema 2020-12."""
    return _META.is_valid(schema)


_META = Draft202012Validator(Draft202012Validator.META_SCHEMA)

PROBLEMS: dict[str, Callable[[Any], Iterator[str]]] = {
    "default": general_problems,
    "openai": openai_problems,
    "openai_strict": strict_problems,
    "anthropic": anthropic_problems,
    "gemini": gemini_problems,
}

ANTHROPIC_NAME = re.compile(r"^[a-zA-Z0-9_.-]{1,64}$")


def gemini_meaning(schema: Any) -> Any:
    """Spell what Gemini understands in JSON Schema: only what is listed can be given."""
    if "anyOf" in schema:
        return {"anyOf": [gemini_meaning(member) for member in schema["anyOf"]]}
    meant = {key: value for key, value in schema.items() if key != "nullable"}
    if "items" in meant:
        meant["items"] = gemini_meaning(meant["items"])
    if "properties" in meant:
        inner = {name: gemini_meaning(each) for name, each in meant["properties"].items()}
        meant |= {"properties": inner, "additionalProperties": False}
    return {"anyOf": [meant, {"type": "null"}]} if schema.get("nullable") else meant


def _types(schema: Any) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)
