"""Descriptions in words of what a schema requires, and notes on what is lost for a provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from plait._support.durations import is_finite_number
from plait.models.schemas.json_schema import (
    ANNOTATIONS,
    ARRAY_SHAPE,
    MAX_SHOWN_CHARS,
    OBJECT_SHAPE,
    Schema,
    as_list,
    as_schema,
    is_schema,
    short_json,
    types_of,
)

_NUMBER_BOUNDS: Final = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
}
_RANGES: Final = (
    ("Must be", _NUMBER_BOUNDS, ""),
    ("Must be", {"minLength": ">=", "maxLength": "<="}, " characters"),
    ("Must have", {"minItems": ">=", "maxItems": "<="}, " items"),
    ("Must have", {"minProperties": ">=", "maxProperties": "<="}, " properties"),
)
_ENDS: Final = (".", "!", "?", ":", ";", "…")
_OUTLINED: Final = {
    "additionalProperties": "Other properties",
    "unevaluatedProperties": "Other properties",
    "unevaluatedItems": "Other items",
    "propertyNames": "Names of properties",
    "not": "Must not be",
    "contentSchema": "Holds",
}
"""How sentences begin that only outline the schema of a keyword."""
_ONLY_NEEDS: Final = ANNOTATIONS | {"required", "not", "type"}


def with_sentences(description: str | None, sentences: Iterable[str]) -> str | None:
    """Add sentences to a description, unless it already contains them.

    Sentences alone stay without a full stop, as in "Must be >= 1 and <= 100"; behind a
    description there is one: "The name. Must be >= 1 and <= 100 characters."
    """
    known = description or ""
    new = [
        text
        for text in dict.fromkeys(sentence.strip().rstrip(".") for sentence in sentences)
        if text and text not in known
    ]
    if not new:
        return description
    added = ". ".join(new)
    head = known.rstrip()
    if not head:
        return added
    return f"{head}{' ' if head.endswith(_ENDS) else '. '}{added}."


def add_sentences(schema: Schema, sentences: Iterable[str]) -> Schema:
    """Return a schema with sentences added to its description."""
    text = with_sentences(schema.get("description"), sentences)
    kept = {key: value for key, value in schema.items() if key != "description"}
    return kept if text is None else {**kept, "description": text}


def join_descriptions(first: str | None, second: str | None) -> str | None:
    """Join two descriptions; a single one is returned unchanged."""
    return with_sentences(first, [second]) if first and second else first or second


def limits(schema: Mapping[str, Any]) -> list[str]:
    """Describe the limits of numbers, texts, lists and objects."""
    sentences: list[str] = []
    for start, signs, unit in _RANGES:
        bounds = ((sign, schema.get(key)) for key, sign in signs.items())
        if parts := [
            f"{sign} {short_json(value)}" for sign, value in bounds if is_finite_number(value)
        ]:
            sentences.append(f"{start} {' and '.join(parts)}{unit}")
    if is_finite_number(step := schema.get("multipleOf")):
        sentences.append(f"Must be a multiple of {short_json(step)}")
    if isinstance(pattern := schema.get("pattern"), str):
        sentences.append(f"Must match the pattern {pattern}")
    if isinstance(name := schema.get("format"), str):
        sentences.append(f"Format: {name}")
    if schema.get("uniqueItems") is True:
        sentences.append("Items must be unique")
    return sentences


def listed(values: Iterable[Any]) -> str:
    """List values as JSON."""
    return ", ".join(short_json(value) for value in values)


def choices(schema: Mapping[str, Any]) -> list[str]:
    """Describe the values of `enum` and `const`."""
    sentences: list[str] = []
    if values := as_list(schema.get("enum")):
        start = "Must be" if len(values) == 1 else "Must be one of:"
        sentences.append(f"{start} {listed(values)}")
    if "const" in schema:
        sentences.append(f"Must be {short_json(schema['const'])}")
    return sentences


MAX_OUTLINE_PARTS: Final = 20
MAX_OUTLINE_LEVELS: Final = 4
"""An outline is a hint for a model, not the whole schema."""


def outline(schema: Any) -> str:
    """Outline a schema: `{"id": integer, "tags"?: list of string}`."""
    text = _outline(schema, MAX_OUTLINE_LEVELS)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def _outline(schema: Any, levels: int) -> str:
    if not is_schema(schema):
        return "nothing" if schema is False else "anything"
    if levels == 0:
        return "…"
    if "const" in schema or as_list(schema.get("enum")):
        values = " or ".join(text.removeprefix("Must be ") for text in choices(schema))
        return values.removeprefix("one of: ")
    kinds = types_of(schema)
    if not kinds and schema.keys() & {*OBJECT_SHAPE, "required"}:
        kinds = ["object"]
    elif not kinds and schema.keys() & ARRAY_SHAPE:
        kinds = ["array"]
    draw = {"object": _outline_object, "array": _outline_array}
    parts = [draw[kind](schema, levels - 1) if kind in draw else kind for kind in kinds]
    texts = [" or ".join(parts)] if parts else []
    for key, joint in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if members := as_list(schema.get(key)):
            inner = [_outline(member, levels - 1) for member in members[:MAX_OUTLINE_PARTS]]
            texts.append(joint.join(dict.fromkeys(inner)))
    if "not" in schema:
        texts.append(f"not {_outline(schema['not'], levels - 1)}")
    if words := limits(schema):
        texts.append(f"({'; '.join(words)})")
    return " ".join(text for text in texts if text) or "anything"


def _outline_object(schema: Schema, levels: int) -> str:
    required = as_list(schema.get("required"))
    properties = as_schema(schema.get("properties"))
    parts = [
        f"{listed([name])}{'' if name in required else '?'}: {_outline(inner, levels)}"
        for name, inner in list(properties.items())[:MAX_OUTLINE_PARTS]
    ]
    parts += [f"{listed([name])}: anything" for name in required if name not in properties]
    for pattern, inner in as_schema(schema.get("patternProperties")).items():
        parts.append(f"<name like {pattern}>: {_outline(inner, levels)}")
    others = schema.get("additionalProperties")
    if is_schema(others):
        parts.append(f"<name>: {_outline(others, levels)}")
    return f"{{{', '.join(parts)}}}" if parts or others is False else "object"


def _outline_array(schema: Schema, levels: int) -> str:
    first = [_outline(inner, levels) for inner in as_list(schema.get("prefixItems"))]
    rest = schema.get("items")
    if first:
        return f"[{', '.join([*first, '…'] if rest is not False else first)}]"
    return f"list of {_outline(rest, levels)}" if is_schema(rest) and rest else "list"


def sentences_for(schema: Schema) -> list[str]:
    """Describe the keywords of a schema, except types, properties and items."""
    if not schema:  # most places have nothing to describe
        return []
    texts = [*choices(schema), *limits(schema)]
    for key, value in schema.items():
        match key:
            case "required" if value:
                texts.append(f"Needed: {listed(value)}")
            case "dependentRequired":
                texts += [
                    f"With {name}, these are needed: {', '.join(map(str, needed))}"
                    for name, needed in value.items()
                    if needed
                ]
            case "patternProperties":
                texts += [
                    f"Properties with names like {pattern}: {outline(inner)}"
                    for pattern, inner in value.items()
                ]
            case "contentEncoding":
                texts.append(f"Encoded as {value}")
            case "contentMediaType":
                texts.append(f"Media type: {value}")
            case "contains":
                least, most = schema.get("minContains", 1), schema.get("maxContains")
                count = f"{least} or more" if most is None else f"{least} to {most}"
                texts.append(f"Must hold {count} items like: {outline(value)}")
            case "if":
                then, otherwise = schema.get("then", True), schema.get("else", True)
                texts.append(
                    f"If it fits {outline(value)}, then it must fit {outline(then)}, "
                    f"otherwise {outline(otherwise)}"
                )
            case "anyOf" | "oneOf":
                texts.append(about_union(key, value))
            case "allOf":
                for member in value:
                    inner = as_schema(member)
                    # What has a shape is drawn: its sentences alone would say only half of it.
                    has_shape = inner.keys() & {"type", "properties", "items", "prefixItems"}
                    texts += (() if has_shape else sentences_for(inner)) or [
                        f"Must also fit: {outline(member)}"
                    ]
            case "dependentSchemas":
                texts += [f"With {name}, it must fit: {outline(it)}" for name, it in value.items()]
            case _ if start := _OUTLINED.get(key):
                is_end = value is False and start.startswith("Other")
                texts.append(f"No {start.lower()}" if is_end else f"{start}: {outline(value)}")
            case _:
                pass
    return [*texts, *notes_for(schema)]


def notes_for(schema: Schema) -> list[str]:
    """Describe annotations: default, examples, deprecated, read-only."""
    texts: list[str] = []
    if schema.get("default") is not None:
        texts.append(f"Default: {short_json(schema['default'])}")
    if examples := as_list(schema.get("examples")):
        texts.append(f"Examples: {listed(examples)}")
    flags = {"deprecated": "Deprecated", "readOnly": "Read-only"}
    return texts + [text for key, text in flags.items() if schema.get(key) is True]


def only_needs(branches: Iterable[Any]) -> bool:
    """Return whether alternatives differ only in `required`."""
    keys = [as_schema(branch).keys() for branch in branches]
    return all("required" in named and named <= _ONLY_NEEDS for named in keys)


def about_union(key: str, branches: list[Any]) -> str:
    """Describe the alternatives of a union."""
    if only_needs(branches):
        start = "At least" if key == "anyOf" else "Exactly"
        needs = (" and ".join(map(str, branch["required"])) for branch in branches)
        return f"{start} one of these is needed: {'; '.join(needs)}"
    start = "Must fit one of" if key == "anyOf" else "Must fit exactly one of"
    return f"{start}: {'; '.join(dict.fromkeys(outline(branch) for branch in branches))}"


NoteKind = Literal[
    "invalid",
    "refs",
    "names",
    "size",
    "recursion",
    "alternatives",
    "limits",
    "patterns",
    "json_text",
    "closed",
    "keywords",
]
"""The kinds of losses that notes report."""


class Note(str):
    """A note with its path, and its kind."""

    kind: NoteKind

    def __new__(cls, text: str, kind: NoteKind) -> Self:
        """Make a note of this kind."""
        note = super().__new__(cls, text)
        note.kind = kind
        return note


@dataclass(frozen=True, slots=True)
class ProviderSchema:
    """A converted schema, and how it differs from the original."""

    schema: Schema
    notes: tuple[Note, ...] = ()
    """What was lost, or moved to a description, each with its path.

    Without notes, arguments that are valid here are valid for the original too, once they are
    prepared for the server: nulls of absent arguments dropped, JSON strings decoded.
    """


_ALTERNATIVES = frozenset({"anyOf", "oneOf", "allOf"})


class Notes:
    """Collects notes without duplicates, in order."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}

    def add(self, path: str, text: str, kind: NoteKind) -> None:
        """Add a note about a place in the schema."""
        self._notes.setdefault(Note(f"{path or '(root)'}: {text}", kind), None)

    def add_moved(self, path: str, keywords: Iterable[str]) -> None:
        """Note which keywords moved to the description."""
        names = list(keywords)
        kind = "limits" if _ALTERNATIVES.isdisjoint(names) else "alternatives"
        self.add(path, f"{', '.join(names)} moved to the description", kind)

    @property
    def all(self) -> tuple[Note, ...]:
        """All notes."""
        return tuple(self._notes)
