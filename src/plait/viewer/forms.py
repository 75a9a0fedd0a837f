"""A form made of the input schema of a tool, and the arguments that were entered in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from plait.html.elements import Child, Html, h
from plait.models.schemas.for_provider import inline_refs
from plait.models.schemas.json_schema import as_list, as_schema

Kind = Literal["text", "integer", "number", "boolean", "choice", "choices", "json"]

_KINDS: Final[Mapping[str, Kind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}

WHOLE: Final = "arguments"
"""The field that replaces all others: the arguments as one JSON object."""

_LONG_TEXT = 200
"""A text that may be longer gets several lines."""


class FormError(ValueError):
    """What was entered cannot be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One argument of a tool, as a form asks for it."""

    name: str
    kind: Kind
    required: bool
    description: str
    schema: Mapping[str, Any]
    choices: tuple[tuple[Any, str], ...] = ()
    """The values to choose from, each with its label."""


def field_key(argument: str) -> str:
    """Return the name of the field of an argument, in the page and in what it sends.

    Its prefix keeps an argument from passing for another part of the request, or for a property of
    the form in the page's script, such as `dataset`. It is written as in JSON, since pages escape
    hidden characters.
    """
    return f"field.{json.dumps(argument)[1:-1]}"


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Return the arguments of a schema, required ones first."""
    root = as_schema(inline_refs(schema).schema)
    needed = as_list(root.get("required"))
    fields: list[Field] = []
    for name, inner in as_schema(root.get("properties")).items():
        described = as_schema(inner)
        plain = _without_null(described)
        is_list = plain.get("type") == "array"
        choices = _choices(as_schema(plain.get("items")) if is_list else plain)
        kind: Kind = _KINDS.get(str(plain.get("type")), "json")
        if choices:
            kind = "choices" if is_list else "choice"
        title = str(plain.get("title") or "")
        if title.casefold() == name.replace("_", " ").casefold():
            title = ""  # made of the name, as pydantic does
        texts = [described.get("description") or plain.get("description"), title]
        fields.append(
            Field(
                name=name,
                kind=kind,
                required=name in needed,
                description=str(next(filter(None, texts), "")),
                schema=plain,
                choices=choices,
            )
        )
    return sorted(fields, key=lambda field: not field.required)


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
    """Return the values of an enum with their labels, in each of the ways of writing it."""
    for union in ("oneOf", "anyOf"):
        options = [as_schema(one) for one in as_list(schema.get(union))]
        if options and all("const" in one for one in options):
            values = [one["const"] for one in options]
            titles = [one.get("title") for one in options]
            break
    else:
        values, titles = as_list(schema.get("enum")), as_list(schema.get("enumNames"))
    labels = titles if len(titles) == len(values) else [None] * len(values)
    pairs = zip(values, labels, strict=True)
    return tuple((value, str(label or as_text(value))) for value, label in pairs)


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the other type of a nullable one."""
    for union in ("anyOf", "oneOf"):
        options = [as_schema(one) for one in as_list(schema.get(union))]
        others = [one for one in options if one.get("type") != "null"]
        if len(others) == 1:
            return {**others[0], **{key: one for key, one in schema.items() if key != union}}
    names = [name for name in as_list(schema.get("type")) if name != "null"]
    return {**schema, "type": names[0]} if len(names) == 1 else schema


def form_of(
    schema: Mapping[str, Any], *, action: str, target: Mapping[str, str], buttons: Child
) -> Html:
    """Build the form of a tool, a prompt or a question."""
    fields = fields_of(schema)
    rows: list[Html] = []
    for field in fields:
        declared = field.schema.get("type")
        kind = declared if isinstance(declared, str) else field.kind
        mark = h("span", "required", class_="muted") if field.required else None
        head = h("span", h("b", field.name), " ", h("i", kind), " ", mark)
        description = h("small", field.description) if field.description else None
        # Each box of a choice of several has a label of its own.
        kind = "div" if field.kind == "choices" else "label"
        rows.append(h(kind, head, _input(field), description, class_="field"))
    title = "Arguments as JSON"
    shape = {"name": WHOLE, "rows": 4, "spellcheck": "false", "placeholder": "{}"}
    whole = h("textarea", **shape, aria_label=title, data_whole=True)
    is_open = not fields and bool(schema.get("additionalProperties", False))
    rows.append(h("details", h("summary", title), whole, open=is_open))
    return form_shell(rows, buttons, action=action, target=target)


def form_shell(rows: Child, buttons: Child, *, action: str, target: Mapping[str, str]) -> Html:
    """Build a form; a script sends it to the action, and shows the answer below it.

    `target` says what the form is for, and is sent with the fields. Names that a server has chosen
    belong there: in an address they could lead to another server.
    """
    return h(
        "form",
        rows,
        h("div", buttons, class_="actions"),
        h("div", class_="outcome", aria_live="polite"),
        class_="call-form",
        data_call=action,
        data_target=json.dumps(target),
        autocomplete="off",
    )


def submit_button(label: str, action: str = "", *, class_: str | None = None) -> Html:
    """Build a button that sends its form, and which action it stands for."""
    name = {"name": "action", "value": action} if action else {}
    return h("button", label, type="submit", class_=class_, **name)


def _input(field: Field) -> Html:
    default = field.schema.get("default")
    hint = "" if default is None else json.dumps(default, ensure_ascii=False)
    name = field_key(field.name)
    match field.kind:
        case "choice" | "boolean":
            values = field.choices or ((True, "true"), (False, "false"))
            options = [h("option", label, value=as_text(value)) for value, label in values]
            empty = h("option", f"default {hint}" if hint else "–", value="")
            return h("select", empty, options, name=name)
        case "choices":
            return h(
                "div",
                [
                    h("label", h("input", type="checkbox", name=name, value=as_text(one)), label)
                    for one, label in field.choices
                ],
                class_="boxes",
            )
        case "integer" | "number":
            step = "1" if field.kind == "integer" else "any"
            return h("input", type="number", name=name, step=step, placeholder=hint)
        case "text" if field.schema.get("maxLength", _LONG_TEXT) <= _LONG_TEXT:
            return h("input", type="text", name=name, placeholder=hint)
        case _:
            return h("textarea", name=name, rows=2, placeholder=hint or "JSON")


def as_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def arguments_from(schema: Mapping[str, Any], entered: Mapping[str, str]) -> dict[str, Any]:
    """Read what was entered; an empty field is left out, unless it is a required text.

    Raises:
        FormError: A number or JSON cannot be read.
    """
    if whole := entered.get(WHOLE, "").strip():
        found = _json(whole, "the arguments")
        if not isinstance(found, dict):
            raise FormError("the arguments must be a JSON object")
        return cast("dict[str, Any]", found)
    arguments: dict[str, Any] = {}
    for field in fields_of(schema):
        text = entered.get(field_key(field.name), "")
        if not text and not (field.required and field.kind == "text"):
            continue
        value: Any = text
        if field.choices:
            by_text = {as_text(one): one for one, _ in field.choices}
            values = [by_text.get(one, one) for one in text.split("\n")]
            value = values if field.kind == "choices" else values[0]
        elif field.kind != "text":
            value = _json(text, field.name)
        if field.kind in {"integer", "number"}:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value):
                raise FormError(f"{field.name}: {text!r} is not a number")
        arguments[field.name] = value
    return arguments


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FormError(f"{name}: this is not JSON ({error})") from None
