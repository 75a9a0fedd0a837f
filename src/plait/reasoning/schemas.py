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
    return _tidy(model.model_json_schema(mode="serialization"), keep_nulls=True)


def _tidy(schema: Schema, *, keep_nulls: bool) -> Schema:
    definitions = schema.pop("$defs", {})

    def inlined(schema: Schema) -> Schema:
        if "$ref" in schema:
            definition: Schema = definitions[schema["$ref"].rpartition("/")[2]]
            schema = {**definition, **{key: schema[key] for key in schema if key != "$ref"}}
        tidy: Schema = {}
        for key, value in schema.items():
            if key == "properties":
                tidy[key] = {name: inlined(part) for name, part in value.items()}
            elif key != "title" and not (key == "default" and value is None):
                tidy[key] = inlined_part(value)
        choices: list[Schema] = tidy.get("anyOf", [])
        kept = [choice for choice in choices if keep_nulls or choice != {"type": "null"}]
        if not keep_nulls and len(kept) == 1:
            return {**kept[0], **{key: value for key, value in tidy.items() if key != "anyOf"}}
        return {**tidy, "anyOf": kept} if kept else tidy

    def inlined_part(value: object) -> object:
        if isinstance(value, list):
            return [inlined_part(item) for item in cast("list[object]", value)]
        return inlined(cast("Schema", value)) if isinstance(value, dict) else value

    return {key: value for key, value in inlined(schema).items() if key != "description"}
