r"""Turn the words after `plait call SERVER TOOL` into the arguments of the tool.

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
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, NoReturn, cast

from plait.cli.exits import ArgumentError
from plait.cli.schemas import item_schema, json_types, parameters_of, schema_at, type_label
from plait.client.catalog.schemas.values import json_type

ReadText = Callable[[str], str]
"""Returns the text of a file; `-` is stdin."""


def parse_arguments(
    words: Sequence[str], schema: Mapping[str, Any], read_text: ReadText
) -> dict[str, Any]:
    """Parse the words as the arguments of a tool with this input schema.

    Raises:
        ArgumentError: A word is neither JSON nor a pair, or a value has the wrong type.
    """
    try:
        return _parse(words, schema, read_text)
    except ArgumentError as error:
        if shown := ", ".join(str(parameter) for parameter in parameters_of(schema)):
            error.hint = f"it takes {shown}"
        raise


def _parse(words: Sequence[str], schema: Mapping[str, Any], read_text: ReadText) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    pairs = list(words)
    if pairs and _is_whole_object(pairs[0]):
        arguments = _whole_object(pairs.pop(0), read_text)
    set_paths: dict[tuple[str, ...], bool] = {}
    for word in pairs:
        path, value, is_item = _pair(word, schema, read_text)
        if path in set_paths:
            if not (is_item and set_paths[path]):
                raise ArgumentError(f"{'.'.join(path)} is set twice")
            value = [*reduce(getitem, path, arguments), *cast("list[Any]", value)]
        set_paths[path] = is_item
        _set(arguments, path, value)
    return arguments


def _is_whole_object(word: str) -> bool:
    return word == "-" or word.lstrip()[:1] in {"{", "["} or word.startswith("@")


def _whole_object(word: str, read_text: ReadText) -> dict[str, Any]:
    text, place = word, "the arguments"
    if word == "-" or word.startswith("@"):
        text, place = _read(word.removeprefix("@"), read_text), _place(word.removeprefix("@"))
    value = _json(text, place)
    if not isinstance(value, dict):
        raise ArgumentError(f'{place} must be a JSON object, like \'{{"name": "value"}}\'')
    return cast("dict[str, Any]", value)


def _pair(
    word: str, schema: Mapping[str, Any], read_text: ReadText
) -> tuple[tuple[str, ...], Any, bool]:
    """Split a word into path and value; the flag marks a list item."""
    key, equals, text = word.partition("=")
    if not equals or key in {"", ":"}:
        _reject(word, schema)
    if as_json := key.endswith(":"):
        key = key[:-1]
    path = _path(key, schema)
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = _read(text[1:], read_text)
    if as_json:
        return path, _json(text, key), False
    return path, *_typed(text, key, schema_at(schema, path))


def _reject(word: str, schema: Mapping[str, Any]) -> NoReturn:
    parameters = parameters_of(schema)
    names = [one.name for one in parameters if one.required] or [one.name for one in parameters]
    example = f"{names[0]}={word}" if len(names) == 1 else "key=value"
    raise ArgumentError(f"{word!r} is neither JSON nor a pair; write {example}")


def _path(key: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    if any(parameter.name == key for parameter in parameters_of(schema)):
        return (key,)
    parts = tuple(part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", key))
    if not all(parts):
        raise ArgumentError(f"{key!r} has an empty part between its dots")
    return parts


def _typed(text: str, key: str, schema: dict[str, Any]) -> tuple[Any, bool]:
    """Convert a value to the type of its schema; the flag marks a list item."""
    kinds = json_types(schema)
    if "string" in kinds:
        return text, False
    value = _json_or_text(text)
    if not kinds:
        return value, False
    if isinstance(value, str) and "boolean" in kinds and text.casefold() in {"true", "false"}:
        value = text.casefold() == "true"
    kind = json_type(value)
    if kind in kinds or (kind == "integer" and "number" in kinds):
        return value, False
    if "array" in kinds:
        item, _ = _typed(text, key, item_schema(schema))
        return [item], True
    raise ArgumentError(f"{key}: must be {type_label(schema)}, not {text!r}")


def _json_or_text(text: str) -> Any:
    try:
        return _json(text, "")
    except ArgumentError:
        return text


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ArgumentError(
            f"{place}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:
        raise ArgumentError(f"{place}: not valid JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


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
