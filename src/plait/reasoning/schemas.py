"""JSON schemas as tools advertise them: written out, without titles and nulls."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

Schema = dict[str, Any]


def input_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's arguments."""
    return _tidy(model.model_json_schema(), optional_nulls=False)


def output_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's result."""
    schema = model.model_json_schema(mode="serialization")
    return _tidy(schema, optional_nulls=True)


def _tidy(schema: Schema, *, optional_nulls: bool) -> Schema:
    definitions = schema.pop("$defs", {})
    written = _write_out(schema, definitions, optional_nulls=optional_nulls)
    written.pop("description", None)
    return written


def _write_out(schema: Schema, definitions: Schema, *, optional_nulls: bool) -> Schema:
    """Put definitions where they are used, and leave out what says nothing."""
    if "$ref" in schema:
        target: Schema = definitions[schema["$ref"].rpartition("/")[2]]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **beside}
    tidy: Schema = {}
    for key, value in schema.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "properties":
            tidy[key] = {
                name: _write_out(one, definitions, optional_nulls=optional_nulls)
                for name, one in value.items()
            }
        else:
            tidy[key] = _part(value, definitions, optional_nulls=optional_nulls)
    choices: list[Schema] = tidy.get("anyOf", [])
    if not optional_nulls and (kept := [one for one in choices if one != {"type": "null"}]):
        if len(kept) == 1:
            tidy = {**kept[0], **{key: value for key, value in tidy.items() if key != "anyOf"}}
        else:
            tidy["anyOf"] = kept
    return tidy


def _part(value: object, definitions: Schema, *, optional_nulls: bool) -> object:
    if isinstance(value, dict):
        found = cast("Schema", value)
        return _write_out(found, definitions, optional_nulls=optional_nulls)
    if isinstance(value, list):
        return [
            _part(one, definitions, optional_nulls=optional_nulls)
            for one in cast("list[object]", value)
        ]
    return value
