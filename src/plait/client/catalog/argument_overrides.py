"""What is changed about single arguments of a tool, and what its schema then looks like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from plait.client.config.raw_value import UNSET

Schema = Mapping[str, Any]

ORIGINAL = "{description}"
"""In a replacement text, this stands for the original."""

_BRANCHES = ("allOf", "anyOf", "oneOf")
_CONDITION = ("if", "then", "else")
_LEFT_TO_THE_SERVER = (
    "not",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "examples",
    "default",
)
"""Where these speak of a changed argument, they are not shown; the server still checks them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentOverride:
    """What is changed about one argument."""

    hide: bool = False
    """Whether the model sees nothing of it, and cannot set it."""

    value: Any = field(default=UNSET, repr=False)
    """Sent with every call, and hidden: a constant, or a function of the call's context."""

    default: Any = field(default=UNSET, repr=False)
    """Sent when the model leaves the argument out: a constant, or a function as for `value`."""

    description: str | None = None

    name: str | None = None
    """What the model calls it."""

    @property
    def hidden(self) -> bool:
        """Whether the model sees nothing of it."""
        return self.hide or self.value is not UNSET

    @property
    def filled_in(self) -> bool:
        """Whether a call without it is complete."""
        return self.value is not UNSET or self.default is not UNSET


_UNCHANGED = ArgumentOverride()

Arguments = Mapping[str, ArgumentOverride]
"""Overrides by the names that the server uses."""


def declared_arguments(schema: Schema) -> dict[str, None]:
    """Name the arguments that a schema speaks of, in its branches too, in their order."""
    names: dict[str, None] = dict.fromkeys(_schema(schema.get("properties")))
    for inner in _inner_schemas(schema, (*_BRANCHES, *_CONDITION)):
        names |= declared_arguments(inner)
    return names


def required_arguments(schema: Schema) -> dict[str, None]:
    """Name the arguments that every call must have."""
    names: dict[str, None] = dict.fromkeys(_strings(schema.get("required")))
    for inner in _inner_schemas(schema, ("allOf",)):
        names |= required_arguments(inner)
    return names


def takes_argument(schema: Schema, name: str) -> bool:
    """Say whether a server would take the argument: it names it, or may well not mind it."""
    named = name in declared_arguments(schema) or name in required_arguments(schema)
    return named or "$ref" in schema or bool(schema.get("additionalProperties"))


def shown_names(schema: Schema, arguments: Arguments) -> dict[str, str]:
    """Map each declared argument that the model sees to its name there."""
    return {
        name: shown_name(name, arguments)
        for name in declared_arguments(schema)
        if not _rule(name, arguments).hidden
    }


def shown_name(name: str, arguments: Arguments) -> str:
    """Return what the model calls an argument."""
    return _rule(name, arguments).name or name


def shown_schema(schema: Schema, arguments: Arguments) -> Schema:
    """Return the schema that the model sees; whatever it accepts less strictly, the server checks.

    The same object comes back if nothing of it changes.
    """
    declared = declared_arguments(schema)
    rules = {
        name: rule
        for name, rule in arguments.items()
        if rule != _UNCHANGED
        and (name in declared or (rule.hidden and _mentions(schema, frozenset({name}))))
    }
    return _reshaped(schema, rules) if rules else schema


def _reshaped(schema: Schema, rules: Arguments) -> dict[str, Any]:
    changed = frozenset(
        name for name, rule in rules.items() if rule.hidden or rule.filled_in or rule.name
    )
    shaped = dict(schema)
    if "properties" in schema:
        shaped["properties"] = {
            shown_name(name, rules): _shown_property(inner, _rule(name, rules))
            for name, inner in _schema(schema["properties"]).items()
            if not _rule(name, rules).hidden
        }
    if "required" in schema:
        shaped["required"] = _still_required(_strings(schema["required"]), rules)
        if not shaped["required"]:
            del shaped["required"]
    if any(_mentions(schema.get(keyword), changed) for keyword in _CONDITION):
        _drop(shaped, _CONDITION)
    _drop(shaped, (word for word in _LEFT_TO_THE_SERVER if _mentions(schema.get(word), changed)))
    for keyword in _BRANCHES:
        if isinstance(schema.get(keyword), list):
            shaped[keyword] = [
                _reshaped(cast("Schema", inner), rules) if isinstance(inner, Mapping) else inner
                for inner in schema[keyword]
            ]
    if "oneOf" in shaped and _mentions(schema["oneOf"], changed):
        # Without what tells them apart, several branches may fit.
        branches = shaped.pop("oneOf")
        shaped.setdefault("anyOf", branches)
    return shaped


def _shown_property(inner: object, rule: ArgumentOverride) -> object:
    if inner is False or rule == ArgumentOverride(name=rule.name):
        return inner
    shown = dict(_schema(inner))
    if rule.description is not None:
        original = str(shown.get("description", ""))
        shown["description"] = replaced_text(rule.description, original)
    if rule.default is not UNSET:
        shown.pop("default", None)
        if not callable(rule.default):
            shown["default"] = rule.default
    return shown


def replaced_text(text: str, original: str) -> str:
    """Return the replacement of a text, which may hold the original."""
    return text.replace(ORIGINAL, original)


def _still_required(required: Iterable[str], rules: Arguments) -> list[str]:
    return [
        shown_name(name, rules)
        for name in required
        if not (_rule(name, rules).hidden or _rule(name, rules).filled_in)
    ]


def _mentions(node: object, names: frozenset[str]) -> bool:
    """Say whether one of the names stands anywhere in a piece of a schema."""
    match node:
        case str():
            return node in names
        case Mapping():
            entries = cast("Mapping[object, object]", node)
            return any(key in names or _mentions(inner, names) for key, inner in entries.items())
        case list():
            return any(_mentions(inner, names) for inner in cast("list[object]", node))
        case _:
            return False


def _inner_schemas(schema: Schema, keywords: Iterable[str]) -> Iterator[Schema]:
    for keyword in keywords:
        found: object = schema.get(keyword)
        several = cast("list[object]", found) if isinstance(found, list) else [found]
        yield from (cast("Schema", one) for one in several if isinstance(one, Mapping))


def _drop(schema: dict[str, Any], keywords: Iterable[str]) -> None:
    for keyword in keywords:
        schema.pop(keyword, None)


def _rule(name: str, rules: Arguments) -> ArgumentOverride:
    return rules.get(name, _UNCHANGED)


def _schema(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}


def _strings(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
