"""Forms of elicitation requests: their fields, and how answers are parsed and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from plait.cli.schemas import readable_schema
from plait.client.catalog.schemas.values import as_list, as_schema
from plait.client.catalog.validation import validator_for_schema

Kind = Literal["text", "integer", "number", "boolean", "choice", "choices"]

_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})


class InvalidAnswerError(ValueError):
    """A value is not valid for its field; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One value of an elicitation request."""

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    """The value of an empty answer; `None` if there is none."""

    choices: tuple[tuple[str, str], ...] = ()
    """The values to choose from, each with its title."""

    schema: Mapping[str, Any]

    @property
    def needs_value(self) -> bool:
        """Whether an empty answer is refused."""
        return self.required and self.default is None

    @property
    def hint(self) -> str:
        """A short description of valid input."""
        limits = ((hint, self.schema.get(keyword)) for keyword, (_, hint) in _LIMITS.items())
        hints = [hint.format(limit) for hint, limit in limits if hint and limit]
        return ", ".join(part for part in (_expected(self), *hints) if part)


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of a requested schema, in its order."""
    root = readable_schema(schema)
    required = as_list(root.get("required"))
    properties = as_schema(root.get("properties"))
    return tuple(
        _field(name, as_schema(inner), required=name in required)
        for name, inner in properties.items()
    )


def _field(name: str, schema: Mapping[str, Any], *, required: bool) -> FormField:
    json_type = schema.get("type")
    choices = _choices(as_schema(schema.get("items")) if json_type == "array" else schema)
    kinds: dict[object, Kind] = {"integer": "integer", "number": "number", "boolean": "boolean"}
    kind: Kind = "choice" if choices else kinds.get(json_type, "text")
    field = FormField(
        name=name,
        kind="choices" if json_type == "array" else kind,
        title=str(schema.get("title") or ""),
        description=str(schema.get("description") or ""),
        required=required,
        choices=choices,
        schema=schema,
    )
    default = schema.get("default")
    try:
        return field if default is None else replace(field, default=checked(field, default))
    except InvalidAnswerError:
        return field


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the values of an enum, with their titles."""
    for key in ("oneOf", "anyOf"):
        options = [as_schema(option) for option in as_list(schema.get(key))]
        if options and all("const" in option for option in options):
            return tuple((str(item["const"]), str(item.get("title") or "")) for item in options)
    values = [str(value) for value in as_list(schema.get("enum"))]
    names = [str(name) for name in as_list(schema.get("enumNames"))]
    titles = names if len(names) == len(values) else [""] * len(values)
    return tuple(zip(values, titles, strict=True))


def parsed(field: FormField, text: str) -> Any:
    """Parse the input for a field, or raise `InvalidAnswerError`."""
    word = text.strip()
    match field.kind:
        case "boolean":
            if word.lower() in _YES | _NO:
                return word.lower() in _YES
            raise InvalidAnswerError("type y or n")
        case "integer" | "number":
            try:
                number = int(word) if field.kind == "integer" else float(word)
            except ValueError:
                raise InvalidAnswerError(f"type {_expected(field)}") from None
            return checked(field, number)
        case "choice":
            return _chosen(field, word)
        case "choices":
            words = [item.strip() for item in word.split(",") if item.strip()]
            return checked(field, list(dict.fromkeys(_chosen(field, item) for item in words)))
        case "text":
            return checked(field, text)


def checked(field: FormField, value: Any) -> Any:
    """Return a value if it is valid for a field, or raise `InvalidAnswerError`."""
    for violation in validator_for_schema(_limits_of(field)).violations(value):
        limit = _LIMITS.get(violation.keyword)
        raise InvalidAnswerError(limit[0].format(violation.expected) if limit else _must(field))
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidAnswerError("must be a number")
    if isinstance(value, str) and field.kind == "text" and not _has_format(field, value):
        raise InvalidAnswerError(f"must be {_expected(field)}")
    return value


def _limits_of(field: FormField) -> dict[str, Any]:
    """Return the schema that a value must match."""
    choices = {"enum": [value for value, _ in field.choices]} if field.choices else {}
    match field.kind:
        case "choice":
            return choices
        case "choices":
            return {**field.schema, "type": "array", "items": choices}
        case "text":
            return {**field.schema, "type": "string"}
        case _:
            return dict(field.schema)


_LIMITS = {
    "minimum": ("must be at least {}", "at least {}"),
    "maximum": ("must be at most {}", "at most {}"),
    "exclusiveMinimum": ("must be more than {}", None),
    "exclusiveMaximum": ("must be less than {}", None),
    "multipleOf": ("must be a multiple of {}", None),
    "pattern": ("must match {}", None),
    "minLength": ("needs at least {} characters", "{} characters or more"),
    "maxLength": ("takes at most {} characters", "{} characters or fewer"),
    "minItems": ("needs at least {} values", "{} or more"),
    "maxItems": ("takes at most {} values", "{} or fewer"),
}
"""The refusal of a value for each keyword, and the hint beforehand."""


def _chosen(field: FormField, word: str) -> str:
    """Find a choice by its number, value or title."""
    if not field.choices:
        return word
    if word.isdecimal() and 1 <= int(word) <= len(field.choices):
        return field.choices[int(word) - 1][0]
    for value, title in field.choices:
        if word in {value, title} or word.casefold() == value.casefold():
            return value
    raise InvalidAnswerError(f"type a number from 1 to {len(field.choices)}")


def _has_format(field: FormField, value: str) -> bool:
    _, check = _FORMATS.get(str(field.schema.get("format")), ("", lambda _: True))
    try:
        return bool(check(value))
    except ValueError:
        return False


def _is_uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path))


_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "email": ("an address such as ann@example.com", re.compile(r"[^@\s]+@[^@\s]+").fullmatch),
    "uri": ("a URI such as https://example.com", _is_uri),
    "date": ("a date such as 2027-01-31", date.fromisoformat),
    "date-time": ("a time such as 2027-01-31T12:00:00Z", datetime.fromisoformat),
}
"""What is expected, and a check that returns something false or raises `ValueError`."""


def _expected(field: FormField) -> str:
    count = len(field.choices)
    values = f"numbers from 1 to {count}" if count else "values"
    return {
        "boolean": "y or n",
        "integer": "a whole number",
        "number": "a number",
        "choice": f"1 to {count}",
        "choices": f"{values}, separated by commas",
        "text": _FORMATS.get(str(field.schema.get("format")), ("",))[0],
    }[field.kind]


def _must(field: FormField) -> str:
    if field.choices:
        listed = ", ".join(value for value, _ in field.choices)
        return f"must be {'some' if field.kind == 'choices' else 'one'} of {listed}"
    return f"must be {_expected(field) or 'text'}"
