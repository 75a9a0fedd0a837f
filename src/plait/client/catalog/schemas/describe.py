"""Say in words what a schema asks of one value, and add words to a description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plait.client.catalog.schemas.values import as_list, is_number, short_json

_RANGES: Final = (
    ("Must be", (("minimum", ">="), ("exclusiveMinimum", ">")), ""),
    ("Must be", (("minLength", ">="),), " characters"),
    ("Must have", (("minItems", ">="),), " items"),
    ("Must have", (("minProperties", ">="),), " properties"),
)
_UPPER: Final = {
    "minimum": (("maximum", "<="), ("exclusiveMaximum", "<")),
    "minLength": (("maxLength", "<="),),
    "minItems": (("maxItems", "<="),),
    "minProperties": (("maxProperties", "<="),),
}
_ENDS: Final = (".", "!", "?", ":", ";", "…")


def with_sentences(description: str | None, sentences: Iterable[str]) -> str | None:
    """Add sentences to a description; one that it already holds is not said twice.

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


def join_descriptions(first: str | None, second: str | None) -> str | None:
    """Join two descriptions, and leave a single one as it is."""
    if not first or not second:
        return first or second
    return with_sentences(first, [second])


def limits(schema: Mapping[str, Any]) -> list[str]:
    """Say what a schema asks of a number, a text, or of how much there is of something."""
    sentences = [_range(schema, *each) for each in _RANGES]
    if is_number(step := schema.get("multipleOf")):
        sentences.append(f"Must be a multiple of {short_json(step)}")
    if isinstance(pattern := schema.get("pattern"), str):
        sentences.append(f"Must match the pattern {pattern}")
    if isinstance(name := schema.get("format"), str):
        sentences.append(f"Format: {name}")
    if schema.get("uniqueItems") is True:
        sentences.append("Items must be unique")
    return [sentence for sentence in sentences if sentence]


def listed(values: Iterable[Any]) -> str:
    """List values for a reader, as JSON."""
    return ", ".join(short_json(value) for value in values)


def choices(schema: Mapping[str, Any]) -> list[str]:
    """Say which values a schema allows, when it lists them."""
    sentences: list[str] = []
    if values := as_list(schema.get("enum")):
        only = len(values) == 1
        sentences.append(
            f"Must be {listed(values)}" if only else f"Must be one of: {listed(values)}"
        )
    if "const" in schema:
        sentences.append(f"Must be {short_json(schema['const'])}")
    return sentences


def _range(
    schema: Mapping[str, Any], start: str, lower: tuple[tuple[str, str], ...], unit: str
) -> str:
    bounds = (*lower, *_UPPER[lower[0][0]])
    parts = [
        f"{sign} {short_json(schema[key])}" for key, sign in bounds if is_number(schema.get(key))
    ]
    return f"{start} {' and '.join(parts)}{unit}" if parts else ""
