"""Converting the schema of a tool's arguments for the models of one provider.

References are inlined and broken keywords repaired for all of them; what one refuses is moved to
descriptions. Most take JSON Schema with few exceptions, such as no alternatives at the root; Gemini
and OpenAI's strict mode take small subsets, in which a place has one type, or plain alternatives.

Some schemas name properties only in conditions and alternatives. Read strictly,
`additionalProperties: false` beside them forbids these, and a `oneOf` what fits two of its forms;
servers that publish such schemas take the arguments anyway.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Final, Literal, get_args
from urllib.parse import unquote

from plait._support.bounded_work import TooMuchWorkError, allowed_seconds, take_step
from plait._support.durations import is_finite_number
from plait.models.schemas.describe import (
    Notes,
    ProviderSchema,
    about_union,
    add_sentences,
    join_descriptions,
    notes_for,
    only_needs,
    outline,
    sentences_for,
)
from plait.models.schemas.json_schema import (
    ADDRESSES,
    ANNOTATIONS,
    BOUNDS,
    CONDITION,
    CONSTRAINTS,
    COUNTS,
    DEFINITIONS,
    DIALECT,
    FLAGS,
    HOLD_LIST,
    HOLD_MAP,
    HOLD_SCHEMA,
    HOLD_SCHEMAS,
    HOLD_VALUE,
    MAX_DEPTH_LEVELS,
    NEVER,
    REFERENCES,
    TEXTS,
    TOGETHER,
    TYPES,
    UNIONS,
    Schema,
    allows_anything,
    as_list,
    as_schema,
    canonical,
    distinct,
    entries_of,
    holds_ref,
    is_list,
    is_mapping,
    is_never,
    is_schema,
    json_type,
    map_children,
    narrow_to_type,
    places_in,
    plain,
    plain_size,
    possible_types,
    same,
    shared_if_plain,
    step_into,
    types_of,
    values_of,
)

Profile = Literal["default", "openai", "openai_strict", "anthropic", "gemini"]
"""A family of models, by what it accepts in a schema."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
"""Every profile, by name."""

_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_OPENAI_FLAGS = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
"""Keywords that may be booleans; elsewhere a boolean schema is refused."""
_SHAPE: Final = frozenset(
    {"type", "properties", "required", "items", "prefixItems", "enum"}
    | {"additionalProperties", "unevaluatedProperties"}
)
"""Keywords that are converted, and never just moved to the description."""
_GEMINI_FORMATS: Final = {
    "string": ("date-time", "enum"),
    "integer": ("int32", "int64"),
    "number": ("float", "double"),
}
_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKS_AROUND: Final = re.compile(r"\(\?[=!<]|\\[1-9]|\\k<")
"""Lookaround and back references, which constrained decoding cannot follow."""
_STRICT_NUMBERS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)

MAX_CONVERSION_SECONDS: Final = 0.06
"""Conversions run in event loops, one tool at a time."""
MAX_OBJECT_LEVELS: Final = 10
MAX_PROPERTIES: Final = 5_000
MAX_LISTED_VALUES: Final = 1_000
MAX_NAME_CHARS: Final = 120_000
"""The limits that OpenAI documents for one schema."""

_COMBINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "description": join_descriptions,
    "required": lambda first, second: list(dict.fromkeys([*first, *second])),
    "allOf": lambda first, second: [*first, *second],
    "not": lambda first, second: {"anyOf": [first, second]},
    "uniqueItems": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""Combines two values of a keyword into one that demands both."""
_IN_PLACE: Final = CONDITION | {*UNIONS, "allOf", "dependentSchemas"}
"""Keywords whose schemas apply to the same object."""
MAX_FORMS: Final = 256
"""More alternatives are only described: nobody reads such a long list of arguments."""


def schema_for_provider(schema: object, profile: Profile | None = None) -> ProviderSchema:
    """Convert a schema into one for an object that the models of a profile accept.

    The default profile inlines references and keeps everything else. Any input is accepted; what
    the profile's subset cannot express is moved to descriptions, and noted.
    """
    profile, notes = profile or "default", Notes()
    try:
        with allowed_seconds(MAX_CONVERSION_SECONDS):
            if profile == "default" and (shared := shared_if_plain(schema)) is not None:
                return ProviderSchema(plain(shared))
            converted = _CONVERTERS[profile](cleaned_schema(schema, notes), notes)
    except TooMuchWorkError:
        notes = Notes()
        notes.add("", "too large to be converted, so any arguments are allowed", "size")
        converted = _CONVERTERS[profile]({}, notes)
    return ProviderSchema(converted, notes.all)


def merge_members(schema: Schema, depth: int = 0) -> Schema:
    """Return the schema with the members of `allOf` merged into it."""
    if "allOf" not in schema or depth > MAX_DEPTH_LEVELS:
        return schema
    # `unevaluated…` of the schema itself is about what is left when its members are merged.
    own = {key: value for key, value in schema.items() if key != "allOf"}
    merged = {key: value for key, value in own.items() if not key.startswith("unevaluated")}
    for member in schema["allOf"]:
        merged = merge(merged, merge_members(as_schema(member), depth + 1))
    return {**own, **merged}


def merge(first: Any, second: Any) -> Schema:
    """Return one schema for the values that fit both; where they only comment, the first wins.

    What one schema cannot express, such as two patterns, stays in `allOf`.
    """
    take_step()
    first, second = as_schema(first), as_schema(second)
    if not first or not second or same(first, second):
        return first or second
    if is_never(first) or is_never(second):
        return NEVER
    for group in TOGETHER:
        named = [group & one.keys() for one in (first, second)]
        if all(named) and named != [{"properties"}, {"properties"}]:
            return {**first, "allOf": [*as_list(first.get("allOf")), second]}
    merged, behind = dict(first), dict[str, Any]()
    for key, value in second.items():
        if key not in merged:
            merged[key] = value
        elif same(merged[key], value):
            continue
        elif key == "properties":
            known = merged[key], value
            merged[key] = {
                name: merge(*(each.get(name, True) for each in known))
                for name in {**known[0], **known[1]}
            }
        elif key == "type":
            types = types_of(first), types_of(second)
            kinds = [
                kind
                for kind in dict.fromkeys((*types[0], *types[1]))
                if all(kind in one or (kind == "integer" and "number" in one) for one in types)
            ]
            merged |= {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else NEVER
        elif key in _COMBINED:
            merged[key] = _COMBINED[key](merged[key], value)
        elif key in CONSTRAINTS:
            behind[key] = value
    return {**merged, "allOf": [*as_list(merged.get("allOf")), behind]} if behind else merged


def object_root(schema: Schema, notes: Notes) -> Schema:
    """Return the schema of an object with properties: arguments are never anything else."""
    named = types_of(schema)
    if named and "object" not in named:
        notes.add("", f"arguments are an object, not {' or '.join(named)}", "invalid")
    return {**schema, "type": "object", "properties": as_schema(schema.get("properties"))}


def plain_root(schema: Schema, notes: Notes, *, bare: bool = False) -> Schema:
    """Return an object schema without `allOf`, `anyOf` and `oneOf` at the root.

    Alternatives become one object with the arguments of all; the description says which belong
    together. With `bare`, the root has no `enum`, `const` and `not` either.
    """
    schema = object_root(schema, notes)
    own = schema["properties"]
    root = merge_members(schema)
    for key in UNIONS:
        if key in root:
            root = _without_union(root, key, notes)
    if is_never(root):
        root = {key: value for key, value in root.items() if key != "not"}
        notes.add("", "no arguments can fit the schema", "invalid")
    root = object_root(root, notes)
    known = {name: rule for name, rule in root["properties"].items() if rule or name in own}
    root = with_mentioned({**root, "properties": known}, mentions(schema))
    if schema.get("additionalProperties") is False and root["properties"].keys() > own.keys():
        notes.add("", "a closed object takes what is named beside it", "closed")
    refused = ("allOf", *UNIONS, *(("enum", "const", "not") if bare else ()))
    moved = {key: root.pop(key) for key in refused if key in root}
    if "unevaluatedProperties" in root:
        # Nothing is left beside it whose properties it would spare.
        root.setdefault("additionalProperties", root.pop("unevaluatedProperties"))
    if not moved:
        return root
    notes.add_moved("", moved)
    return add_sentences(root, sentences_for(moved))


def _without_union(node: Schema, key: str, notes: Notes) -> Schema:
    """Replace alternatives at the root by the properties of all, and say what each needs."""
    branches: list[Any] = node[key]
    rest = {name: value for name, value in node.items() if name != key}
    forms = [
        form
        for form in (merge_members(as_schema(branch)) for branch in branches)
        if not is_never(form) and "object" in (types_of(form) or ["object"])
    ]
    if len(forms) == 1:
        return merge_members({**rest, "allOf": [*as_list(rest.get("allOf")), forms[0]]})
    if not forms or len(forms) > MAX_FORMS or only_needs(branches):
        notes.add_moved("", [key])
        return add_sentences(rest, [about_union(key, branches)])
    text = f"{key} became one object; its description says what goes together"
    notes.add("", text, "alternatives")
    texts: dict[str, None] = {}
    for form in forms:
        comment = form.get("description") or form.get("title")
        texts[f"{outline(form)} ({comment})" if comment else outline(form)] = None
    shapes = [as_schema(form.get("properties")) for form in forms]
    own = as_schema(rest.get("properties"))
    united = {
        name: merge(own.get(name, True), _either(one[name] for one in shapes if name in one))
        for name in dict.fromkeys(name for one in shapes for name in one)
        if name not in own or all(name in one for one in shapes)
    }
    required = [as_list(form.get("required")) for form in forms]
    always = [name for name in required[0] if all(name in names for names in required)]
    rest["properties"] = {**own, **united}
    if needed := list(dict.fromkeys((*as_list(rest.get("required")), *always))):
        rest["required"] = needed
    if all(form.get("additionalProperties") is False for form in forms):
        rest["additionalProperties"] = False
    return add_sentences(rest, [f"Use one of these forms: {'; '.join(texts)}"])


def _either(variants: Iterable[Any]) -> Schema:
    """Return one schema for what fits any of several, without those that say nothing."""
    kinds = [kind for kind in map(as_schema, distinct(variants)) if kind]
    if len(kinds) < 2:
        return kinds[0] if kinds else {}
    only_values = {"type", "enum", "const", *ANNOTATIONS}
    lists = [values_of(kind) if kind.keys() <= only_values else None for kind in kinds]
    if None not in lists:
        values = distinct(value for listed in lists for value in listed or [])
        types = list(dict.fromkeys(map(json_type, values)))
        return {"type": types[0] if len(types) == 1 else types, "enum": values}
    return {"anyOf": kinds}


def mentions(
    schema: Schema, root: Schema | None = None, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the properties that conditions and alternatives name.

    References into `root` are followed, but not those inside of their targets.
    """
    for key, part in schema.items():
        if key not in _IN_PLACE or depth > MAX_DEPTH_LEVELS:
            continue
        inside = as_schema(part).values() if key == "dependentSchemas" else as_list(part) or [part]
        for inner in map(as_schema, inside):
            found, beyond = inner, root
            if root and "$ref" in inner:
                found, beyond = root, None
                for step in str(inner["$ref"]).removeprefix("#/").split("/"):
                    name = step.replace("~1", "/").replace("~0", "~")
                    found = as_schema(found.get(name))
            for name, rule in as_schema(found.get("properties")).items():
                yield name, {} if key == "if" else rule
            yield from ((name, {}) for name in as_list(found.get("required")))
            yield from mentions(found, beyond, depth + 1)


def with_mentioned(schema: Schema, others: Iterable[tuple[str, Any]] = ()) -> Schema:
    """Return an object schema that has a property for every name in it."""
    own = as_schema(schema.get("properties"))
    rules: dict[str, list[Any]] = {name: [] for name in as_list(schema.get("required"))}
    for name, rule in (*mentions(schema), *others):
        rules.setdefault(name, []).append(rule)
    unknown = as_schema(schema.get("additionalProperties") or True)
    missing = {
        name: _either(found) if found else unknown
        for name, found in rules.items()
        if name not in own
    }
    return {**schema, "properties": {**own, **missing}} if missing else schema


def relaxed_schema(schema: Schema) -> Schema:
    """Return a schema without conditions, in which closed objects take what is named beside them.

    Of `oneOf`, several alternatives may fit. Servers that publish such schemas read them so.
    """
    return _relaxed(schema, root=schema, around={})


def _relaxed(schema: Any, _step: str = "", *, root: Schema, around: Schema) -> Any:
    if not is_schema(schema):
        return schema
    names = {**around, **as_schema(schema.get("properties"))}
    changed: Schema = {"not": schema["not"]} if "not" in schema else {}
    for key, value in schema.items():
        # One form of a union does not know the others.
        rest: Schema = {**schema, key: None} if key in UNIONS else schema
        known = {**names, **dict(mentions(rest, root))} if key in _IN_PLACE else {}
        place = "properties" if key in DEFINITIONS else key
        visit = partial(_relaxed, root=root, around=known)
        changed.setdefault(key, map_children({place: value}, visit)[place])
    all_names = {**names, **dict(mentions(schema, root))}
    own = as_schema(changed.get("properties"))
    if schema.get("additionalProperties") is False and len(all_names) > len(own):
        # Models that must fill in every property write null for those that they leave out.
        rule: Schema = {"not": {"type": "null"}}
        changed["properties"] = {**dict.fromkeys(all_names, rule), **own}
    if "oneOf" in changed:
        changed["allOf"] = [*as_list(changed.get("allOf")), {"anyOf": changed.pop("oneOf")}]
    return {key: value for key, value in changed.items() if key not in CONDITION}


def _for_anthropic(schema: Schema, notes: Notes) -> Schema:
    """Remove alternatives at the top level, and note property names that may be refused.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools
    """
    root = plain_root(schema, notes)
    for path, place in places_in(root):
        for name in as_schema(place.get("properties")):
            if not _ANTHROPIC_NAME.fullmatch(name):
                # The server knows the argument by no other name, so it stays.
                text = f"the name {name!r} may be refused: letters, digits and _.- only"
                notes.add(path, text, "names")
    return root


def _for_openai(schema: Schema, notes: Notes) -> Schema:
    """Describe combinators, `enum`, `const` and `not` of the top level; give arrays `items`.

    https://developers.openai.com/api/docs/guides/function-calling
    """
    return _with_items(plain_root(schema, notes, bare=True))


def _with_items(schema: Schema) -> Schema:
    if schema.get("items") is False:
        # A boolean is refused there, and `maxItems` means the same.
        first = len(as_list(schema.get("prefixItems")))
        schema = {**schema, "items": {}, "maxItems": min(first, schema.get("maxItems", first))}
    changed = map_children(schema, lambda inner, _: _with_items(as_schema(inner)))
    for key in _OPENAI_FLAGS:
        if isinstance(schema.get(key), bool):
            changed[key] = schema[key]
    if "array" in types_of(changed):
        changed.setdefault("items", {})
    return changed


class _Narrowing(ABC):
    """Converts schemas into a subset in which each place has one type, or plain alternatives."""

    keeps: ClassVar[dict[str, frozenset[str]]]
    """The keywords of each type that stay unchanged."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    @abstractmethod
    def convert_object(self, node: Schema, path: str, level: int) -> Schema:
        """Convert an object; `level` counts the objects around its properties."""

    @abstractmethod
    def nullable(self, schema: Schema) -> Schema:
        """Return a converted schema that allows null, too."""

    @abstractmethod
    def union(self, members: list[Schema], about: Schema) -> Schema:
        """Join several converted schemas, none of which is null."""

    @abstractmethod
    def may_keep(self, key: str, value: Any, kind: str) -> bool:
        """Return whether this value of a keyword, of those that are kept, can be passed on."""

    def convert(self, schema: Any, path: str, level: int) -> Schema | None:
        """Convert a schema; `None` if no value can fit it. `level` counts the objects around it."""
        take_step()
        node = merge_members(as_schema(schema))
        if is_never(node):
            return None
        about = {key: value for key, value in node.items() if key not in CONSTRAINTS}
        base = {key: value for key, value in node.items() if key in CONSTRAINTS}
        key = next((key for key in UNIONS if key in base), None)
        if key is None:
            kinds = possible_types(node)
            if len(kinds) == 1:
                return self._convert_one(narrow_to_type(node, kinds[0]), path, level)
            if not kinds:
                is_open = node.keys().isdisjoint({"type", "enum", "const"})
                return self._anything(node, path) if is_open else None
            branches: list[Any] = [narrow_to_type(base, kind) for kind in kinds]
        else:
            branches = base.pop(key)
            if key == "anyOf" and any(map(allows_anything, branches)):
                # Beside one that allows anything, the others restrict nothing.
                return self.convert({**about, **base}, path, level)
            # No subset lets types or properties stand beside alternatives. They are copied into
            # these; what cannot be copied is kept, and the alternatives are described.
            apart = all(base.keys() & as_schema(branch).keys() <= {"type"} for branch in branches)
            if only_needs(branches) or not apart:
                self.notes.add_moved(path, [key])
                rest = add_sentences({**about, **base}, [about_union(key, branches)])
                if base.get("type") == "object" or "properties" in base:
                    rest = with_mentioned(rest, mentions(node))
                return self.convert(rest, path, level)
            if key == "oneOf":
                text = "oneOf became anyOf: several alternatives may fit at once"
                self.notes.add(path, text, "alternatives")
            branches = [merge(base, branch) for branch in branches]
        converted: list[Schema] = []
        for index, branch in enumerate(branches):
            place = step_into(path, f".{key or 'anyOf'}[{index}]")
            if (one := self.convert(branch, place, level)) is not None:
                # Gemini refuses a description beside the alternatives inside of an alternative.
                converted += one["anyOf"] if one.keys() == {"anyOf"} else [one]
        if not converted:
            return None
        # Different schemas can become the same one, where the subset cannot tell them apart.
        members = distinct(one for one in converted if one.get("type") != "null")
        about = self.commented({}, about, path, [])
        if not members:
            return add_annotations(converted[0], about)
        joined = self.union(members, about) if members[1:] else add_annotations(members[0], about)
        has_null = any(one.get("type") == "null" for one in converted)
        return self.nullable(joined) if has_null else joined

    def _convert_one(self, node: Schema, path: str, level: int) -> Schema:
        kind: str = node["type"]
        if kind == "object":
            return self.convert_object(with_mentioned(node), path, level + 1)
        if kind != "array":
            return self.finish({"type": kind}, node, path)
        # The items of a tuple fit any of its places.
        first, rest = as_list(node.get("prefixItems")), node.get("items", {})
        most = node.get("maxItems", len(first) + 1)
        ends = is_never(rest) or most <= len(first)
        places = distinct(first if ends else [*first, rest])
        if ends:
            node = {**node, "maxItems": min(len(first), most)}
        words: list[str] = []
        if len(places) > 1:
            drawn: Schema = {"prefixItems": first, "items": False if ends else rest}
            words = [f"Items in this order: {outline(drawn)}"]
            self.notes.add(path, "the places in a list moved to the description", "limits")
        inside = step_into(path, "[]")
        items = self.convert({"anyOf": places} if places[1:] else [*places, {}][0], inside, level)
        started = {"type": "array", "items": items or self._anything({}, inside)}
        return self.finish(started, node, path, words)

    def convert_properties(self, node: Schema, path: str, level: int) -> Schema:
        """Convert the properties of an object, except those that no value fits."""
        others = node.get("additionalProperties")
        if others is True or is_schema(others):
            self.notes.add(path, "other properties cannot be passed", "closed")
        properties: Schema = {}
        for name, inner in as_schema(node.get("properties")).items():
            place = step_into(path, f".{name}")
            converted = self.convert(inner, place, level)
            if converted is None:
                self.notes.add(place, "no value is valid, left out", "alternatives")
            else:
                properties[name] = converted
        return properties

    def finish(
        self, started: Schema, node: Schema, path: str, sentences: Iterable[str] = ()
    ) -> Schema:
        """Add the keywords that can be kept to a converted schema, and describe the rest."""
        done, moved = dict(started), dict[str, Any]()
        for key, value in node.items():
            if key in CONSTRAINTS and (key == "enum" or key not in _SHAPE):
                keep = self.may_keep(key, value, started.get("type", ""))
                (done if keep else moved)[key] = value
        if moved:
            self.notes.add_moved(path, moved)
        return self.commented(done, node, path, [*sentences, *sentences_for(moved)])

    def commented(self, done: Schema, node: Schema, path: str, sentences: Iterable[str]) -> Schema:
        """Copy title and description, with further sentences."""
        for key in node:
            if key not in CONSTRAINTS and key not in ANNOTATIONS:
                self.notes.add(path, f"{key} left out", "keywords")
        about = {key: node[key] for key in ("title", "description") if key in node}
        return add_sentences({**done, **about}, [*sentences, *notes_for(node)])

    def object_as_text(self, node: Schema, path: str) -> Schema:
        """Convert an object into a JSON string, since the subset cannot describe its content."""
        note = "an object that cannot be described, written as a JSON string"
        self.notes.add(path, note, "json_text")
        drawing = outline({key: value for key, value in node.items() if key not in ANNOTATIONS})
        sentence = "A JSON object, written as a string"
        if drawing != "object":
            sentence += f": {drawing}"
        # The drawing tells these already.
        rest = {key: node[key] for key in node if key not in _SHAPE | {"patternProperties"}}
        return self.finish({"type": "string"}, rest, path, [sentence])

    def _anything(self, node: Schema, path: str) -> Schema:
        self.notes.add(path, "any value, but objects and lists only as JSON text", "json_text")
        about = self.finish({}, node, path, ["Any value; an object or a list as JSON text"])
        scalars: list[Schema] = [{"type": kind} for kind in ("string", "number", "boolean")]
        return self.nullable(self.union(scalars, about))


def add_annotations(schema: Schema, about: Schema) -> Schema:
    """Return the schema with further annotations; the descriptions are joined."""
    text = join_descriptions(about.get("description"), schema.get("description"))
    return add_sentences({**schema, **about, "description": text}, [])


def for_gemini(schema: Schema, notes: Notes) -> Schema:
    """Return the schema within the subset of OpenAPI 3.0 that function declarations accept.

    The fields: https://ai.google.dev/api/caching#Schema
    Beside alternatives nothing else may stand, an object has properties, only strings can be
    enumerated, and null is expressed by `nullable`.
    """
    root = narrow_to_type(plain_root(schema, notes, bare=True), "object")
    # The title of the root is the name of a class, which does not help a model.
    root.pop("title", None)
    return _Gemini(notes).with_properties(root, "", 1)


class _Gemini(_Narrowing):
    keeps: ClassVar[dict[str, frozenset[str]]] = {
        "string": frozenset({"minLength", "maxLength", "pattern", "format", "enum"}),
        "number": frozenset({"minimum", "maximum", "format"}),
        "integer": frozenset({"minimum", "maximum", "format"}),
        "array": frozenset({"minItems", "maxItems"}),
        "object": frozenset({"minProperties", "maxProperties"}),
    }

    def convert_object(self, node: Schema, path: str, level: int) -> Schema:
        if node.get("properties"):
            converted = self.with_properties(node, path, level)
            if converted["properties"]:
                return converted
        return self.object_as_text(node, path)

    def with_properties(self, node: Schema, path: str, level: int) -> Schema:
        properties = self.convert_properties(node, path, level)
        started: Schema = {"type": "object", "properties": properties}
        if required := [name for name in as_list(node.get("required")) if name in properties]:
            started["required"] = required
        return self.finish(started, node, path)

    def may_keep(self, key: str, value: Any, kind: str) -> bool:
        if key == "format":
            return value in _GEMINI_FORMATS.get(kind, ())
        # The API refuses an empty string among the values.
        return key in self.keeps.get(kind, ()) and not (key == "enum" and "" in value)

    def commented(self, done: Schema, node: Schema, path: str, sentences: Iterable[str]) -> Schema:
        if "description" not in node and "title" in node:
            node = {**node, "description": node["title"]}
        untitled = {key: value for key, value in node.items() if key != "title"}
        return super().commented(done, untitled, path, sentences)

    def nullable(self, schema: Schema) -> Schema:
        if "anyOf" not in schema:
            return schema if schema["type"] == "null" else {**schema, "nullable": True}
        first, *others = schema["anyOf"]
        return {**schema, "anyOf": [{**first, "nullable": True}, *others]}

    def union(self, members: list[Schema], about: Schema) -> Schema:
        # No keyword is allowed beside `anyOf`, so each alternative gets the description.
        description = {"description": about.get("description")}
        return {"anyOf": [add_annotations(member, description) for member in members]}


def for_openai_strict(schema: Schema, notes: Notes) -> Schema:
    """Return the schema within the subset of strict mode: objects are closed, all is required.

    The subset: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    An optional argument becomes one that may be null; the null is dropped before the server sees
    it.
    """
    root = narrow_to_type(plain_root(schema, notes, bare=True), "object")
    strict = _Strict(notes).closed(root, "", 1)
    places = [place for _, place in places_in(strict)]
    names = [name for place in places for name in as_schema(place.get("properties"))]
    values = [value for place in places for value in as_list(place.get("enum"))]
    texts = [value for value in values if json_type(value) == "string"]
    for count, most, what in (
        (len(names), MAX_PROPERTIES, "properties"),
        (len(values), MAX_LISTED_VALUES, "listed values"),
        (sum(map(len, names + texts)), MAX_NAME_CHARS, "characters in names and listed values"),
    ):
        if count > most:
            notes.add("", f"may be refused: {count} {what}, more than {most}", "size")
    return strict


class _Strict(_Narrowing):
    keeps: ClassVar[dict[str, frozenset[str]]] = {
        "string": frozenset({"pattern", "format", "enum"}),
        "number": _STRICT_NUMBERS | {"enum"},
        "integer": _STRICT_NUMBERS | {"enum"},
        "boolean": frozenset({"enum"}),
        "array": frozenset({"minItems", "maxItems"}),
    }

    def convert_object(self, node: Schema, path: str, level: int) -> Schema:
        is_map = not node.get("properties") and (
            node.get("additionalProperties") is not False or "patternProperties" in node
        )
        if is_map or level > MAX_OBJECT_LEVELS:
            return self.object_as_text(node, path)
        return self.closed(node, path, level)

    def closed(self, node: Schema, path: str, level: int) -> Schema:
        required = as_list(node.get("required"))
        properties = {
            name: inner if name in required else self.nullable(inner)
            for name, inner in self.convert_properties(node, path, level).items()
        }
        started: Schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return self.finish(started, node, path)

    def may_keep(self, key: str, value: Any, kind: str) -> bool:
        if key == "format" and kind == "string":
            return value in _STRICT_FORMATS
        if key == "pattern" and _LOOKS_AROUND.search(value):
            return False
        return key in self.keeps.get(kind, ())

    def nullable(self, schema: Schema) -> Schema:
        if "anyOf" in schema:
            if any(member.get("type") == "null" for member in schema["anyOf"]):
                return schema
            return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
        kind = schema["type"]
        if isinstance(kind, list) or kind == "null":
            return schema
        if kind in ("object", "array"):
            about = {key: schema[key] for key in ("title", "description") if key in schema}
            bare = {key: value for key, value in schema.items() if key not in about}
            return {"anyOf": [bare, {"type": "null"}], **about}
        with_null: Schema = {**schema, "type": [kind, "null"]}
        if "enum" in schema:
            with_null["enum"] = [*schema["enum"], None]
        return with_null

    def union(self, members: list[Schema], about: Schema) -> Schema:
        """Join alternatives, with the discriminator of objects first.

        The decoder looks at the first key: the API refuses alternatives with the same one, unless
        its values differ.
        """
        ordered: list[Schema] = []
        for member in members:
            properties = as_schema(member.get("properties"))
            others = [
                other["properties"]
                for other in members
                if other is not member and other.get("type") == "object"
            ]
            every = (properties, *others)
            first: str | None = None
            # An object differs from all others by having a property, or by the values of one.
            for name in properties if others else ():
                listed_values = [
                    set(map(canonical, as_list(known.get(name, {}).get("enum")))) for known in every
                ]
                if all(listed_values) and all(map(listed_values[0].isdisjoint, listed_values[1:])):
                    first = name
                    break
                if first is None and not any(name in known for known in others):
                    first = name
            if first is not None:
                properties = {first: properties[first], **properties}
            ordered.append(
                {**member, "properties": properties, "required": list(properties)}
                if first is not None
                else member
            )
        return {"anyOf": ordered, **about}


_CONVERTERS: Final[dict[Profile, Callable[[Schema, Notes], Schema]]] = {
    "default": object_root,
    "openai": _for_openai,
    "openai_strict": for_openai_strict,
    "anthropic": _for_anthropic,
    "gemini": for_gemini,
}


Node = Mapping[str, Any]

MAX_INLINED_SCHEMAS: Final = 1_000
"""Nested references can expand beyond memory; no model reads this much."""


def inline_refs(schema: object) -> ProviderSchema:
    """Inline every reference in a schema, and keep everything else.

    A recursive schema is left open at that point, with a description.
    Nothing is ever fetched: what is not in the schema allows anything.
    """
    notes = Notes()
    return ProviderSchema(_inlined(schema, notes, cleaned=False), notes.all)


def cleaned_schema(schema: object, notes: Notes) -> Schema:
    """Inline every reference, and convert all keywords into valid ones of JSON Schema 2020-12."""
    return _inlined(schema, notes, cleaned=True)


def _inlined(schema: object, notes: Notes, *, cleaned: bool) -> Schema:
    if is_mapping(schema):
        schema = _Inliner(schema, notes, cleaned).write(schema, "", ())
    elif not isinstance(schema, bool):
        notes.add("", "not a schema, so anything is allowed", "invalid")
    return as_schema(schema)


class _Inliner:
    """Writes a document without its references, which are JSON pointers into it.

    No known server refers to an anchor, or to a schema inside of its own by an address.
    """

    def __init__(self, root: Node, notes: Notes, cleaned: bool) -> None:
        self._root = root
        self._notes = notes
        self._cleaned = cleaned
        self._left = MAX_INLINED_SCHEMAS
        """So many schemas may still be written: those of the document, and some more."""
        self._plain_sizes: dict[int, int] = {}
        """What `plain_size` says of each schema, since references repeat them."""
        seen = set[int]()
        waiting: list[object] = [root]
        while waiting:
            part = waiting.pop()
            if id(part) in seen or not (is_mapping(part) or is_list(part)):
                continue
            seen.add(id(part))
            self._left += 1
            waiting.extend(part.values() if is_mapping(part) else part)

    def _find(self, reference: str) -> tuple[Node | bool, str] | None:
        """Return what a reference points to, and its name."""
        address, _, fragment = reference.partition("#")
        if address not in ("", self._root.get("$id")) or fragment[:1] not in ("", "/"):
            return None
        title = self._root.get("title")
        here: object = self._root
        name = title if isinstance(title, str) else "the whole schema"
        for part in unquote(fragment).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if is_list(here):
                here = here[int(name)] if name.isdecimal() and int(name) < len(here) else None
            else:
                here = entries_of(here).get(name)
        return (here, name) if isinstance(here, bool) or is_mapping(here) else None

    def write(self, node: Any, path: str, above: tuple[int, ...]) -> Any:
        """Return a schema without references; `above` are the schemas around it."""
        if not is_mapping(node):
            if self._cleaned and not isinstance(node, bool):
                self._notes.add(path, "not a schema, so anything is allowed", "invalid")
                return {}
            return plain(node)
        if (size := self._plain_sizes.get(id(node))) is None:
            size = self._plain_sizes[id(node)] = plain_size(node)
        self._left -= size or 1
        if self._left < 0 or len(above) >= MAX_DEPTH_LEVELS or id(node) in above:
            self._notes.add(path, "too large or too deep, left open", "recursion")
            return {}
        if size:
            take_step(size)
            return plain(node)
        above = (*above, id(node))
        own: Schema = {
            key: dict(value) if key in HOLD_MAP and is_mapping(value) else value
            for key, value in node.items()
            if isinstance(key, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # not JSON
            and key not in ADDRESSES
            and key not in REFERENCES
            # What has references under a name of its own holds definitions.
            and (key in HOLD_SCHEMAS or key in HOLD_VALUE or not holds_ref(value))
        }
        written = map_children(
            _cleaned(own, path, self._notes) if self._cleaned else own,
            lambda inner, step: self.write(inner, step_into(path, step), above),
        )
        written = {
            key: value if key in HOLD_SCHEMAS else plain(value) for key, value in written.items()
        }
        for keyword in REFERENCES:
            if not isinstance(reference := node.get(keyword), str):
                continue
            found = self._find(reference)
            if found is None:
                text = f"{reference!r} is not in the schema, so anything is allowed"
                self._notes.add(path, text, "refs")
                continue
            target, name = found
            if id(target) in above:
                self._notes.add(path, f"recursive, left open: same shape as {name}", "recursion")
                kinds = sorted(possible_types(dict(entries_of(target))))
                inner: Any = {"description": f"recursive: same shape as {name}"}
                if kinds:
                    inner = {"type": kinds[0] if len(kinds) == 1 else kinds, **inner}
            else:
                inner = self.write(target, path, above)
            written = _with_siblings(inner, written)
        return written


def _with_siblings(target: Any, siblings: Schema) -> Any:
    """Combine a schema with the siblings of its reference, without changing the meaning."""
    if not siblings or target is True:
        return siblings or target
    target = as_schema(target)
    demands = siblings.keys() - ANNOTATIONS
    mixed = any(group & demands and group & target.keys() for group in TOGETHER)
    if mixed or demands & target.keys():
        return {**siblings, "allOf": [target, *as_list(siblings.get("allOf"))]}
    combined = {**target, **siblings}
    own, other = siblings.get("description"), target.get("description")
    if isinstance(own, str) and isinstance(other, str):
        combined["description"] = join_descriptions(own, other)
    return combined


_BROKEN: Final = object()
_VALUES: Final = frozenset({"default", "const", "enum", "examples"})
_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(HOLD_SCHEMA, (bool, Mapping)),
    **dict.fromkeys(HOLD_MAP, dict),
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(FLAGS, bool),
    "examples": list,
}
"""The types of values that a keyword may have."""


def _cleaned(schema: Schema, path: str, notes: Notes) -> Schema:
    """Return a schema with older keywords converted and invalid ones removed, but not its parts."""
    modern = dict(schema)
    if modern.get("$schema") != DIALECT:
        modern.pop("$schema", None)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(flag := modern.get(exclusive), bool):
            del modern[exclusive]
            if flag and is_finite_number(modern.get(bound)):
                modern[exclusive] = modern.pop(bound)
    if modern.pop("nullable", None) is True and isinstance(kind := modern.get("type"), str):
        # The null of OpenAPI 3.0.
        modern["type"] = [kind, "null"]
        if is_list(modern.get("enum")):
            modern["enum"] = [*modern["enum"], None]
    rest = modern.pop("additionalItems", None)
    if isinstance(modern.get("items"), list):
        first = modern.pop("items")
        if first:
            modern["prefixItems"] = first
        if rest is not None:
            modern["items"] = rest
    for name, needed in entries_of(modern.pop("dependencies", None)).items():
        key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        modern[key] = {**entries_of(modern.get(key)), name: needed}
    properties = modern.get("properties")
    if is_schema(properties) and "$ref" in properties:
        # Converters take a property of that name for a reference.
        notes.add(path, "the property $ref is described by a pattern", "names")
        modern["properties"] = {key: one for key, one in properties.items() if key != "$ref"}
        known = entries_of(modern.get("patternProperties"))
        modern["patternProperties"] = {**known, r"^\$ref$": properties["$ref"]}
    kept: Schema = {}
    for key, value in modern.items():
        repaired = _repaired(key, value)
        if repaired is _BROKEN:
            notes.add(path, f"{key} is broken, left out", "invalid")
        elif key in _VALUES and holds_ref(value):
            notes.add(path, f"{key} has a value that looks like a reference, left out", "invalid")
        else:
            kept[key] = repaired
    return kept


def _repaired(key: str, value: Any) -> Any:
    """Return the value of a keyword as it should be; `_BROKEN` if that cannot be known."""
    if key in _KINDS:
        return value if isinstance(value, _KINDS[key]) else _BROKEN
    if key in COUNTS:
        is_count = is_finite_number(value) and value >= 0 and value == int(value)
        return int(value) if is_count else _BROKEN
    if key in BOUNDS or key == "multipleOf":
        is_bound = is_finite_number(value) and (key in BOUNDS or value > 0)
        return value if is_bound else _BROKEN
    if key in HOLD_LIST:
        return as_list(value) or _BROKEN
    if key == "enum":
        return distinct(as_list(value)) or _BROKEN
    if key == "required":
        if not is_list(value):
            return _BROKEN
        return list(dict.fromkeys(name for name in value if isinstance(name, str)))
    if key == "dependentRequired":
        if not is_mapping(value):
            return _BROKEN
        lists = {name: needed for name, needed in value.items() if is_list(needed)}
        return {name: _repaired("required", needed) for name, needed in lists.items()}
    if key == "type":
        if isinstance(value, str):
            return value.lower() if value.lower() in TYPES else _BROKEN
        names = [name for name in _repaired("required", as_list(value)) if name in TYPES]
        return names or _BROKEN
    return value
