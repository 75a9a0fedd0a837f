"""Forms that servers want a person to fill in: their fields, and what fits into each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal, cast
from urllib.parse import urlsplit

Kind = Literal["text", "integer", "number", "boolean", "choice", "choices"]

_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


class UnfitError(ValueError):
    """A value does not fit into its field; the message says what does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One value that a server asks for."""

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    """What an empty answer means; `None` if it means nothing."""

    choices: tuple[tuple[str, str], ...] = ()
    """The values to choose from, each with what is shown of it."""

    schema: Mapping[str, Any]
    """The limits, as the server wrote them."""

    @property
    def hint(self) -> str:
        """Say in a few words what may be typed."""
        return ", ".join(part for part in (_wanted(self), *_limits(self)) if part)


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Read the fields of a requested schema, in its order."""
    required = schema.get("required")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    properties = _object(schema.get("properties"))
    return tuple(
        _field(name, _object(inner), required=name in needed) for name, inner in properties.items()
    )


def _field(name: str, schema: Mapping[str, Any], *, required: bool) -> FormField:
    kind = schema.get("type")
    choices = _choices(_object(schema.get("items")) if kind == "array" else schema)
    plain: dict[object, Kind] = {"integer": "integer", "number": "number", "boolean": "boolean"}
    found: Kind = plain.get(kind, "text")
    if kind == "array":
        found = "choices"
    elif choices:
        found = "choice"
    field = FormField(
        name=name,
        kind=found,
        title=str(schema.get("title") or ""),
        description=str(schema.get("description") or ""),
        required=required,
        choices=choices,
        schema=schema,
    )
    return _with_default(field, schema.get("default"))


def _with_default(field: FormField, default: Any) -> FormField:
    """Add the default, if it fits."""
    try:
        return field if default is None else replace(field, default=checked(field, default))
    except UnfitError:
        return field


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Read the values of an enum, with their titles if it has any."""
    for key in ("oneOf", "anyOf"):
        options = [_object(one) for one in _list(schema.get(key))]
        if options and all("const" in one for one in options):
            return tuple((str(one["const"]), str(one.get("title") or "")) for one in options)
    values = [str(one) for one in _list(schema.get("enum"))]
    names = [str(one) for one in _list(schema.get("enumNames"))]
    titles = names if len(names) == len(values) else [""] * len(values)
    return tuple(zip(values, titles, strict=True))


def parsed(field: FormField, text: str) -> Any:
    """Read what was typed into a field.

    Raises:
        UnfitError: It does not fit.
    """
    word = text.strip()
    match field.kind:
        case "boolean":
            if word.lower() in _YES | _NO:
                return word.lower() in _YES
            raise UnfitError("type y or n")
        case "integer" | "number":
            try:
                number = int(word) if field.kind == "integer" else float(word)
            except ValueError:
                raise UnfitError(f"type {_wanted(field)}") from None
            return checked(field, number)
        case "choice":
            return _chosen(field, word)
        case "choices":
            words = [one.strip() for one in word.split(",") if one.strip()]
            return checked(field, list(dict.fromkeys(_chosen(field, one) for one in words)))
        case "text":
            return checked(field, text)


def checked(field: FormField, value: Any) -> Any:
    """Return a value that fits into a field.

    Raises:
        UnfitError: It does not fit.
    """
    match field.kind:
        case "boolean":
            _demand(isinstance(value, bool), "must be true or false")
        case "integer" | "number":
            whole = isinstance(value, int) and not isinstance(value, bool)
            _demand(whole or (field.kind == "number" and isinstance(value, float)), _must(field))
            _check_number(field.schema, value)
        case "choice":
            _demand(value in {one for one, _ in field.choices}, _must(field))
        case "choices":
            _demand(isinstance(value, list), _must(field))
            known = {one for one, _ in field.choices}
            _demand(not known or all(one in known for one in value), _must(field))
            _check_size(field.schema, value, ("minItems", "maxItems"), "values")
        case "text":
            _demand(isinstance(value, str), "must be text")
            _check_size(field.schema, value, ("minLength", "maxLength"), "characters")
            _check_format(field.schema, value)
    return value


def _chosen(field: FormField, word: str) -> str:
    """Find a choice by its number, or by what it is or is called."""
    if not field.choices:
        return word
    if word.isdecimal() and 1 <= int(word) <= len(field.choices):
        return field.choices[int(word) - 1][0]
    for value, title in field.choices:
        if word in {value, title} or word.casefold() == value.casefold():
            return value
    raise UnfitError(f"type a number from 1 to {len(field.choices)}")


def _check_number(schema: Mapping[str, Any], value: float) -> None:
    least, most = schema.get("minimum"), schema.get("maximum")
    _demand(value == value and abs(value) != float("inf"), "must be a number")
    _demand(not isinstance(least, int | float) or value >= least, f"must be at least {least}")
    _demand(not isinstance(most, int | float) or value <= most, f"must be at most {most}")


def _check_size(
    schema: Mapping[str, Any], value: Sequence[Any], keys: tuple[str, str], noun: str
) -> None:
    least, most = (schema.get(key) for key in keys)
    _demand(not isinstance(least, int) or len(value) >= least, f"needs at least {least} {noun}")
    _demand(not isinstance(most, int) or len(value) <= most, f"takes at most {most} {noun}")


def _check_format(schema: Mapping[str, Any], value: str) -> None:
    form = schema.get("format")
    reason = _FORMATS.get(str(form))
    if reason is None:
        return
    try:
        if form == "date":
            date.fromisoformat(value)
        elif form == "date-time":
            datetime.fromisoformat(value)
        elif form == "email":
            _demand(_EMAIL.fullmatch(value) is not None, reason)
        else:
            parts = urlsplit(value)
            _demand(bool(parts.scheme and (parts.netloc or parts.path)), reason)
    except ValueError:
        raise UnfitError(f"must be {reason}") from None


_FORMATS = {
    "email": "an address such as ann@example.com",
    "uri": "a URI such as https://example.com",
    "date": "a date such as 2027-01-31",
    "date-time": "a time such as 2027-01-31T12:00:00Z",
}


def _wanted(field: FormField) -> str:
    match field.kind:
        case "boolean":
            return "y or n"
        case "integer":
            return "a whole number"
        case "number":
            return "a number"
        case "choice":
            return f"1 to {len(field.choices)}"
        case "choices":
            if field.choices:
                return f"numbers from 1 to {len(field.choices)}, with commas between them"
            return "values with commas between them"
        case "text":
            return _FORMATS.get(str(field.schema.get("format")), "")


def _must(field: FormField) -> str:
    if field.choices:
        listed = ", ".join(value for value, _ in field.choices)
        return f"must be {'some' if field.kind == 'choices' else 'one'} of {listed}"
    return f"must be {_wanted(field)}"


def _limits(field: FormField) -> list[str]:
    names = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "{} characters or more",
        "maxLength": "{} characters or fewer",
        "minItems": "{} or more",
        "maxItems": "{} or fewer",
    }
    found = ((text, field.schema.get(key)) for key, text in names.items())
    return [text.format(limit) for text, limit in found if isinstance(limit, int | float) and limit]


def _demand(fits: bool, reason: str) -> None:
    if not fits:
        raise UnfitError(reason)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
