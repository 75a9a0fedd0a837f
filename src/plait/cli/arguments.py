r"""Turn the words after `plait call SERVER TOOL` into arguments, by the input schema of the tool.

```text
'{"a": 1}'      all arguments as one JSON object; pairs after it add to it or replace
-               the same object, read from stdin
@args.json      the same object, read from a file
key=value       text where the tool's schema says string, else JSON
key:=json       JSON, whatever the schema says
key=@file       the text of a file (`key=@@x` is the text "@x"; `key:=@file` is JSON in a file)
a.b=value       an argument inside another (`a\.b=value` is a key with a dot)
key=x key=y     a list, where the schema says array
```
"""

from __future__ import annotations

import errno
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from plait._support.suggestions import did_you_mean
from plait.cli.exits import ArgumentError
from plait.cli.terminal import and_list
from plait.models.schemas.describe import Notes
from plait.models.schemas.for_provider import cleaned_schema
from plait.models.schemas.json_schema import (
    UNIONS,
    Schema,
    as_list,
    as_schema,
    is_schema,
    json_type,
    types_of,
    values_of,
)

if TYPE_CHECKING:
    from plait.client.catalog.tool import Tool

MAX_ENUM_VALUES = 4
"""More values make a signature unreadable."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool, as a signature shows it."""

    name: str
    type: str
    required: bool
    default: str | None
    """The default as JSON; `None` if there is none, or it is null."""
    description: str

    def __str__(self) -> str:
        if self.required:
            return f"{self.name}: {self.type}"
        if self.default is not None:
            return f"{self.name}: {self.type} = {self.default}"
        return f"{self.name}?: {self.type}"


def readable_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a schema with references inlined and broken keywords removed."""
    return cleaned_schema(schema, Notes())


def parameters_of(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """List the parameters of an input schema, required ones first."""
    root = readable_schema(schema)
    required = as_list(root.get("required"))
    properties = as_schema(root.get("properties"))
    parameters: list[Parameter] = []
    for name, inner in properties.items():
        about = as_schema(inner)
        label = type_label(about, hide_null=name not in required)
        default = about.get("default")
        default = None if default is None else json.dumps(default, ensure_ascii=False)
        description = str(about.get("description") or "")
        parameters.append(Parameter(name, label, name in required, default, description))
    return tuple(sorted(parameters, key=lambda parameter: not parameter.required))


def json_types(schema: Schema) -> frozenset[str]:
    """Return the JSON types that a schema without references allows; empty for any type."""
    if declared := types_of(schema):
        return frozenset(declared)
    if (values := values_of(schema)) is not None:
        return frozenset(json_type(value) for value in values)
    for key in UNIONS:
        if branches := as_list(schema.get(key)):
            types = [json_types(as_schema(branch)) for branch in branches]
            return frozenset[str]().union(*types) if all(types) else frozenset()
    members = [json_types(as_schema(member)) for member in as_list(schema.get("allOf"))]
    if known := [types for types in members if types]:
        return known[0].intersection(*known[1:])
    if "properties" in schema:
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in schema else frozenset()


def schema_at(schema: Mapping[str, Any], path: Sequence[str]) -> Schema:
    """Return the schema of a nested argument, without references; empty if unknown."""
    inner = readable_schema(schema)
    for name in path:
        inner = _property(inner, name)
    return inner


def item_schema(schema: Schema) -> Schema:
    """Return the schema of the items of an array, also inside unions."""
    if "items" in schema:
        return as_schema(schema["items"])
    for branch in _branches(schema):
        if items := item_schema(branch):
            return items
    return {}


def _property(schema: Schema, name: str) -> Schema:
    properties = as_schema(schema.get("properties"))
    if name in properties:
        return as_schema(properties[name])
    for branch in _branches(schema):
        if inner := _property(branch, name):
            return inner
    others = schema.get("additionalProperties")
    return others if is_schema(others) else {}


def _branches(schema: Schema) -> list[Schema]:
    keys = (*UNIONS, "allOf")
    return [as_schema(branch) for key in keys for branch in as_list(schema.get(key))]


def type_label(schema: Schema, *, hide_null: bool = False) -> str:
    """Format the type of a schema without references: `string`, `integer[]`, `"asc"|"desc"`."""
    if (values := values_of(schema)) is not None:
        shown = [json.dumps(value, ensure_ascii=False) for value in values[:MAX_ENUM_VALUES]]
        return "|".join([*shown, "…"] if len(values) > MAX_ENUM_VALUES else shown)
    for key in UNIONS:
        if branches := as_list(schema.get(key)):
            return _union([type_label(as_schema(branch)) for branch in branches], hide_null)
    types = types_of(schema) or sorted(json_types(schema))
    labels: list[str] = []
    for kind in types:
        items = type_label(as_schema(schema.get("items", True))) if kind == "array" else "any"
        if items != "any":
            labels.append(f"({items})[]" if "|" in items else f"{items}[]")
        else:
            labels.append(kind)
    return _union(labels, hide_null)


def _union(labels: list[str], hide_null: bool) -> str:
    shown = [label for label in dict.fromkeys(labels) if not (hide_null and label == "null")]
    return "|".join(shown) if shown and "any" not in shown else "any"


ReadText = Callable[[str], str]
"""Returns the text of a file; `-` is stdin."""


def parse_arguments(
    words: Sequence[str], schema: Mapping[str, Any], read_text: ReadText
) -> dict[str, Any]:
    """Parse the words as the arguments of a tool with this input schema.

    Raises:
        ArgumentError: A word is neither JSON nor a pair, or a value has the wrong type.
    """
    arguments: dict[str, Any] = {}
    pairs = list(words)
    try:
        first = pairs[0] if pairs else ""
        if first == "-" or first.lstrip()[:1] in {"{", "["} or first.startswith("@"):
            text, place = pairs.pop(0), "the arguments"
            if text == "-" or text.startswith("@"):
                file = text.removeprefix("@")
                text, place = _read(file, read_text), _place(file)
            whole = _json(text, place)
            if not isinstance(whole, dict):
                raise ArgumentError(f'{place} must be a JSON object, like \'{{"name": "value"}}\'')
            arguments = cast("dict[str, Any]", whole)
        set_paths: dict[tuple[str, ...], bool] = {}
        for word in pairs:
            path, value, is_item = _pair(word, schema, read_text)
            if path in set_paths:
                if not (is_item and set_paths[path]):
                    raise ArgumentError(f"{'.'.join(path)} is set twice")
                value = [*reduce(getitem, path, arguments), *cast("list[Any]", value)]
            set_paths[path] = is_item
            _set(arguments, path, value)
    except ArgumentError as error:
        if shown := ", ".join(str(parameter) for parameter in parameters_of(schema)):
            error.hint = f"it takes {shown}"
        raise
    return arguments


def check_names(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Refuse a call without a required argument, or with one that the tool surely does not have.

    Raises:
        ArgumentError: It names them, and has a call that would work as its hint.
    """
    parameters = parameters_of(tool.input_schema)
    known = [one.name for one in parameters]
    missing = [one.name for one in parameters if one.required and one.name not in arguments]
    is_closed = readable_schema(tool.input_schema).get("additionalProperties") is False
    unknown = [name for name in arguments if name not in known] if missing or is_closed else []
    if not missing and not unknown:
        return
    faults = [f"needs {and_list(missing)}"] if missing else []
    for name in unknown:
        guess = did_you_mean(name, missing or known)
        faults.append(f"has no argument {name!r}" + (f" ({guess})" if guess else ""))
    error = ArgumentError(f"{tool.wire_name} {and_list(faults)}")
    values = {name: shlex.quote(f"{name}={_word(arguments[name])}") for name in arguments}
    pairs = [
        values.get(one.name, f"{one.name}={one.type.upper()}")
        for one in parameters
        if one.required or one.name in arguments
    ]
    error.hint = " ".join(["plait call", tool.server, tool.wire_name, *pairs])
    raise error


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pair(
    word: str, schema: Mapping[str, Any], read_text: ReadText
) -> tuple[tuple[str, ...], Any, bool]:
    """Split a word into path and value; the flag marks a list item."""
    key, equals, text = word.partition("=")
    parameters = parameters_of(schema)
    if not equals or key in {"", ":"}:
        names = [one.name for one in parameters if one.required] or [one.name for one in parameters]
        example = f"{names[0]}={word}" if len(names) == 1 else "key=value"
        raise ArgumentError(f"{word!r} is neither JSON nor a pair; write {example}")
    if as_json := key.endswith(":"):
        key = key[:-1]
    path: tuple[str, ...] = (key,)
    if all(parameter.name != key for parameter in parameters):
        path = tuple(part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", key))
        if not all(path):
            raise ArgumentError(f"{key!r} has an empty part between its dots")
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = _read(text[1:], read_text)
    if as_json:
        return path, _json(text, key), False
    return path, *_typed_value(text, key, schema_at(schema, path))


def _typed_value(text: str, key: str, schema: dict[str, Any]) -> tuple[Any, bool]:
    """Convert a value to the type of its schema; the flag marks a list item."""
    kinds = json_types(schema)
    if "string" in kinds:
        return text, False
    value: Any = text
    with suppress(ArgumentError):
        value = _json(text, "")
    if not kinds:
        return value, False
    if isinstance(value, str) and "boolean" in kinds and text.casefold() in {"true", "false"}:
        value = text.casefold() == "true"
    kind = json_type(value)
    if kind in kinds or (kind == "integer" and "number" in kinds):
        return value, False
    if "array" in kinds:
        item, _ = _typed_value(text, key, item_schema(schema))
        return [item], True
    raise ArgumentError(f"{key}: must be {type_label(schema)}, not {text!r}")


def _json(text: str, place: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ArgumentError(
            f"{place}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:
        raise ArgumentError(f"{place}: not valid JSON: {error}") from None


def _read(path: str, read_text: ReadText) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError:
        raise ArgumentError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        hint = f" (for the text itself write @@{path})" if error.errno == errno.ENOENT else ""
        raise ArgumentError(f"cannot read {_place(path)}: {error.strerror}{hint}") from None


def _place(path: str) -> str:
    return "stdin" if path == "-" else path


def _set(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    inner = target
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ArgumentError(f"{'.'.join(path)}: {name} already has a value")
        inner = cast("dict[str, Any]", inner)
    if isinstance(inner.get(path[-1]), dict) and not isinstance(value, dict):
        raise ArgumentError(f"{'.'.join(path)} is set both as a whole and in parts")
    inner[path[-1]] = value


def reader_for(words: Iterable[str]) -> Callable[[str], str]:
    """Return a function that reads the text of a file; `-` is stdin.

    If a word refers to stdin, it is read immediately, before any server is contacted.
    The function raises `OSError` or `UnicodeDecodeError` for a file that cannot be read.
    """
    uses_stdin = any(word in {"-", "@-"} or word.endswith("=@-") for word in words)
    stdin = sys.stdin.buffer.read() if uses_stdin else b""

    def read_text(path: str) -> str:
        data = stdin if path == "-" else Path(path).expanduser().read_bytes()
        return data.decode("utf-8-sig")

    return read_text
