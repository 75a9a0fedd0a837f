"""The JSON schemas that tools advertise: inlined, without titles and null defaults."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

Schema = dict[str, Any]


def input_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's arguments."""
    return _tidy(model.model_json_schema(), keep_nulls=False)


def output_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's result."""
    schema = model.model_json_schema(mode="serialization")
    return _tidy(schema, keep_nulls=True)


def _tidy(schema: Schema, *, keep_nulls: bool) -> Schema:
    definitions = schema.pop("$defs", {})
    written = _inlined(schema, definitions, keep_nulls=keep_nulls)
    written.pop("description", None)
    return written


def _inlined(schema: Schema, definitions: Schema, *, keep_nulls: bool) -> Schema:
    """Inline definitions, and drop titles and null defaults."""
    if "$ref" in schema:
        definition: Schema = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**definition, **{key: schema[key] for key in schema if key != "$ref"}}
    tidy: Schema = {}
    for key, value in schema.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "properties":
            tidy[key] = {
                name: _inlined(part, definitions, keep_nulls=keep_nulls)
                for name, part in value.items()
            }
        else:
            tidy[key] = _part(value, definitions, keep_nulls=keep_nulls)
    choices: list[Schema] = tidy.get("anyOf", [])
    if not keep_nulls and (kept := [choice for choice in choices if choice != {"type": "null"}]):
        if len(kept) == 1:
            tidy = {**kept[0], **{key: value for key, value in tidy.items() if key != "anyOf"}}
        else:
            tidy["anyOf"] = kept
    return tidy


def _part(value: object, definitions: Schema, *, keep_nulls: bool) -> object:
    if isinstance(value, dict):
        return _inlined(cast("Schema", value), definitions, keep_nulls=keep_nulls)
    if isinstance(value, list):
        return [
            _part(item, definitions, keep_nulls=keep_nulls) for item in cast("list[object]", value)
        ]
    return value
