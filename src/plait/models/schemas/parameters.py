"""The arguments of a tool as a list of parameters, converted from and to a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plait._support.unset import UNSET
from plait.models.schemas.describe import Notes, limits, with_sentences
from plait.models.schemas.for_provider import cleaned_schema, plain_root
from plait.models.schemas.json_schema import (
    CONSTRAINTS,
    UNIONS,
    Schema,
    as_list,
    as_schema,
    is_mapping,
    is_schema,
    plain,
    same,
    types_of,
    values_of,
)

_DESCRIBED_LIMITS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern"}
) | {"minLength", "maxLength", "minItems", "maxItems"}
"""Limits that are added to a description."""

_OWN_FIELDS: Final = frozenset({"type", "description", "enum", "default", "properties", "required"})
"""Keywords with their own field."""
_NULL: Final[Schema] = {"type": "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a tool, or one item of a list."""

    name: str
    type: str = "any"
    """A type of JSON Schema; `any` when it is not a single one."""
    description: str = ""
    """The schema's description, with its limits in words."""
    required: bool = False
    enum: tuple[Any, ...] | None = None
    default: Any = UNSET
    """`UNSET` when there is none; `None` is a default like any other."""
    item_type: str | None = None
    """The type of a list's items, if the schema declares it."""
    items: Parameter | None = None
    """The items of a list, if they have more than a type; without a name."""
    properties: tuple[Parameter, ...] = ()
    nullable: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All other keywords of the schema."""


def parameters_from_schema(schema: object) -> list[Parameter]:
    """List the arguments that a schema describes; none if it does not describe an object."""
    if not is_mapping(schema):
        return []
    root = cleaned_schema(schema, Notes())
    if types_of(root) and "object" not in types_of(root):
        return []
    return list(_properties(plain_root(root, Notes())))


def schema_from_parameters(parameters: Iterable[Parameter]) -> Schema:
    """Return the schema of an object with these arguments."""
    return {"type": "object", "properties": {}, **_object(parameters)}


convert_input_schema = parameters_from_schema
"""The name of `parameters_from_schema` in `langchain_mcp` for Elixir."""
to_json_schema = schema_from_parameters
"""The name of `schema_from_parameters` in `langchain_mcp` for Elixir."""


def _properties(schema: Schema) -> tuple[Parameter, ...]:
    required = as_list(schema.get("required"))
    return tuple(
        _parameter(name, inner, required=name in required)
        for name, inner in as_schema(schema.get("properties")).items()
    )


def _parameter(name: str, value: Any, *, required: bool) -> Parameter:
    schema, has_null = _without_null(as_schema(value))
    kinds = types_of(schema)
    kind = kinds[0] if len(kinds) == 1 else "any"
    values = values_of(schema)
    properties = _properties(schema)
    extra = {key: plain(value) for key, value in schema.items() if key not in _OWN_FIELDS}
    if len(kinds) > 1:
        extra["type"] = list(kinds)
    if "properties" in schema and not properties:
        extra["properties"] = {}
    named = {parameter.name for parameter in properties}
    if unnamed := [one for one in as_list(schema.get("required")) if one not in named]:
        extra["required"] = unnamed
    description = with_sentences(schema.get("description"), _limits(extra)) or ""
    if "description" in schema and schema["description"] != description:
        extra["description"] = schema["description"]
    item_type, items = None, None
    if not isinstance(extra.get("items", True), bool):
        items = _parameter("", extra.pop("items"), required=False)
        item_type = items.type
        if items == Parameter(name="", type=item_type):
            items = None
    return Parameter(
        name=name,
        type=kind,
        description=description,
        required=required,
        enum=None if values is None else tuple(plain(values)),
        default=plain(schema["default"]) if "default" in schema else UNSET,
        item_type=item_type,
        items=items,
        properties=properties,
        nullable=has_null or kind == "null",
        extra=extra,
    )


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    """Remove null from a schema's types, and return whether it was there."""
    for key in UNIONS:
        branches = as_list(schema.get(key))
        others = [branch for branch in branches if branch != _NULL]
        if len(branches) == 2 and len(others) == 1 and is_schema(others[0]):
            rest = {name: value for name, value in schema.items() if name != key}
            named = types_of(others[0])
            # With oneOf, null must not match another branch.
            apart = bool(named) or key == "anyOf"
            if apart and "null" not in named and not rest.keys() & CONSTRAINTS:
                return {**others[0], **rest}, True
    kinds = types_of(schema)
    left = [kind for kind in kinds if kind != "null"]
    if not left or len(left) == len(kinds):
        return schema, False
    values = values_of(schema)
    return {**schema, "type": left[0] if len(left) == 1 else left}, values is None or None in values


def _limits(extra: Mapping[str, Any]) -> list[str]:
    return limits({key: value for key, value in extra.items() if key in _DESCRIBED_LIMITS})


def _object(parameters: Iterable[Parameter]) -> Schema:
    listed = list(parameters)
    if not listed:
        return {}
    schema: Schema = {"properties": {one.name: _schema(one) for one in listed}}
    if required := [one.name for one in listed if one.required]:
        schema["required"] = required
    return schema


def _schema(parameter: Parameter) -> Schema:
    extra: Schema = plain(parameter.extra)
    own = extra.pop("description", None)
    schema: Schema = {} if parameter.type == "any" else {"type": parameter.type}
    schema |= extra
    nested = _object(parameter.properties)
    if "required" in nested and "required" in extra:
        nested["required"] = [*nested["required"], *extra["required"]]
    schema |= nested
    if parameter.items is not None:
        schema["items"] = _schema(parameter.items)
    elif parameter.item_type is not None:
        schema["items"] = {} if parameter.item_type == "any" else {"type": parameter.item_type}
    if parameter.enum is not None and not (
        "const" in extra and same(list(parameter.enum), [extra["const"]])
    ):
        schema["enum"] = plain(parameter.enum)
    description = parameter.description
    if description == (with_sentences(own, _limits(extra)) or ""):
        description = own or ""
    about: Schema = {"description": description} if description else {}
    if parameter.default is not UNSET:
        about["default"] = plain(parameter.default)
    if not parameter.nullable or parameter.type == "null":
        return {**schema, **about}
    kinds = types_of(schema)
    if not kinds or (parameter.enum is not None and None not in parameter.enum):
        return {"anyOf": [schema, dict(_NULL)], **about}
    return {**schema, **about, "type": [*kinds, "null"]}
