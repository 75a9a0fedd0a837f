"""Overrides of what a model sees of a tool, and the arguments that the server gets."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from plait._support.gather import resolve
from plait._support.suggestions import nearest
from plait.client.catalog.tool import Tool
from plait.client.config.policy import annotation_hint, trait_named
from plait.client.config.raw_value import (
    UNSET,
    Key,
    KeyTable,
    Location,
    Problems,
    RawValue,
    RejectedError,
    Variables,
    read_table,
)
from plait.client.config.value_types import read_bool
from plait.errors import ConfigError
from plait.models.schemas.json_schema import as_list, entries_of, is_list, is_mapping

logger = logging.getLogger("plait.client.catalog")

Schema = Mapping[str, Any]

ORIGINAL = "{description}"
"""Placeholder for the original in a replacement text."""
_BRANCHES = ("allOf", "anyOf", "oneOf")
_CONDITION = ("if", "then", "else")
_SERVER_SIDE_KEYWORDS = (
    *("not", "dependentRequired", "dependentSchemas", "dependencies", "examples", "default"),
)
"""Removed if they mention a changed argument; the server still checks them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentOverride:
    """Changes to one argument."""

    hide: bool = False
    """Whether the model does not see it, and cannot set it."""
    value: Any = field(default=UNSET, repr=False)
    """Sent with every call, and hidden: a constant, or a function of the call's context."""
    default: Any = field(default=UNSET, repr=False)
    """Sent if the model omits the argument: a constant, or a function as for `value`."""
    description: str | None = None
    name: str | None = None
    """Its name for the model."""

    @property
    def hidden(self) -> bool:
        """Whether the model does not see it."""
        return self.hide or self.value is not UNSET

    @property
    def filled_in(self) -> bool:
        """Whether it has a value or a default."""
        return self.value is not UNSET or self.default is not UNSET


_UNCHANGED = ArgumentOverride()

Arguments = Mapping[str, ArgumentOverride]
"""Overrides by the server's argument names."""


def _inner_schemas(schema: Schema, keywords: Iterable[str]) -> Iterator[Schema]:
    for keyword in keywords:
        value = schema.get(keyword)
        yield from filter(is_mapping, as_list(value) or [value])


def declared_arguments(schema: Schema) -> dict[str, None]:
    """Return the arguments that a schema declares, including its branches, in order."""
    names: dict[str, None] = dict.fromkeys(entries_of(schema.get("properties")))
    for inner in _inner_schemas(schema, (*_BRANCHES, *_CONDITION)):
        names |= declared_arguments(inner)
    return names


def required_arguments(schema: Schema) -> dict[str, None]:
    """Return the arguments that every call must have."""
    listed = as_list(schema.get("required"))
    names = dict.fromkeys(name for name in listed if isinstance(name, str))
    for inner in _inner_schemas(schema, ("allOf",)):
        names |= required_arguments(inner)
    return names


def _shown_names(schema: Schema, arguments: Arguments) -> dict[str, str]:
    """Map each visible argument to its name for the model."""
    rules = {name: arguments.get(name, _UNCHANGED) for name in declared_arguments(schema)}
    return {name: rule.name or name for name, rule in rules.items() if not rule.hidden}


def _with_rules(schema: Schema, rules: Arguments) -> dict[str, Any]:
    """Return the schema that the model sees, which may be less strict than the server's."""
    changed = frozenset(
        name for name, rule in rules.items() if rule.hidden or rule.filled_in or rule.name
    )
    changed_schema = dict(schema)
    if "properties" in schema:
        shown: dict[str, object] = {}
        for name, inner in entries_of(schema["properties"]).items():
            rule = rules.get(name, _UNCHANGED)
            if not rule.hidden:
                shown[rule.name or name] = _shown_property(inner, rule)
        changed_schema["properties"] = shown
    required: list[str] = []
    for name in as_list(changed_schema.pop("required", None)):
        rule = rules.get(name, _UNCHANGED) if isinstance(name, str) else None
        if rule is not None and not (rule.hidden or rule.filled_in):
            required.append(rule.name or name)
    if required:
        changed_schema["required"] = required
    dropped = [word for word in _SERVER_SIDE_KEYWORDS if _mentions(schema.get(word), changed)]
    if any(_mentions(schema.get(keyword), changed) for keyword in _CONDITION):
        dropped += _CONDITION
    for keyword in dropped:
        changed_schema.pop(keyword, None)
    for keyword in _BRANCHES:
        if isinstance(schema.get(keyword), list):
            changed_schema[keyword] = [
                _with_rules(inner, rules) if is_mapping(inner) else inner
                for inner in schema[keyword]
            ]
    if "oneOf" in changed_schema and _mentions(schema["oneOf"], changed):
        # Without their discriminator, several branches may match.
        branches = changed_schema.pop("oneOf")
        changed_schema.setdefault("anyOf", branches)
    return changed_schema


def _shown_property(inner: object, rule: ArgumentOverride) -> object:
    if inner is False or rule == ArgumentOverride(name=rule.name):
        return inner
    shown = dict(entries_of(inner))
    if rule.description is not None:
        original = str(shown.get("description", ""))
        shown["description"] = rule.description.replace(ORIGINAL, original)
    if rule.default is not UNSET:
        shown.pop("default", None)
        if not callable(rule.default):
            shown["default"] = rule.default
    return shown


def _mentions(node: object, names: frozenset[str]) -> bool:
    if is_mapping(node):
        return any(key in names or _mentions(inner, names) for key, inner in node.items())
    if is_list(node):
        return any(_mentions(inner, names) for inner in node)
    return isinstance(node, str) and node in names


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOverride:
    """Changes to one tool; `None` keeps the original."""

    name: str | None = None
    """Used without the server's prefix, but made valid and unique."""
    description: str | None = None
    """`{description}` in it is replaced by the original."""
    title: str | None = None
    arguments: Mapping[str, ArgumentOverride] = field(default_factory=dict[str, ArgumentOverride])
    """By the server's argument names."""
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Annotations that replace the server's; `None` removes one."""
    input_schema: Mapping[str, Any] | None = None
    """Replaces the server's schema for the model; `arguments` are applied to it."""


def override_for(overrides: Mapping[str, ToolOverride], tool: Tool) -> ToolOverride | None:
    """Find the override of a tool: under `server/tool`, under `tool`, or under a glob.

    Globs with a slash come before others; of several of a kind, the first counts.
    """
    for key in (tool.full_name, tool.wire_name):
        if key in overrides:
            return overrides[key]
    by_kind = sorted(overrides, key=lambda key: "/" not in key)
    return next((overrides[key] for key in by_kind if tool.is_called(key)), None)


def apply_override(tool: Tool, override: ToolOverride) -> Tool:
    """Return the tool as the model sees it; overrides of unknown arguments are ignored."""
    required = required_arguments(tool.wire_schema)
    for name, rule in override.arguments.items():
        if name in required and rule.hidden and not rule.filled_in:
            raise ConfigError(
                f'{tool.full_name}: the argument "{name}" is hidden, but the server requires it '
                "(set a value or a default)",
                server=tool.server,
            )
    schema = tool.wire_schema if override.input_schema is None else override.input_schema
    shown = _shown_names(schema, override.arguments)
    for name, times in Counter(shown.values()).items():
        if times > 1:
            claimants = ", ".join(f'"{one}"' for one, other in shown.items() if other == name)
            raise ConfigError(
                f'{tool.full_name}: the arguments {claimants} would all be called "{name}" '
                "(choose another name for one of them)",
                server=tool.server,
            )
    declared = declared_arguments(schema)
    rules = {
        name: rule
        for name, rule in override.arguments.items()
        if rule != _UNCHANGED
        and (name in declared or (rule.hidden and _mentions(schema, frozenset({name}))))
    }
    description = tool.description
    if override.description is not None:
        description = override.description.replace(ORIGINAL, tool.description)
    hints = {_hint_name(name): value for name, value in override.annotations.items()}
    merged = {**tool.annotations, **hints}
    return replace(
        tool,
        name=tool.name if override.name is None else override.name,
        title=tool.title if override.title is None else override.title,
        description=description,
        # The same object where nothing changes.
        input_schema=_with_rules(schema, rules) if rules else schema,
        annotations={name: value for name, value in merged.items() if value is not None},
        override=override,
    )


def override_problems(tool: Tool, override: ToolOverride) -> tuple[str, ...]:
    """Describe what in an override does not match the tool, though it can be applied."""
    declared = declared_arguments(tool.wire_schema)
    problems: list[str] = []
    for name in override.arguments:
        if name not in declared:
            meant = nearest(name, declared)
            hint = f' (did you mean "{meant}"?)' if meant else ""
            problems.append(f'the override is for an argument "{name}", which is not there{hint}')
    if override.input_schema is not None:
        filled = {name for name, rule in override.arguments.items() if rule.filled_in}
        sent = filled.union(_wire_names(tool, override).values())
        problems += (
            f'the server requires "{name}", which the schema of the override does not have'
            for name in required_arguments(tool.wire_schema)
            if name not in sent
        )
    return tuple(problems)


async def complete_arguments(
    tool: Tool, arguments: Mapping[str, Any], context: object = None
) -> dict[str, Any]:
    """Convert the model's arguments into the server's.

    Names are mapped back, and values and defaults are filled in; a function gets the context if
    it takes an argument. What the model sends for a hidden argument is dropped.
    """
    override = tool.override
    if override is None:
        return dict(arguments)
    wire_names = _wire_names(tool, override)
    hidden = {name for name, rule in override.arguments.items() if rule.hidden}
    known = wire_names.keys() | hidden
    completed = {name: value for name, value in arguments.items() if name not in known}
    completed |= {wire_names[name]: arguments[name] for name in arguments if name in wire_names}
    return await _filled_in(tool, completed, override.arguments, context)


async def arguments_for_fallback(
    tool: Tool, arguments: Mapping[str, Any], primary: Tool | None, context: object = None
) -> dict[str, Any]:
    """Convert arguments of a server's tool into those of the same tool of its fallback server.

    Each gets only the hidden values of its own overrides. A value that the same rule gave for the
    first server is kept: it may be the key by which both know the call.
    """
    hidden, before = (
        {name: rule for name, rule in override.arguments.items() if rule.hidden}
        for override in (
            (one.override if one is not None else None) or ToolOverride() for one in (tool, primary)
        )
    )
    changed = {name for name in hidden | before if hidden.get(name) != before.get(name)}
    kept = {name: value for name, value in arguments.items() if name not in changed}
    return await _filled_in(tool, kept, hidden, context)


async def _filled_in(
    tool: Tool, arguments: Mapping[str, Any], rules: Arguments, context: object
) -> dict[str, Any]:
    """Add the values and defaults of arguments that are missing, and that the tool takes."""
    schema, completed = tool.wire_schema, dict(arguments)
    takes_any = "$ref" in schema or bool(schema.get("additionalProperties"))
    named = declared_arguments(schema) | required_arguments(schema)
    for name, rule in rules.items():
        if name in completed or not rule.filled_in or not (takes_any or name in named):
            continue
        value = rule.default if rule.value is UNSET else rule.value
        if callable(value):
            try:
                inspect.signature(value).bind(None)
            except (TypeError, ValueError):  # ValueError: some builtins have no signature
                completed[name] = await resolve(value())
            else:
                completed[name] = await resolve(value(context))
        else:
            # The caller may change the value; the next call must not see that.
            completed[name] = deepcopy(value)
    return completed


def _wire_names(tool: Tool, override: ToolOverride) -> dict[str, str]:
    """Map the names that the model uses to those of the server."""
    schema = tool.wire_schema if override.input_schema is None else override.input_schema
    shown = _shown_names(schema, override.arguments)
    names = {name: wire_name for wire_name, name in shown.items()}
    if override.input_schema is not None:
        # A schema of the user's own may be written with the new names.
        declared = declared_arguments(tool.wire_schema)
        names |= {
            rule.name: wire_name
            for wire_name, rule in override.arguments.items()
            if rule.name in names and wire_name in declared and not rule.hidden
        }
    return names


def _hint_name(spelling: str) -> str:
    trait = trait_named(spelling)
    return spelling if trait is None else f"{trait}_hint"


def read_overrides(overrides: Mapping[str, Any]) -> Mapping[str, ToolOverride]:
    """Read overrides by tool: plain objects, a text for a new description, or `ToolOverride`s."""
    problems = Problems()
    # Variables were replaced when the configuration was read.
    raw = RawValue(overrides, Location(problems, path="tool_overrides"), Variables.of({}))
    checked: dict[str, ToolOverride] = {}
    with suppress(RejectedError):
        checked = raw.read_entries(_read_tool, "an object of overrides, by tool")
    problems.finish(logger)
    return checked


def _read_tool(raw: RawValue) -> ToolOverride:
    if isinstance(raw.value, ToolOverride):
        return raw.value
    if isinstance(raw.value, str):
        return ToolOverride(description=raw.value)
    unwanted = raw.value is None or raw.value is False
    hint = 'to leave the tool out, use "exclude"' if unwanted else None
    return ToolOverride(**read_table(raw, _TOOL_KEYS, "an object or a description", hint))


def _read_argument(raw: RawValue) -> ArgumentOverride:
    if isinstance(raw.value, ArgumentOverride):
        return raw.value
    if raw.value is False:
        return ArgumentOverride(hide=True)
    hint = 'write {"value": …}, {"default": …} or {"description": …}'
    values = read_table(raw, _ARGUMENT_KEYS, "an object, or false to hide it", hint)
    if "value" in values and "default" in values:
        raw.reject("conflict", "has a value and a default", "keep one of them")
    return ArgumentOverride(**values)


def _read_annotations(raw: RawValue) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for name, entry in raw.entries("an object of hints"):
        with suppress(RejectedError):
            if name == "title":
                hints[name] = _read_text(entry)
            elif trait_named(name) is None:
                entry.reject("unknown_key", "is not an annotation", annotation_hint(name))
            else:
                hints[_hint_name(name)] = None if entry.value is None else read_bool(entry)
    return hints


def _read_text(raw: RawValue) -> str:
    return raw.value if isinstance(raw.value, str) else raw.reject_type("a string")


def _read_name(raw: RawValue) -> str:
    text = _read_text(raw)
    if not text.strip():
        raw.reject("empty_value", "must not be empty")
    return text


def _read_schema(raw: RawValue) -> object:
    raw.entries("a JSON schema")
    return raw.value


_ARGUMENT_KEYS = KeyTable(
    [
        Key("hide", read_bool),
        Key("value", attrgetter("value"), takes_null=True),
        Key("default", attrgetter("value"), takes_null=True),
        Key("description", _read_text),
        Key("name", _read_name),
    ],
    noun="changed argument",
)

_TOOL_KEYS = KeyTable(
    [
        Key("name", _read_name),
        Key("description", _read_text),
        Key("title", _read_text),
        Key(
            "arguments",
            lambda raw: raw.read_entries(_read_argument, "an object of overrides, by argument"),
        ),
        Key("annotations", _read_annotations),
        Key("input_schema", _read_schema),
    ],
    noun="tool override",
)
