"""Typed results: the schema that the answer of a run must fit, and how the answer is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from plait.client.catalog.validation import validator_for_schema
from plait.errors import ConfigError


class OutputType:
    """A pydantic model that the answer fills, or a JSON Schema that it fits.

    Raises:
        ConfigError: It does not describe a JSON object.
    """

    def __init__(self, declared: object) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(declared, Mapping):
            self.schema = cast("Mapping[str, Any]", declared)
        else:
            try:
                self._adapter = TypeAdapter(cast("Any", declared))
                self.schema = self._adapter.json_schema()
            except PydanticUserError as error:
                text = f"output_type must be a pydantic model or a JSON Schema: {error}"
                raise ConfigError(text) from error
        self._validator = validator_for_schema(self.schema)
        if self._validator.broken is not None:
            raise ConfigError(f"the JSON Schema of output_type is broken: {self._validator.broken}")
        if self.schema.get("type", "object") != "object":
            raise ConfigError("output_type must describe a JSON object: make it a field of a model")
        form = json.dumps(self.schema, ensure_ascii=False)
        self.rule = (
            "When you have the answer, reply with one JSON object that fits this JSON Schema, and "
            f"nothing else:\n{form}"
        )
        """Tells the model the form of the answer."""

    def read(self, text: str) -> Any:
        """Return the value in an answer, which may have words around it.

        Raises:
            ValueError: There is none, or it does not fit; the text says why.
        """
        value = _json_object_in(text)
        if value is None:
            raise ValueError("there is no JSON object in the reply")
        if self._adapter is None:
            if (problem := self._validator.problem(value)) is not None:
                raise ValueError(problem)
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            places = (".".join(map(str, one["loc"])) or "the object" for one in faults)
            texts = (f"{place}: {one['msg']}" for place, one in zip(places, faults, strict=True))
            raise ValueError("; ".join(texts)) from error


def _json_object_in(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
            return cast("dict[str, Any]", value)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return None
