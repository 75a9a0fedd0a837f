"""Descriptions in words of what a schema requires, for places where keywords are not allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plait.client.catalog.schemas.keywords import ANNOTATIONS, types_of
from plait.client.catalog.schemas.values import (
    MOST_SHOWN,
    Schema,
    as_list,
    as_schema,
    is_number,
    is_schema,
    short_json,
)

_NUMBER_BOUNDS: Final = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
}
_RANGES: Final = (
    ("Must be", _NUMBER_BOUNDS, ""),
    ("Must be", {"minLength": ">=", "maxLength": "<="}, " characters"),
    ("Must have", {"minItems": ">=", "maxItems": "<="}, " items"),
    ("Must have", {"minProperties": ">=", "maxProperties": "<="}, " properties"),
)
_ENDS: Final = (".", "!", "?", ":", ";", "…")


def with_sentences(description: str | None, sentences: Iterable[str]) -> str | None:
    """Add sentences to a description, unless it already contains them.

    Sentences alone stay without a full stop, as in "Must be >= 1 and <= 100"; behind a
    description there is one: "The name. Must be >= 1 and <= 100 characters."
    """
    known = description or ""
    new = [
        text
        for text in dict.fromkeys(sentence.strip().rstrip(".") for sentence in sentences)
        if text and text not in known
    ]
    if not new:
        return description
    added = ". ".join(new)
    head = known.rstrip()
    if not head:
        return added
    return f"{head}{' ' if head.endswith(_ENDS) else '. '}{added}."


def join_descriptions(first: str | None, second: str | None) -> str | None:
    """Join two descriptions; a single one is returned unchanged."""
    if not first or not second:
        return first or second
    return with_sentences(first, [second])


def limits(schema: Mapping[str, Any]) -> list[str]:
    """Describe the limits of numbers, texts, lists and objects."""
    sentences: list[str] = []
    for start, signs, unit in _RANGES:
        bounds = ((sign, schema.get(key)) for key, sign in signs.items())
        if parts := [f"{sign} {short_json(value)}" for sign, value in bounds if is_number(value)]:
            sentences.append(f"{start} {' and '.join(parts)}{unit}")
    if is_number(step := schema.get("multipleOf")):
        sentences.append(f"Must be a multiple of {short_json(step)}")
    if isinstance(pattern := schema.get("pattern"), str):
        sentences.append(f"Must match the pattern {pattern}")
    if isinstance(name := schema.get("format"), str):
        sentences.append(f"Format: {name}")
    if schema.get("uniqueItems") is True:
        sentences.append("Items must be unique")
    return sentences


def listed(values: Iterable[Any]) -> str:
    """List values as JSON."""
    return ", ".join(short_json(value) for value in values)


def choices(schema: Mapping[str, Any]) -> list[str]:
    """Describe the values of `enum` and `const`."""
    sentences: list[str] = []
    if values := as_list(schema.get("enum")):
        start = "Must be" if len(values) == 1 else "Must be one of:"
        sentences.append(f"{start} {listed(values)}")
    if "const" in schema:
        sentences.append(f"Must be {short_json(schema['const'])}")
    return sentences


_MOST_PARTS = 20
_MOST_LEVELS = 4


def outline(schema: Any, levels: int = _MOST_LEVELS) -> str:
    """Outline a schema: `{"id": integer, "tags"?: list of string}`."""
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
    draw = {"object": _object, "array": _array}
    kinds = types_of(schema) or _guessed_types(schema)
    parts = [draw[kind](schema, levels) if kind in draw else kind for kind in kinds]
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


def _guessed_types(schema: Schema) -> list[str]:
    if schema.keys() & {"properties", "required", "additionalProperties", "patternProperties"}:
        return ["object"]
    return ["array"] if schema.keys() & {"items", "prefixItems"} else []


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


_ONLY_NEEDS: Final = ANNOTATIONS | {"required", "not", "type"}
_OUTLINED: Final = {"type", "properties", "items", "prefixItems"}


def sentences_for(schema: Schema) -> list[str]:
    """Describe the keywords of a schema, except types, properties and items."""
    names = as_list(schema.get("required"))
    return [
        *choices(schema),
        *limits(schema),
        *([f"Needed: {listed(names)}"] if names else []),
        *_about_properties(schema),
        *_about_items(schema),
        *_about_others(schema),
        *notes_for(schema),
    ]


def notes_for(schema: Schema) -> list[str]:
    """Describe annotations: default, examples, deprecated, read-only."""
    texts: list[str] = []
    if schema.get("default") is not None:
        texts.append(f"Default: {short_json(schema['default'])}")
    if examples := as_list(schema.get("examples")):
        texts.append(f"Examples: {listed(examples)}")
    flags = {"deprecated": "Deprecated", "readOnly": "Read-only"}
    return texts + [text for key, text in flags.items() if schema.get(key) is True]


def only_needs(branches: Iterable[Any]) -> bool:
    """Return whether alternatives differ only in `required`."""
    keys = [as_schema(branch).keys() for branch in branches]
    return all("required" in named and named <= _ONLY_NEEDS for named in keys)


def about_union(key: str, branches: list[Any]) -> str:
    """Describe the alternatives of a union."""
    if only_needs(branches):
        start = "At least" if key == "anyOf" else "Exactly"
        needs = (" and ".join(map(str, branch["required"])) for branch in branches)
        return f"{start} one of these is needed: {'; '.join(needs)}"
    start = "Must fit one of" if key == "anyOf" else "Must fit exactly one of"
    return f"{start}: {'; '.join(dict.fromkeys(outline(branch) for branch in branches))}"


def _about_properties(schema: Schema) -> list[str]:
    texts: list[str] = []
    if (names := schema.get("propertyNames")) is not None:
        texts.append(f"Names of properties: {outline(names)}")
    for pattern, inner in as_schema(schema.get("patternProperties")).items():
        texts.append(f"Properties with names like {pattern}: {outline(inner)}")
    rules = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
    texts += [_others(rule, "properties") for rule in rules if rule is not None]
    for name, needed in as_schema(schema.get("dependentRequired")).items():
        if as_list(needed):
            texts.append(f"With {name}, these are needed: {', '.join(map(str, needed))}")
    for name, inner in as_schema(schema.get("dependentSchemas")).items():
        texts.append(f"With {name}, it must fit: {outline(inner)}")
    return texts


def _about_items(schema: Schema) -> list[str]:
    texts: list[str] = []
    if "contains" in schema:
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        count = f"{least} or more" if not is_number(most) else f"{least} to {most}"
        texts.append(f"Must hold {count} items like: {outline(schema['contains'])}")
    if "unevaluatedItems" in schema:
        texts.append(_others(schema["unevaluatedItems"], "items"))
    return texts


def _about_others(schema: Schema) -> list[str]:
    texts: list[str] = []
    if "not" in schema:
        texts.append(f"Must not be: {outline(schema['not'])}")
    if "if" in schema:
        then, otherwise = schema.get("then", True), schema.get("else", True)
        texts.append(
            f"If it fits {outline(schema['if'])}, then it must fit {outline(then)}, "
            f"otherwise {outline(otherwise)}"
        )
    for member in as_list(schema.get("allOf")):
        inner = as_schema(member)
        inner_texts = sentences_for(inner) if inner.keys().isdisjoint(_OUTLINED) else []
        texts += inner_texts or [f"Must also fit: {outline(member)}"]
    for key in ("anyOf", "oneOf"):
        if branches := as_list(schema.get(key)):
            texts.append(about_union(key, branches))
    for key, text in (("contentEncoding", "Encoded as"), ("contentMediaType", "Media type:")):
        if isinstance(schema.get(key), str):
            texts.append(f"{text} {schema[key]}")
    if "contentSchema" in schema:
        texts.append(f"Holds: {outline(schema['contentSchema'])}")
    return texts


def _others(rule: Any, what: str) -> str:
    return f"No other {what}" if rule is False else f"Other {what}: {outline(rule)}"
