"""Checks for the parts of schemas that providers lose or refuse."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plait._support.exception_groups import one_line
from plait.cli.doctor.findings import Detail, Finding, Level
from plait.cli.terminal import and_list, count_label
from plait.client.catalog.schemas import PROFILES, Profile, schema_for_provider
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import validator_for_schema

_LONGEST_EXAMPLE = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """Notes of one kind: their pattern, and the finding for them."""

    code: str
    level: Level
    says: str
    notes: re.Pattern[str]
    fix: str | None = None


def _kind(code: str, level: Level, says: str, notes: str, fix: str | None = None) -> Kind:
    return Kind(code, level, says, re.compile(notes, re.DOTALL), fix)


_INVALID: Final = _kind(
    "schema_invalid",
    "warn",
    "broken schemas",
    r"is broken, left out\Z|not a schema, so anything is allowed\Z"
    r"|: arguments are an object, not |: no arguments can fit the schema\Z",
    'update the server, or give the tool another "input_schema" in "tool_overrides"',
)

KINDS: Final = (
    _INVALID,
    _kind(
        "schema_refs",
        "warn",
        "external references, which are never fetched",
        r" is not in the schema, so anything is allowed\Z",
        'update the server, or give the tool another "input_schema" in "tool_overrides"',
    ),
    _kind(
        "schema_names",
        "warn",
        "argument names that may be refused",
        r": the name .+ may be refused: ",
        'give the argument another "name" in "tool_overrides"',
    ),
    _kind(
        "schema_size",
        "warn",
        "large schemas that may be refused",
        r": may be refused: \d+ ",
        'hide arguments in "tool_overrides", or exclude the tool with "exclude"',
    ),
    _kind(
        "schema_recursion",
        "ok",
        "recursive or very deep types, cut off",
        r": recursive, left open: |: too large or too deep, left open\Z|: too deep\Z",
    ),
    _kind(
        "schema_alternatives",
        "ok",
        "alternatives described in words",
        r": (.+, )?(anyOf|oneOf|allOf)(, [^:]+)? moved to the description\Z"
        r"|(any|one)Of became |: oneOf left out: |: can never be given, left out\Z",
    ),
    _kind("schema_limits", "ok", "limits described in words", r" moved to the description\Z"),
    _kind(
        "schema_json_text",
        "ok",
        "open objects passed as JSON strings",
        r", written as a JSON string\Z|, but objects and lists only as JSON text\Z",
    ),
    _kind("schema_closed", "ok", "only listed properties", r": other properties cannot be given\Z"),
    _kind("schema_keywords", "ok", "unknown keywords left out", r""),
)
"""Every kind of note; the first match counts, and the last matches all."""


def kind_of(note: str) -> Kind:
    """Return the kind of a note."""
    return next(kind for kind in KINDS if kind.notes.search(note))


def check_schemas(server: str, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Report what each provider loses of the schemas, one finding per kind of loss."""
    if not tools:
        return
    cases: defaultdict[str, list[Detail]] = defaultdict(list)
    for tool in tools:
        for kind, detail in _cases(tool):
            cases[kind.code].append(detail)
    unlike = {profile for details in cases.values() for one in details for profile in one.profiles}
    if fitting := [profile for profile in PROFILES if profile not in unlike]:
        readers = and_list(fitting) if unlike else "every provider"
        message = f"schemas fit {readers} without loss"
        yield Finding(server=server, level="ok", code="schemas", message=message)
    for kind in KINDS:
        if details := cases.get(kind.code):
            yield Finding(
                server=server,
                level=kind.level,
                code=kind.code,
                message=_summary(kind, details),
                fix=kind.fix,
                details=tuple(details),
            )


def _cases(tool: Tool) -> Iterator[tuple[Kind, Detail]]:
    """Collect the notes of all profiles; a note of several profiles is one case."""
    found: dict[str, tuple[Profile, ...]] = {}
    for profile in PROFILES:
        for note in schema_for_provider(tool.input_schema, profile).notes:
            found[note] = (*found.get(note, ()), profile)
    for note, profiles in found.items():
        yield kind_of(note), Detail(tool=tool.full_name, text=note, profiles=profiles)
    broken = validator_for_schema(tool.input_schema).broken
    if broken is not None and not any(kind_of(note) is _INVALID for note in found):
        yield _INVALID, Detail(tool=tool.full_name, text=broken, profiles=PROFILES)


def _summary(kind: Kind, details: Sequence[Detail]) -> str:
    named = {profile for one in details for profile in one.profiles}
    profiles = [profile for profile in PROFILES if profile in named]
    readers = "" if len(profiles) == len(PROFILES) else f" for {and_list(profiles)}"
    first = details[0]
    tool = (first.tool or "").partition("/")[2]
    note = first.text.removeprefix("(root): ")
    example = f"{tool} ({one_line(note, _LONGEST_EXAMPLE)})"
    tools = len({one.tool for one in details})
    which = example if tools == 1 else f"{count_label(tools, 'tool')}, such as {example}"
    return f"{kind.says}{readers}: {which}"
