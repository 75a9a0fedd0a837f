"""What a tool returned, for the model and for the program."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from langchain_core.messages import ToolMessage

from plait.client.calls.outcome import NO_DETAILS, NOTHING, ToolResult
from plait.client.protocol.repair import repair_result
from plait.langchain.tools.content import OutputHandling, ToolOutput, convert_result, error_text

Json = dict[str, Any]

TEXT: Json = {"type": "text", "text": "hello"}
IMAGE: Json = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
AUDIO: Json = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK: Json = {"type": "resource_link", "uri": "file:///a.csv", "name": "a.csv"}
WEB_LINK: Json = {
    "type": "resource_link",
    "uri": "https://example.com/a.pdf",
    "name": "a.pdf",
    "title": "The report",
    "description": "All of it",
    "mimeType": "application/pdf",
    "size": 2048,
}
WEB_IMAGE: Json = {
    "type": "resource_link",
    "uri": "https://example.com/a.png",
    "name": "a",
    "mimeType": "image/png",
}
PAGE: Json = {
    "type": "resource",
    "resource": {"uri": "docs://page", "mimeType": "text/markdown", "text": "# Ünicode"},
}
PDF: Json = {
    "type": "resource",
    "resource": {"uri": "file:///x/a.pdf", "mimeType": "application/pdf", "blob": "JVBERg=="},
}
PICTURE: Json = {
    "type": "resource",
    "resource": {"uri": "shot://1", "mimeType": "image/png", "blob": "iVBORw0KGgo="},
}
SOUND: Json = {
    "type": "resource",
    "resource": {"uri": "rec://1", "mimeType": "audio/wav", "blob": "UklGRg=="},
}
BYTES: Json = {"type": "resource", "resource": {"uri": "raw://1", "blob": "AAECAw=="}}


def _result(*blocks: Json, **sent: Any) -> types.CallToolResult:
    """Read an answer as the client does: mended first."""
    mended = repair_result("tools/call", {"content": list(blocks), **sent}, "2025-11-25")
    return types.CallToolResult.model_validate(mended.result)


def _converted(
    *blocks: Json, handling: Any = None, standard: bool = True, **sent: Any
) -> ToolOutput:
    return convert_result(
        ToolResult.from_mcp("shop", "pay", _result(*blocks, **sent)),
        handling=OutputHandling.of(handling),
        standard_blocks=standard,
    )


def _artifact(*content: Json, structured: Any = None, meta: Json | None = None) -> Json:
    return {
        "structured_content": structured,
        "content": list(content),
        "_meta": meta,
        "server": "shop",
        "tool": "pay",
        "attempts": 1,
        "notes": [],
        "seconds": 0.0,
    }


STANDARD: list[tuple[str, Json, Json]] = [
    ("text", TEXT, TEXT),
    ("image", IMAGE, {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}),
    ("audio", AUDIO, {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}),
    ("link", LINK, {"type": "text", "text": "Resource: file:///a.csv - a.csv"}),
    (
        "web link",
        WEB_LINK,
        {
            "type": "text",
            "text": "Resource: https://example.com/a.pdf (application/pdf, 2.0 kB)"
            " - The report: All of it",
        },
    ),
    (
        "web image",
        WEB_IMAGE,
        {"type": "text", "text": "Resource: https://example.com/a.png (image/png) - a"},
    ),
    (
        "text resource",
        PAGE,
        {
            "type": "text",
            "text": "# Ünicode",
            "extras": {"uri": "docs://page", "mime_type": "text/markdown"},
        },
    ),
    (
        "file resource",
        PDF,
        {
            "type": "file",
            "base64": "JVBERg==",
            "mime_type": "application/pdf",
            "extras": {"uri": "file:///x/a.pdf", "filename": "a.pdf"},
        },
    ),
    (
        "image resource",
        PICTURE,
        {
            "type": "image",
            "base64": "iVBORw0KGgo=",
            "mime_type": "image/png",
            "extras": {"uri": "shot://1"},
        },
    ),
    (
        "audio resource",
        SOUND,
        {
            "type": "audio",
            "base64": "UklGRg==",
            "mime_type": "audio/wav",
            "extras": {"uri": "rec://1"},
        },
    ),
    (
        "bytes",
        BYTES,
        {
            "type": "file",
            "base64": "AAECAw==",
            "mime_type": "application/octet-stream",
            "extras": {"uri": "raw://1"},
        },
    ),
]

LEGACY: list[tuple[str, Json, Json]] = [
    ("text", TEXT, TEXT),
    (
        "image",
        IMAGE,
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ),
    (
        "audio",
        AUDIO,
        {"type": "audio", "source_type": "base64", "mime_type": "audio/wav", "data": "UklGRg=="},
    ),
    ("link", LINK, {"type": "text", "text": "Resource: file:///a.csv - a.csv"}),
    *STANDARD[4:6],
    (
        "text resource",
        PAGE,
        {"type": "text", "text": "# Ünicode"},
    ),
    (
        "file resource",
        PDF,
        {
            "type": "file",
            "source_type": "base64",
            "mime_type": "application/pdf",
            "data": "JVBERg==",
        },
    ),
    (
        "image resource",
        PICTURE,
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ),
    (
        "audio resource",
        SOUND,
        {"type": "audio", "source_type": "base64", "mime_type": "audio/wav", "data": "UklGRg=="},
    ),
    (
        "bytes",
        BYTES,
        {
            "type": "file",
            "source_type": "base64",
            "mime_type": "application/octet-stream",
            "data": "AAECAw==",
        },
    ),
]

CASES = [
    pytest.param(
        name, block, expected, standard, id=f"{name}-{'standard' if standard else 'legacy'}"
    )
    for table, standard in ((STANDARD, True), (LEGACY, False))
    for name, block, expected in table
]


@pytest.mark.parametrize(("name", "block", "expected", "standard"), CASES)
def test_every_block_can_be_routed_to_the_model(
    name: str, block: Json, expected: Json, standard: bool
) -> None:
    first = {"type": "text", "text": "first"}
    last = {"type": "text", "text": "last"}

    converted = _converted(first, block, last, handling="content", standard=standard)

    line = [{"type": "text", "text": LINES[name]}] if name in LINES else []
    kept = [block] if block["type"] == "resource_link" else []
    assert converted == ToolOutput([first, *line, expected, last], _artifact(*kept))


LINES = {
    "text resource": "Resource: docs://page (text/markdown, 10 B)",
    "file resource": "Resource: file:///x/a.pdf (application/pdf, 4 B)",
    "image resource": "Resource: shot://1 (image/png, 8 B)",
    "audio resource": "Resource: rec://1 (audio/wav, 4 B)",
    "bytes": "Resource: raw://1 (4 B)",
}


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize(
    ("name", "block"),
    [(name, block) for name, block, _ in STANDARD],
    ids=lambda part: str(part)[:15],
)
def test_every_block_can_be_set_aside_as_it_was_sent(
    name: str, block: Json, standard: bool
) -> None:
    converted = _converted(IMAGE, block, IMAGE, handling="artifact", standard=standard)

    assert converted.artifact == _artifact(IMAGE, block, IMAGE)
    if block["type"] == "resource":
        assert converted.content == LINES[name]
    elif block["type"] == "resource_link":
        assert converted.content == next(text["text"] for n, _, text in STANDARD if n == name)
    else:
        label = {"text": "text"}.get(block["type"], block.get("mimeType"))
        labels = ", ".join(dict.fromkeys(["image/png", str(label)]))
        assert converted.content == f"3 blocks were set aside ({labels})"


def test_an_embedded_resource_leaves_one_line_by_default() -> None:
    converted = _converted(TEXT, PDF)

    line = {"type": "text", "text": "Resource: file:///x/a.pdf (application/pdf, 4 B)"}
    assert converted == ToolOutput([TEXT, line], _artifact(PDF))


def test_what_is_set_aside_keeps_its_order_beside_what_is_shown() -> None:
    converted = _converted(IMAGE, TEXT, AUDIO, PAGE, handling={"image": "artifact"})

    assert isinstance(converted.content, list)
    assert [block["type"] for block in converted.content] == ["text", "audio", "text"]
    assert converted.artifact["content"] == [IMAGE, PAGE]


def test_a_single_text_is_a_string() -> None:
    assert _converted(TEXT).content == "hello"
    assert _converted(TEXT, standard=False).content == "hello"
    assert _converted(PAGE).content == "Resource: docs://page (text/markdown, 10 B)"
    assert _converted({**TEXT, "_meta": {"vendor/x": 1}}).content == "hello"


def test_a_single_text_resource_keeps_its_address() -> None:
    assert _converted(PAGE, handling="content").content == [
        {"type": "text", "text": "Resource: docs://page (text/markdown, 10 B)"},
        {
            "type": "text",
            "text": "# Ünicode",
            "extras": {"uri": "docs://page", "mime_type": "text/markdown"},
        },
    ]


def test_the_text_of_a_resource_is_a_text_in_the_older_form_too() -> None:
    page = {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}

    assert _converted(page, handling="content", standard=False).content == [
        {"type": "text", "text": "Resource: a://b (6 B)"},
        {"type": "text", "text": "inside"},
    ]


def test_what_a_server_notes_on_a_block_is_kept_as_extras() -> None:
    notes = {"annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"vendor/x": None}}

    converted = _converted(TEXT | notes, IMAGE | notes, AUDIO | notes, WEB_IMAGE | notes)

    assert isinstance(converted.content, list)
    assert [block.get("extras") for block in converted.content] == [notes, notes, notes, None]
    assert converted.artifact["content"] == [WEB_IMAGE | notes]


def test_the_same_answer_always_makes_the_same_message() -> None:
    blocks = [block for _, block, _ in STANDARD]

    assert _converted(*blocks) == _converted(*blocks)


STRUCTURED: Json = {"total": 3, "名": "x"}
AS_JSON = '{"total": 3, "名": "x"}'


@pytest.mark.parametrize(
    ("text", "structured", "failed", "expected"),
    [
        (False, False, False, NOTHING),
        (False, False, True, NO_DETAILS),
        (False, True, False, AS_JSON),
        (False, True, True, AS_JSON),
        (True, False, False, "hello"),
        (True, False, True, "hello"),
        (True, True, False, "hello"),
        (True, True, True, "hello"),
    ],
)
def test_text_structure_and_failure_in_every_combination(
    text: bool, structured: bool, failed: bool, expected: str
) -> None:
    sent: Json = {"isError": failed}
    if structured:
        sent["structuredContent"] = STRUCTURED

    converted = _converted(*([TEXT] if text else []), **sent)

    artifact = _artifact(structured=STRUCTURED if structured else None)
    assert converted == ToolOutput(expected, artifact, is_error=failed)


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_is_no_text(blank: str) -> None:
    block = {"type": "text", "text": blank}

    assert _converted(block).content == NOTHING
    assert _converted(block, isError=True).content == NO_DETAILS
    assert _converted(block, structuredContent=STRUCTURED).content == AS_JSON
    assert _converted(block, IMAGE).content == _converted(IMAGE).content
    page = {"type": "resource", "resource": {"uri": "a://b", "text": blank}}
    line = f"Resource: a://b ({len(blank)} B)"
    assert _converted(page, handling="content").content == line
    assert _converted(page, handling="content", standard=False).content == line


def test_structure_is_written_out_beside_an_image() -> None:
    converted = _converted(IMAGE, structuredContent=STRUCTURED)

    assert isinstance(converted.content, list)
    assert [block["type"] for block in converted.content] == ["image", "text"]
    assert converted.content[1] == {"type": "text", "text": AS_JSON}


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        ([json.dumps(STRUCTURED, indent=2)], STRUCTURED),
        (['{"名":"x","total":3}'], STRUCTURED),
        (["first", AS_JSON], STRUCTURED),
        (["7"], {"result": 7}),
        (["a word"], {"result": "a word"}),
        (["True"], {"result": True}),
        (["true"], {"result": True}),
        (["[1, 2]"], {"result": [1, 2]}),
        (["one", "two"], {"result": ["one", "two"]}),
        (['{"a": 1}', '{"a": 2}'], {"result": [{"a": 1}, {"a": 2}]}),
    ],
)
def test_structure_that_the_text_already_says_is_not_repeated(
    texts: list[str], structured: Json
) -> None:
    blocks: list[Json] = [{"type": "text", "text": text} for text in texts]
    expected = texts[0] if len(texts) == 1 else blocks

    for route in ("auto", "content", "artifact"):
        converted = _converted(
            *blocks, structuredContent=structured, handling={"structured_content": route}
        )

        assert converted == ToolOutput(expected, _artifact(structured=structured))


@pytest.mark.parametrize(
    ("text", "structured"),
    [
        ("hello", STRUCTURED),
        ("7", {"result": 8}),
        ("7", {"result": "7", "unit": "m"}),
        ('{"total": 4}', {"total": 3}),
        ("{}", {"total": 3}),
    ],
)
def test_structure_that_says_more_than_the_text_is_added_where_it_is_asked_for(
    text: str, structured: Json
) -> None:
    block = {"type": "text", "text": text}

    shown = _converted(
        block, structuredContent=structured, handling={"structured_content": "content"}
    )

    added = {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}
    assert shown == ToolOutput([block, added], _artifact(structured=structured))
    assert _converted(block, structuredContent=structured).content == text


def test_structure_for_the_program_only_leaves_a_line_for_the_model() -> None:
    converted = _converted(
        structuredContent=STRUCTURED, handling={"structured_content": "artifact"}
    )

    assert converted.content == "1 block was set aside (structured content)"
    assert converted.artifact["structured_content"] == STRUCTURED


def test_structure_is_shown_where_only_its_text_is_set_aside() -> None:
    same = {"type": "text", "text": AS_JSON}

    converted = _converted(
        same,
        structuredContent=STRUCTURED,
        handling={"text": "artifact", "structured_content": "content"},
    )

    assert converted == ToolOutput(AS_JSON, _artifact(same, structured=STRUCTURED))


def test_text_that_is_set_aside_counts_as_text() -> None:
    converted = _converted(TEXT, structuredContent=STRUCTURED, handling={"text": "artifact"})

    assert converted.content == "2 blocks were set aside (text, structured content)"
    assert converted.artifact == _artifact(TEXT, structured=STRUCTURED)


@pytest.mark.parametrize("structured", [[1, 2], "words", 7, False, []])
def test_structure_that_is_no_object_reaches_both_sides(structured: Any) -> None:
    converted = _converted(structuredContent=structured)

    assert converted.content == json.dumps(structured)
    assert converted.artifact["structured_content"] == structured


def test_a_block_that_cannot_be_read_is_quoted_and_kept() -> None:
    hologram = {"type": "hologram", "voxels": [1, 2]}

    converted = _converted(TEXT, hologram, TEXT)

    quoted = {"type": "text", "text": json.dumps(hologram)}
    assert converted == ToolOutput([TEXT, quoted, TEXT], _artifact(hologram))
    assert _converted(hologram, handling="artifact") == ToolOutput(
        "1 block was set aside (hologram)", _artifact(hologram)
    )


def test_the_quote_of_a_block_does_not_hide_the_structure() -> None:
    hologram = {"type": "hologram", "voxels": [1, 2]}

    converted = _converted(hologram, structuredContent=STRUCTURED)

    assert converted.content == [
        {"type": "text", "text": json.dumps(hologram)},
        {"type": "text", "text": AS_JSON},
    ]


def test_text_that_had_to_be_mended_is_text() -> None:
    broken = {"type": "text", "text": "hello", "annotations": "loud"}

    converted = _converted(broken, structuredContent=STRUCTURED)

    assert converted == ToolOutput("hello", _artifact(broken, structured=STRUCTURED))


def test_the_notes_of_the_server_are_in_the_artifact() -> None:
    assert _converted(TEXT, _meta={"vendor/x": 1}).artifact == _artifact(meta={"vendor/x": 1})


def test_values_that_are_nested_deeply_do_not_break_an_answer() -> None:
    deep: Json = {}
    for _ in range(5000):
        deep = {"a": deep}
    result = types.CallToolResult.model_construct(
        content=[
            types.TextContent.model_construct(type="text", text="x", meta={"vendor/x": deep}),
            types.EmbeddedResource(
                resource=types.TextResourceContents.model_construct(
                    uri="a://b", text="x", mime_type=None, meta={"vendor/x": deep}
                )
            ),
        ],
        structured_content=deep,
        is_error=False,
        meta=None,
    )

    for handling in ("content", "artifact"):
        converted = convert_result(
            ToolResult.from_mcp("s", "t", result), handling=OutputHandling.of(handling)
        )

        assert converted.artifact["structured_content"] is deep


def test_half_of_a_surrogate_pair_in_structure_is_escaped() -> None:
    converted = _converted(structuredContent={"a": "\ud83d"})

    assert converted.content == '{"a": "\\ud83d"}'


def test_the_result_is_what_a_tool_message_holds() -> None:
    blocks = [block for _, block, _ in STANDARD]
    shown = [
        part
        for name, _, block in STANDARD
        for part in ([{"type": "text", "text": LINES[name]}] if name in LINES else []) + [block]
    ]
    converted = _converted(*blocks, handling={"resource": "content"})

    content: Any = converted.content
    message = ToolMessage(content=content, artifact=converted.artifact, tool_call_id="1")

    assert message.content == shown
    assert [part["type"] for part in message.content_blocks] == [part["type"] for part in shown]


def test_the_text_of_an_error_has_no_data_in_it() -> None:
    failed = _converted(TEXT, IMAGE, AUDIO, {"type": "text", "text": "again"}, isError=True)

    assert error_text(failed.content) == "hello\nagain"
    assert error_text("plain") == "plain"
    assert error_text(["one", {"type": "text", "text": "two"}]) == "one\ntwo"


@pytest.mark.parametrize("content", ["", " ", [], [{"type": "image", "base64": "AAAA"}]])
def test_an_error_without_text_says_so(content: Any) -> None:
    assert error_text(content) == NO_DETAILS
