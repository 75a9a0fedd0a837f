"""Checks for the parts of schemas that providers lose or refuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plait._support.exception_groups import one_line
from plait.cli.doctor.findings import Detail, Finding, Level
from plait.cli.terminal import and_list, count_label
from plait.client.catalog.schemas import PROFILES, Profile, schema_for_provider
from plait.client.catalog.schemas.provider_schema import Note, NoteKind
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import validator_for_schema

_LONGEST_EXAMPLE = 100


@dataclass(frozen=True, slots=True)
class Report:
    """How notes of one kind are reported."""

    level: Level
    says: str
    fix: str | None = None


_OTHER_SCHEMA = 'update the server, or give the tool another "input_schema" in "tool_overrides"'

REPORTS: Final[Mapping[NoteKind, Report]] = {
    "invalid": Report("warn", "broken schemas", _OTHER_SCHEMA),
    "refs": Report("warn", "external references, which are never fetched", _OTHER_SCHEMA),
    "names": Report(
        "warn",
        "argument names that may be refused",
        'give the argument another "name" in "tool_overrides"',
    ),
    "size": Report(
        "warn",
        "large schemas that may be refused",
        'hide arguments in "tool_overrides", or exclude the tool with "exclude"',
    ),
    "recursion": Report("ok", "recursive or very deep types, cut off"),
    "alternatives": Report("ok", "alternatives described in words"),
    "limits": Report("ok", "limits described in words"),
    "json_text": Report("ok", "open objects passed as JSON strings"),
    "closed": Report("ok", "only listed properties"),
    "keywords": Report("ok", "unknown keywords left out"),
}
"""The report of every kind of note, in the order of the findings."""


def check_schemas(server: str, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Report what each provider loses of the schemas, one finding per kind of loss."""
    if not tools:
        return
    cases: defaultdict[NoteKind, list[Detail]] = defaultdict(list)
    for tool in tools:
        for kind, detail in _cases(tool):
            cases[kind].append(detail)
    unlike = {profile for details in cases.values() for one in details for profile in one.profiles}
    if fitting := [profile for profile in PROFILES if profile not in unlike]:
        readers = and_list(fitting) if unlike else "every provider"
        message = f"schemas fit {readers} without loss"
        yield Finding(server, "ok", "schemas", message)
    for kind, report in REPORTS.items():
        if details := cases.get(kind):
            message = _summary(report.says, details)
            code = f"schema_{kind}"
            yield Finding(server, report.level, code, message, report.fix, tuple(details))


def _cases(tool: Tool) -> Iterator[tuple[NoteKind, Detail]]:
    """Collect the notes of all profiles; a note of several profiles is one case."""
    found: dict[Note, tuple[Profile, ...]] = {}
    for profile in PROFILES:
        for note in schema_for_provider(tool.input_schema, profile).notes:
            found[note] = (*found.get(note, ()), profile)
    for note, profiles in found.items():
        yield note.kind, Detail(tool=tool.full_name, text=note, profiles=profiles)
    broken = validator_for_schema(tool.input_schema).broken
    if broken is not None and not any(note.kind == "invalid" for note in found):
        yield "invalid", Detail(tool=tool.full_name, text=broken, profiles=PROFILES)


def _summary(says: str, details: Sequence[Detail]) -> str:
    named = {profile for one in details for profile in one.profiles}
    profiles = [profile for profile in PROFILES if profile in named]
    readers = "" if len(profiles) == len(PROFILES) else f" for {and_list(profiles)}"
    first = details[0]
    tool = (first.tool or "").partition("/")[2]
    note = first.text.removeprefix("(root): ")
    example = f"{tool} ({one_line(note, _LONGEST_EXAMPLE)})"
    tools = len({one.tool for one in details})
    which = example if tools == 1 else f"{count_label(tools, 'tool')}, such as {example}"
    return f"{says}{readers}: {which}"
