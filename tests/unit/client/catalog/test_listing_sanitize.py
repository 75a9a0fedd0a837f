"""Tools are shown to models without what is hidden in them."""

from __future__ import annotations

from plait.client.catalog.listing import sanitize_tool
from plait.client.catalog.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "Whom\U000e0041 to pay.", "enum": ["a\u200b", "b"]},
        "na\u200bme": {"type": "string"},
    },
    "required": ["na\u200bme"],
}


def test_a_clean_tool_is_the_same_tool() -> None:
    tool = Tool(server="s", wire_name="t", name="t", description="Plain.", input_schema={"a": [1]})

    assert sanitize_tool(tool) == (tool, ())
    assert sanitize_tool(tool)[0].input_schema is tool.input_schema


def test_every_text_of_a_tool_is_sanitized_and_noted() -> None:
    tool = Tool(
        server="s",
        wire_name="t\u200b",
        name="t",
        title="Pay\x07",
        description="Pay.\u202e",
        input_schema=SCHEMA,
        output_schema={"description": "Out\ufeff"},
        annotations={"title": "P\u2060ay", "read_only_hint": True},
    )

    clean, notes = sanitize_tool(tool)

    assert (clean.title, clean.description) == ("Pay\\u0007", "Pay.\\u202e")
    assert clean.input_schema == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Whom to pay.", "enum": ["a", "b"]},
            "name": {"type": "string"},
        },
        "required": ["name"],
    }
    assert clean.output_schema == {"description": "Out"}
    assert clean.annotations == {"title": "Pay", "read_only_hint": True}
    assert clean.wire_name == tool.wire_name
    assert clean.wire_schema == SCHEMA
    assert [note.partition(":")[0] for note in notes] == [
        *("title", "description", "arguments.to.description", "arguments.to.enum"),
        *("arguments.name", "arguments.required", "result.description", "annotations.title"),
        "name",
    ]


def test_a_key_that_hides_cannot_take_the_place_of_another() -> None:
    tool = Tool(server="s", wire_name="t", name="t", input_schema={"a": 1, "a\u200b": 2})

    assert sanitize_tool(tool)[0].input_schema == {"a": 1, "a\\u200b": 2}
