"""What changed in a schema: arguments by their path, and every keyword that is not as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, cast

from plait.client.catalog.lock.canonical import text_of
from plait.client.catalog.lock.changes import Change
from plait.client.catalog.schemas.outline import outline

SchemaPart = Literal["argument", "result"]


def schema_changes(part: SchemaPart, before: Any, after: Any) -> Iterator[Change]:
    """Compare two schemas in canonical form; if they differ, there is at least one change."""
    if before is None or after is None:
        if before is not after:
            yield _changed(part, "schema", before, after)
        return
    found = list(_compared(part, "", before, after))
    if not found and not _same(before, after):
        found = [_changed(part, "schema", before, after)]
    yield from found


def _compared(part: SchemaPart, path: str, before: Any, after: Any) -> Iterator[Change]:
    if _same(before, after):
        return
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield _changed(part, path or "schema", before, after)
        return
    old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    names = _names(old), _names(new)
    for keyword in sorted({*old, *new}):
        one, other = old.get(keyword), new.get(keyword)
        if _same(one, other) and (keyword in old) is (keyword in new):
            continue
        match keyword:
            case "properties" if isinstance(one or {}, Mapping) and isinstance(
                other or {}, Mapping
            ):
                yield from _properties(part, path, old, new)
            case "required" if _are_names(one or []) and _are_names(other or []):
                yield from _required(part, path, one or [], other or [], names)
            case "items" if one is not None and other is not None:
                yield from _compared(part, f"{path}[]", one, other)
            case _ if keyword not in old or keyword not in new:
                yield _changed(part, _at(path, keyword), one, other)
            case _:
                yield from _keyword(part, path, keyword, one, other)


def _keyword(part: SchemaPart, path: str, keyword: str, one: Any, other: Any) -> Iterator[Change]:
    both = one, other
    match keyword:
        case "anyOf" | "oneOf" | "allOf" | "prefixItems" if _all_are(list, both):
            yield from _alternatives(part, _at(path, keyword), one, other)
        case "$defs" | "definitions" | "patternProperties" | "dependentSchemas" if _all_are(
            dict, both
        ):
            yield from _definitions(part, _at(path, keyword), one, other)
        case "additionalProperties" | "not" | "if" | "then" | "else" if _all_are(dict, both):
            yield from _compared(part, _at(path, keyword), one, other)
        case "type":
            where = path or "schema"
            yield Change(part=part, how="type", path=where, before=one, after=other)
        case _:
            yield _changed(part, _at(path, keyword), one, other)


def _properties(
    part: SchemaPart, path: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Change]:
    before, after = _names(old), _names(new)
    for name in sorted({*before, *after}):
        where = _at(path, name)
        if name not in before:
            kind = _kind(after[name], name, new)
            yield Change(part=part, how="added", path=where, after=kind)
        elif name not in after:
            kind = _kind(before[name], name, old)
            yield Change(part=part, how="removed", path=where, before=kind)
        else:
            yield from _compared(part, where, before[name], after[name])
    if before == after and ("properties" in old) is not ("properties" in new):
        yield _changed(part, _at(path, "properties"), old.get("properties"), new.get("properties"))


def _required(
    part: SchemaPart,
    path: str,
    before: list[str],
    after: list[str],
    names: tuple[Collection[str], Collection[str]],
) -> Iterator[Change]:
    """Name arguments that are required now, or no more; of one that is new, that is said there."""
    said = False
    for name in sorted({*before, *after}):
        if (name in before) is (name in after):
            continue
        said = True
        if (name in names[0]) is (name in names[1]):
            how = "required" if name in after else "optional"
            yield Change(part=part, how=how, path=_at(path, name))
    if not said:
        yield _changed(part, _at(path, "required"), before, after)


def _alternatives(
    part: SchemaPart, path: str, before: list[Any], after: list[Any]
) -> Iterator[Change]:
    for number, (one, other) in enumerate(zip(before, after, strict=False), 1):
        yield from _compared(part, f"{path}({number})", one, other)
    for number, extra in enumerate(after[len(before) :], len(before) + 1):
        yield Change(part=part, how="added", path=f"{path}({number})", after=outline(extra))
    for number, extra in enumerate(before[len(after) :], len(after) + 1):
        yield Change(part=part, how="removed", path=f"{path}({number})", before=outline(extra))


def _definitions(
    part: SchemaPart, path: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        where = _at(path, name)
        if name not in before:
            yield Change(part=part, how="added", path=where, after=outline(after[name]))
        elif name not in after:
            yield Change(part=part, how="removed", path=where, before=outline(before[name]))
        else:
            yield from _compared(part, where, before[name], after[name])


def _changed(part: SchemaPart, path: str, before: Any, after: Any) -> Change:
    return Change(part=part, path=path, before=before, after=after)


def _names(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _all_are(kind: type, values: tuple[Any, ...]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def _kind(schema: Any, name: str, parent: Mapping[str, Any]) -> str:
    needed = "required" if name in (parent.get("required") or ()) else "optional"
    return f"{outline(schema)}, {needed}"


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: to Python, `true` and 1 are equal."""
    return text_of(one) == text_of(other)
