"""What `plait doctor` says about schemas, for the models of every provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from inline_snapshot import snapshot

from plait.cli.diagnosis import REPORTS, Finding, check_schemas
from plait.client.catalog.tool import Tool
from plait.models.schemas.describe import NoteKind
from plait.models.schemas.for_provider import PROFILES, schema_for_provider
from tests.unit.models.schemas.strategies import ANY

CORPUS = Path(__file__).parents[1] / "models" / "schemas" / "corpus"


def tool(name: str, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties}
    return Tool(server="shop", wire_name=name, name=name, input_schema=schema)


def corpus(stem: str) -> list[Tool]:
    schemas = json.loads((CORPUS / f"{stem}.json").read_text("utf-8"))
    return [
        Tool(server="shop", wire_name=name, name=name, input_schema=schema)
        for name, schema in schemas.items()
        if isinstance(schema, dict)
    ]


def found(*tools: Tool) -> dict[str, Finding]:
    return {finding.code: finding for finding in check_schemas("shop", tools)}


def test_a_schema_that_all_providers_take_as_it_is_fits_without_loss() -> None:
    (finding,) = check_schemas("shop", [tool("add", a={"type": "integer"})])

    assert (finding.level, finding.code) == ("ok", "schemas")
    assert finding.message == "schemas fit every provider without loss"


def test_a_server_without_tools_has_no_schemas_to_speak_of() -> None:
    assert list(check_schemas("shop", [])) == []


def test_each_kind_of_loss_is_one_finding_with_every_case() -> None:
    limited = [tool(f"t{number}", x={"type": "string", "maxLength": 3}) for number in range(100)]

    findings = found(*limited)

    assert list(findings) == ["schemas", "schema_limits"]
    assert findings["schemas"].message == (
        "schemas fit default, openai, anthropic and gemini without loss"
    )
    limits = findings["schema_limits"]
    assert limits.level == "ok"
    assert limits.message == snapshot(
        "limits described in words for openai_strict: "
        "100 tools, such as t0 (x: maxLength moved to the description)"
    )
    assert len(limits.details) == 100
    assert limits.details[7].tool == "shop/t7"
    assert limits.details[7].profiles == ("openai_strict",)


@pytest.mark.parametrize(
    ("schema", "code", "level"),
    [
        ({"type": "nonsense"}, "schema_invalid", "warn"),
        ({"type": "string", "enum": "abc"}, "schema_invalid", "warn"),
        ({"$ref": "https://example.org/remote.json"}, "schema_refs", "warn"),
        ({"$ref": "#/nowhere"}, "schema_refs", "warn"),
        ({"type": "array", "items": {"$ref": "#/properties/x"}}, "schema_recursion", "ok"),
        ({"type": "object"}, "schema_json_text", "ok"),
        ({"type": "string", "minLength": 2}, "schema_limits", "ok"),
        ({"type": "string", "x-colour": "red"}, "schema_keywords", "ok"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            "schema_alternatives",
            "ok",
        ),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
            "schema_closed",
            "ok",
        ),
    ],
)
def test_every_kind_of_loss_is_recognised(schema: Any, code: str, level: str) -> None:
    findings = found(tool("try", x=schema))

    assert findings[code].level == level
    assert "try" in findings[code].message


def test_a_name_that_claude_refuses_is_a_warning_with_a_fix() -> None:
    names = found(tool("odata", **{"$filter": {"type": "string"}}))["schema_names"]

    assert names.level == "warn"
    assert names.details[0].profiles == ("anthropic",)
    assert "tool_overrides" in (names.fix or "")


def test_a_schema_with_far_too_many_values_may_be_refused() -> None:
    many = {"type": "string", "enum": [f"value {number}" for number in range(1_001)]}

    assert found(tool("choose", x=many))["schema_size"].level == "warn"


def test_a_schema_of_an_older_draft_that_cannot_be_checked_is_broken_for_everyone() -> None:
    older = tool("old", x={"type": "integer", "minimum": 0, "exclusiveMinimum": True})

    broken = found(older)["schema_invalid"]

    assert broken.details[0].profiles == PROFILES
    assert "exclusiveMinimum" in broken.details[0].text


def test_a_note_that_several_profiles_share_is_one_case() -> None:
    (case,) = found(tool("tree", x={"type": "array", "items": {"$ref": "#/properties/x"}}))[
        "schema_recursion"
    ].details

    assert case.profiles == PROFILES


def test_the_example_names_the_place_unless_it_is_the_whole_schema() -> None:
    schema = {"type": "array"}
    whole = Tool(server="shop", wire_name="list", name="list", input_schema=schema)

    message = found(whole)["schema_invalid"].message

    assert message == "broken schemas: list (arguments are an object, not array)"


def test_the_output_for_the_oddest_schemas_stays_short() -> None:
    tools = [one for path in CORPUS.glob("*.json") for one in corpus(path.stem)]

    findings = list(check_schemas("shop", tools))

    assert len(tools) > 50
    assert len(findings) <= len(REPORTS)
    assert all(len(finding.message) < 300 for finding in findings)


@given(schema=ANY)
@settings(max_examples=100)
def test_every_note_has_a_kind_that_is_reported(schema: Any) -> None:
    for profile in PROFILES:
        for note in schema_for_provider(schema, profile).notes:
            assert note.kind in REPORTS
            assert (note.kind == "limits") <= note.endswith(" moved to the description"), note
            assert (note.kind == "keywords") <= note.endswith(" left out"), note


def test_every_warning_says_what_to_do() -> None:
    assert all(report.fix for report in REPORTS.values() if report.level == "warn")
    assert set(REPORTS) == set(get_args(NoteKind))
