"""Say in words what a keyword means, for models that are not told the keyword."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from plait.client.catalog.schemas.describe import choices, limits, listed
from plait.client.catalog.schemas.keywords import ANNOTATIONS
from plait.client.catalog.schemas.outline import outline
from plait.client.catalog.schemas.values import (
    Schema,
    as_list,
    as_schema,
    is_number,
    is_schema,
    short_json,
)

_ONLY_NEEDS: Final = ANNOTATIONS | {"required", "not", "type"}

_DRAWN: Final = {"type", "properties", "items", "prefixItems"}


def sentences_for(schema: Schema) -> list[str]:
    """Say what the keywords of a schema mean, but for types, properties and items."""
    found = [*choices(schema), *limits(schema)]
    if names := as_list(schema.get("required")):
        found.append(f"Needed: {listed(names)}")
    found += _about_properties(schema)
    found += _about_items(schema)
    found += _about_others(schema)
    found += notes_for(schema)
    return found


def notes_for(schema: Schema) -> list[str]:
    """Say what annotations tell: the default, examples, and the like."""
    found: list[str] = []
    if schema.get("default") is not None:
        found.append(f"Default: {short_json(schema['default'])}")
    if examples := as_list(schema.get("examples")):
        found.append(f"Examples: {listed(examples)}")
    if schema.get("deprecated") is True:
        found.append("Deprecated")
    if schema.get("readOnly") is True:
        found.append("Read-only")
    return found


def only_needs(branches: Iterable[Any]) -> bool:
    """Say whether alternatives differ in nothing but in what has to be given."""
    return all(
        is_schema(branch) and "required" in branch and branch.keys() <= _ONLY_NEEDS
        for branch in branches
    )


def about_union(key: str, branches: list[Any]) -> str:
    """Say what alternatives there are."""
    if only_needs(branches):
        start = "At least" if key == "anyOf" else "Exactly"
        needs = (" and ".join(map(str, branch["required"])) for branch in branches)
        return f"{start} one of these is needed: {'; '.join(needs)}"
    start = "Must fit one of" if key == "anyOf" else "Must fit exactly one of"
    return f"{start}: {'; '.join(dict.fromkeys(outline(branch) for branch in branches))}"


def _about_properties(schema: Schema) -> list[str]:
    found: list[str] = []
    if (names := schema.get("propertyNames")) is not None:
        found.append(f"Names of properties: {outline(names)}")
    for pattern, inner in as_schema(schema.get("patternProperties")).items():
        found.append(f"Properties with names like {pattern}: {outline(inner)}")
    found += [
        _others(schema[key], "properties")
        for key in ("additionalProperties", "unevaluatedProperties")
        if key in schema
    ]
    for name, needed in as_schema(schema.get("dependentRequired")).items():
        if as_list(needed):
            found.append(f"With {name}, these are needed: {', '.join(map(str, needed))}")
    for name, inner in as_schema(schema.get("dependentSchemas")).items():
        found.append(f"With {name}, it must fit: {outline(inner)}")
    return found


def _about_items(schema: Schema) -> list[str]:
    found: list[str] = []
    if "contains" in schema:
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        count = f"{least} or more" if not is_number(most) else f"{least} to {most}"
        found.append(f"Must hold {count} items like: {outline(schema['contains'])}")
    if "unevaluatedItems" in schema:
        found.append(_others(schema["unevaluatedItems"], "items"))
    return found


def _about_others(schema: Schema) -> list[str]:
    found: list[str] = []
    if "not" in schema:
        found.append(f"Must not be: {outline(schema['not'])}")
    if "if" in schema:
        then, otherwise = schema.get("then", True), schema.get("else", True)
        found.append(
            f"If it fits {outline(schema['if'])}, then it must fit {outline(then)}, "
            f"otherwise {outline(otherwise)}"
        )
    for member in as_list(schema.get("allOf")):
        inner = as_schema(member)
        said = sentences_for(inner) if inner.keys().isdisjoint(_DRAWN) else []
        found += said or [f"Must also fit: {outline(member)}"]
    for key in ("anyOf", "oneOf"):
        if branches := as_list(schema.get(key)):
            found.append(about_union(key, branches))
    for key, text in (("contentEncoding", "Encoded as"), ("contentMediaType", "Media type:")):
        if isinstance(schema.get(key), str):
            found.append(f"{text} {schema[key]}")
    if "contentSchema" in schema:
        found.append(f"Holds: {outline(schema['contentSchema'])}")
    return found


def _others(rule: Any, what: str) -> str:
    if rule is False:
        return f"No other {what}"
    return f"Other {what}: {outline(rule)}"
