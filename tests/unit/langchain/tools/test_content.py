"""What a tool returned, for the model and for the program."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.load import dumps
from langchain_core.messages import ToolMessage

from plait import ConfigError, MCPToolArtifact
from plait.client.calls.outcome import NO_DETAILS, NOTHING, ToolResult
from plait.client.catalog.tool import Tool
from plait.client.protocol.repair import repair_result
from plait.errors import ProtocolError
from plait.langchain import map_content, map_content_item
from plait.langchain.tools.content import (
    OutputHandling,
    ToolOutput,
    convert_result,
    error_text,
    message_from,
    output_from_error,
    pending_reads,
    with_resources,
)

Json = dict[str, Any]


def text(said: str, **extras: Any) -> Json:
    return {"type": "text", "text": said, **({"extras": extras} if extras else {})}


def resource(uri: str, **contents: Any) -> Json:
    return {"type": "resource", "resource": {"uri": uri, **contents}}


def data(kind: str, encoded: str, mime_type: str, **extras: Any) -> Json:
    block = {"type": kind, "base64": encoded, "mime_type": mime_type}
    return {**block, "extras": extras} if extras else block


def older(kind: str, encoded: str, mime_type: str) -> Json:
    return {"type": kind, "source_type": "base64", "mime_type": mime_type, "data": encoded}


PNG, WAV = "iVBORw0KGgo=", "UklGRg=="
URL_IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
TEXT = text("hello")
IMAGE: Json = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO: Json = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
LINK: Json = {"type": "resource_link", "uri": "file:///a.csv", "name": "a.csv"}
WEB_IMAGE = {"type": "resource_link", "uri": "https://x.com/a.png", "name": "a"}
WEB_LINK = {
    "type": "resource_link",
    "uri": "https://x.com/a.pdf",
    "name": "a.pdf",
    "size": 2048,
    "title": "The report",
    "description": "All",
    "mimeType": "application/pdf",
}
PAGE = resource("docs://page", mimeType="text/markdown", text="# Ünicode")
PDF = resource("file:///x/a.pdf", mimeType="application/pdf", blob="JVBERg==")
PICTURE = resource("shot://1", mimeType="image/png", blob=PNG)
SOUND = resource("rec://1", mimeType="audio/wav", blob=WAV)
BYTES = resource("raw://1", blob="AAECAw==")
HOLOGRAM: Json = {"type": "hologram", "voxels": [1, 2]}
STRUCTURED: Json = {"total": 3, "名": "x"}
AS_JSON = '{"total": 3, "名": "x"}'

LINK_LINE = text("Resource: file:///a.csv - a.csv")
WEB_LINK_LINE = text("Resource: https://x.com/a.pdf (application/pdf, 2.0 kB) - The report: All")
OCTETS = "application/octet-stream"
SHOWN: dict[str, tuple[Json, str, Json, Json]] = {
    # What is sent; the line about a resource; its standard and its older form.
    "text": (TEXT, "", TEXT, TEXT),
    "image": (IMAGE, "", data("image", PNG, "image/png"), URL_IMAGE),
    "audio": (AUDIO, "", data("audio", WAV, "audio/wav"), older("audio", WAV, "audio/wav")),
    "link": (LINK, "", LINK_LINE, LINK_LINE),
    "web link": (WEB_LINK, "", WEB_LINK_LINE, WEB_LINK_LINE),
    "text resource": (
        PAGE,
        "docs://page (text/markdown, 10 B)",
        text("# Ünicode", uri="docs://page", mime_type="text/markdown"),
        text("# Ünicode"),
    ),
    "file resource": (
        PDF,
        "file:///x/a.pdf (application/pdf, 4 B)",
        data("file", "JVBERg==", "application/pdf", uri="file:///x/a.pdf", filename="a.pdf"),
        older("file", "JVBERg==", "application/pdf"),
    ),
    "image resource": (
        PICTURE,
        "shot://1 (image/png, 8 B)",
        data("image", PNG, "image/png", uri="shot://1"),
        URL_IMAGE,
    ),
    "audio resource": (
        SOUND,
        "rec://1 (audio/wav, 4 B)",
        data("audio", WAV, "audio/wav", uri="rec://1"),
        older("audio", WAV, "audio/wav"),
    ),
    "bytes": (
        BYTES,
        "raw://1 (4 B)",
        data("file", "AAECAw==", OCTETS, uri="raw://1"),
        older("file", "AAECAw==", OCTETS),
    ),
}


def result_of(*blocks: Any, **sent: Any) -> ToolResult:
    """Read an answer as the client does: repaired first."""
    repaired = repair_result("tools/call", {"content": list(blocks), **sent}, "2025-11-25")
    parsed = types.CallToolResult.model_validate(repaired.result)
    return ToolResult.from_mcp("shop", "pay", parsed)


def converted(*blocks: Any, handling: Any = None, standard: bool = True, **sent: Any) -> ToolOutput:
    routes = OutputHandling.of(handling)
    return convert_result(result_of(*blocks, **sent), handling=routes, standard_blocks=standard)


def artifact_of(*content: Json, structured: Any = None, meta: Json | None = None) -> Json:
    facts = {"structured_content": structured, "content": list(content), "_meta": meta}
    known = {"server": "shop", "tool": "pay", "attempts": 1, "notes": [], "seconds": 0.0}
    return facts | known


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize("name", SHOWN)
def test_every_block_can_be_shown_and_can_be_set_aside(name: str, standard: bool) -> None:
    block, line, *forms = SHOWN[name]
    lines = [text(f"Resource: {line}")] if line else []
    first, last = text("first"), text("last")

    shown = converted(first, block, last, handling="content", standard=standard)
    aside = converted(IMAGE, block, IMAGE, handling="artifact", standard=standard)

    kept = [block] if block["type"] == "resource_link" else []
    assert shown == ToolOutput(
        [first, *lines, forms[0 if standard else 1], last], artifact_of(*kept)
    )
    assert aside.artifact == artifact_of(IMAGE, block, IMAGE)
    label = {"text": "text"}.get(block["type"], block.get("mimeType"))
    labels = ", ".join(dict.fromkeys(["image/png", str(label)]))
    expected = lines[0]["text"] if lines else f"3 blocks were set aside ({labels})"
    assert aside.content == (forms[0]["text"] if kept else expected)


A_B = resource("a://b", text="inside")
NOTED = {"annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"vendor/x": None}}
ROWS: dict[str, tuple[list[Json], Json, Any, list[Json]]] = {
    # Blocks; options and other fields; the content; what is kept in the artifact.
    "an embedded resource leaves one line by default": (
        [TEXT, PDF],
        {},
        [TEXT, text("Resource: file:///x/a.pdf (application/pdf, 4 B)")],
        [PDF],
    ),
    "what is set aside keeps its order beside what is shown": (
        [IMAGE, TEXT, PAGE, AUDIO],
        {"handling": {"image": "artifact"}},
        [TEXT, text("Resource: docs://page (text/markdown, 10 B)"), SHOWN["audio"][2]],
        [IMAGE, PAGE],
    ),
    "a single text is a string": ([TEXT], {}, "hello", []),
    "a single text is a string in the older form": ([TEXT], {"standard": False}, "hello", []),
    "a single line about a resource is a string": (
        [PAGE],
        {},
        "Resource: docs://page (text/markdown, 10 B)",
        [PAGE],
    ),
    "a single text with notes is a string": ([{**TEXT, "_meta": {"vendor/x": 1}}], {}, "hello", []),
    "a text resource is a text in the older form too": (
        [A_B],
        {"handling": "content", "standard": False},
        [text("Resource: a://b (6 B)"), text("inside")],
        [],
    ),
    "notes on blocks are extras, and those on a link are kept": (
        [TEXT | NOTED, AUDIO | NOTED, WEB_IMAGE | NOTED],
        {},
        [
            text("hello", **NOTED),
            data("audio", WAV, "audio/wav", **NOTED),
            text("Resource: https://x.com/a.png - a"),
        ],
        [WEB_IMAGE | NOTED],
    ),
    "structure is written out beside an image": (
        [IMAGE],
        {"structuredContent": STRUCTURED},
        [SHOWN["image"][2], text(AS_JSON)],
        [],
    ),
    "structure for the program only leaves a line": (
        [],
        {"structuredContent": STRUCTURED, "handling": {"structured_content": "artifact"}},
        "1 block was set aside (structured content)",
        [],
    ),
    "structure is shown where only its text is set aside": (
        [text(AS_JSON)],
        {
            "structuredContent": STRUCTURED,
            "handling": {"text": "artifact", "structured_content": "content"},
        },
        AS_JSON,
        [text(AS_JSON)],
    ),
    "text that is set aside counts as text": (
        [TEXT],
        {"structuredContent": STRUCTURED, "handling": {"text": "artifact"}},
        "2 blocks were set aside (text, structured content)",
        [TEXT],
    ),
    "a block that cannot be read is quoted and kept": (
        [TEXT, HOLOGRAM, TEXT],
        {},
        [TEXT, text(json.dumps(HOLOGRAM)), TEXT],
        [HOLOGRAM],
    ),
    "a block that cannot be read may be set aside": (
        [HOLOGRAM],
        {"handling": "artifact"},
        "1 block was set aside (hologram)",
        [HOLOGRAM],
    ),
    "a quote does not hide the structure": (
        [HOLOGRAM],
        {"structuredContent": STRUCTURED},
        [text(json.dumps(HOLOGRAM)), text(AS_JSON)],
        [HOLOGRAM],
    ),
    "text that had to be repaired is text": (
        [{**TEXT, "annotations": "loud"}],
        {"structuredContent": STRUCTURED},
        "hello",
        [{**TEXT, "annotations": "loud"}],
    ),
    "half of a surrogate pair is escaped": (
        [],
        {"structuredContent": {"a": "\ud83d"}},
        '{"a": "\\ud83d"}',
        [],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_result_is_shown_and_kept(row: str) -> None:
    blocks, options, content, kept = ROWS[row]

    output = converted(*blocks, **options)

    assert output.content == content
    assert output.artifact == artifact_of(*kept, structured=options.get("structuredContent"))
    assert output == converted(*blocks, **options)  # the same in every run


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("said", ["", "hello"])
@pytest.mark.parametrize("structured", [None, STRUCTURED])
def test_text_structure_and_failure_in_every_combination(
    said: str, structured: Any, failed: bool
) -> None:
    sent = {} if structured is None else {"structuredContent": structured}

    output = converted(*([text(said)] if said else []), isError=failed, _meta={"v/x": 1}, **sent)

    nothing = NO_DETAILS if failed else NOTHING
    written = nothing if structured is None else json.dumps(structured, ensure_ascii=False)
    artifact = artifact_of(structured=structured, meta={"v/x": 1})
    assert output == ToolOutput(said or written, artifact, is_error=failed)


@pytest.mark.parametrize("structured", [[1, 2], "words", 7, False, []])
def test_structure_that_is_no_object_reaches_both_sides(structured: Any) -> None:
    output = converted(structuredContent=structured)

    assert output.content == json.dumps(structured)
    assert output.artifact["structured_content"] == structured


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_is_no_text(blank: str) -> None:
    assert converted(text(blank)).content == NOTHING
    assert converted(text(blank), isError=True).content == NO_DETAILS
    assert converted(text(blank), structuredContent=STRUCTURED).content == AS_JSON
    assert converted(text(blank), IMAGE).content == converted(IMAGE).content
    page = resource("a://b", text=blank)
    for standard in (True, False):
        shown = converted(page, handling="content", standard=standard)
        assert shown.content == f"Resource: a://b ({len(blank)} B)"


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
def test_structure_that_the_text_says_already_is_not_repeated(texts: list[str], structured: Json):
    blocks = list(map(text, texts))
    for route in ("auto", "content", "artifact"):
        handling = {"structured_content": route}
        output = converted(*blocks, structuredContent=structured, handling=handling)
        expected = texts[0] if len(texts) == 1 else blocks
        assert output == ToolOutput(expected, artifact_of(structured=structured))


@pytest.mark.parametrize(
    ("said", "structured"),
    [
        ("hello", STRUCTURED),
        ("7", {"result": 8}),
        ("7", {"result": "7", "unit": "m"}),
        ('{"total": 4}', {"total": 3}),
        ("{}", {"total": 3}),
    ],
)
def test_structure_that_says_more_is_added_where_it_is_asked_for(said: str, structured: Json):
    handling = {"structured_content": "content"}
    shown = converted(text(said), structuredContent=structured, handling=handling)

    added = text(json.dumps(structured, ensure_ascii=False))
    assert shown == ToolOutput([text(said), added], artifact_of(structured=structured))
    assert converted(text(said), structuredContent=structured).content == said


def test_values_that_are_nested_deeply_do_not_break_a_result() -> None:
    deep: Json = {}
    for _ in range(5000):
        deep = {"a": deep}
    facts: Json = {"meta": {"vendor/x": deep}}
    page = types.TextResourceContents.model_construct(
        uri="a://b", text="x", mime_type=None, **facts
    )
    sent = types.CallToolResult.model_construct(
        content=[
            types.TextContent.model_construct(type="text", text="x", **facts),
            types.EmbeddedResource(resource=page),
        ],
        structured_content=deep,
        is_error=False,
        meta=None,
    )
    for handling in ("content", "artifact"):
        result = ToolResult.from_mcp("s", "t", sent)
        output = convert_result(result, handling=OutputHandling.of(handling))
        assert output.artifact["structured_content"] is deep


def test_a_result_is_what_a_tool_message_holds() -> None:
    blocks = [block for block, *_ in SHOWN.values()]
    output = converted(*blocks, handling={"resource": "content"})
    content: Any = output.content
    message = ToolMessage(content, artifact=output.artifact, tool_call_id="1")

    assert message.content == output.content
    assert [part["type"] for part in message.content_blocks] == [
        part["type"] for part in output.content if isinstance(part, dict)
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([TEXT, data("image", PNG, "image/png"), text("again")], "hello\nagain"),
        ("plain", "plain"),
        (["one", text("two")], "one\ntwo"),
        ("", NO_DETAILS),
        (" ", NO_DETAILS),
        ([], NO_DETAILS),
        ([data("image", PNG, "image/png")], NO_DETAILS),
    ],
)
def test_the_text_of_an_error_has_no_data_in_it(content: Any, said: str) -> None:
    assert error_text(content) == said


# The message of a call.


@pytest.mark.parametrize("is_error", [False, True])
def test_a_message_is_equal_to_one_of_the_constructor(is_error: bool) -> None:
    output = ToolOutput("hello", {"server": "s"}, is_error=is_error)
    message, other = message_from(output, "7", "echo"), message_from(output, "8", "echo")
    facts = {"name": "echo", "status": "error" if is_error else "success"}
    expected = ToolMessage("hello", artifact=output.artifact, tool_call_id="7", **facts)

    assert message == expected
    assert list(vars(message).items()) == list(vars(expected).items())
    assert message.model_fields_set == expected.model_fields_set
    assert message.model_dump() == expected.model_dump()
    assert (repr(message), dumps(message)) == (repr(expected), dumps(expected))
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == expected
    assert message_from(output, 7, "echo").tool_call_id == "7"  # pyright: ignore[reportArgumentType]
    message.additional_kwargs["a"] = message.response_metadata["b"] = message.id = "1"
    message.model_fields_set.add("d")
    assert other == message_from(output, "8", "echo")
    assert other.model_fields_set == message_from(output, "8", "echo").model_fields_set


# Which parts the model reads.

TYPES = ["text", "image", "audio", "resource", "resource_link"]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], OutputHandling()),
        ([None, {}, None], OutputHandling(resource="artifact")),
        (["content"], OutputHandling(resource="content", structured_content="content")),
        ([{"image": "artifact"}, {"image": "content", "audio": None}], OutputHandling()),
        ([{"text": "artifact"}, "content"], OutputHandling.of("content")),
        (
            [dict.fromkeys([*TYPES, "structured_content"], "artifact")],
            OutputHandling.of("artifact"),
        ),
        (
            ["artifact", {"structured_content": "auto"}, {"resource_link": "content"}],
            OutputHandling(text="artifact", image="artifact", audio="artifact"),
        ),
    ],
)
def test_a_later_layer_wins_where_it_says_something(layers: list[Any], expected: Any) -> None:
    assert OutputHandling.of(*layers) == expected


BAD_ROUTES = [{"text": "auto"}, {"text": "nowhere"}, {"picture": "content"}, {"image": True}]


@pytest.mark.parametrize("layer", ["auto", "Content", 7, *BAD_ROUTES])
def test_a_type_or_route_that_does_not_exist_is_refused(layer: Any) -> None:
    with pytest.raises(ConfigError):
        OutputHandling.of(layer)
    with pytest.raises(ConfigError, match="resource_link"):
        OutputHandling.of({"resourceLink": "content"})


# Embedded resources of which the server sent only the URI.

BARE = resource("docs://a", mimeType="text/plain")
BARE_WEB = resource("https://x.com/a.png")
INSIDE = types.TextResourceContents(uri="docs://a", text="inside", mime_type="text/plain")


def test_each_uri_without_contents_is_to_be_read_once_and_nothing_else() -> None:
    links = [LINK, {"type": "resource_link", "uri": "docs://b"}, A_B, HOLOGRAM, TEXT]

    bare = result_of(BARE, TEXT, BARE_WEB, BARE)
    assert pending_reads(bare) == ["docs://a", "https://x.com/a.png"]
    assert pending_reads(result_of(*links)) == pending_reads(result_of()) == []


def test_what_was_read_stands_in_the_place_of_its_uri() -> None:
    more = types.BlobResourceContents(uri="docs://a#2", blob="AAAA")
    sent = result_of(TEXT, {**BARE, "_meta": {"vendor/x": 1}}, TEXT, BARE_WEB)

    filled = with_resources(sent, {"docs://a": [INSIDE, more]})

    assert convert_result(filled).content == [
        TEXT,
        text("Resource: docs://a (text/plain, 6 B)"),
        text("Resource: docs://a#2 (3 B)"),
        TEXT,
        text("Resource: https://x.com/a.png - a.png"),
    ]
    assert filled.content[1].meta == {"vendor/x": 1}
    assert pending_reads(filled) == ["https://x.com/a.png"]
    assert pending_reads(sent) == ["docs://a", "https://x.com/a.png"]


def test_a_link_stays_and_what_could_not_be_read_stays_an_address() -> None:
    meant = result_of({"type": "resource_link", "uri": "docs://a", "name": "a"})
    unread = with_resources(result_of(BARE), {"docs://a": []})

    assert with_resources(meant, {"docs://a": [INSIDE]}) == meant
    for handling in (None, "content", "artifact"):
        output = convert_result(unread, handling=OutputHandling.of(handling))
        assert output.content == "Resource: docs://a (text/plain) - a"
        assert output.artifact["content"] == [BARE]
    # No provider is sent to the address of an embedded resource.
    shown = converted(BARE_WEB, handling="content").content
    assert shown == "Resource: https://x.com/a.png - a.png"


def test_contents_that_had_to_be_repaired_are_kept_as_they_were_sent() -> None:
    odd = {"uri": "docs://a", "pages": 3}
    repaired = repair_result("resources/read", {"contents": [odd]}, "2025-11-25").result
    read = types.ReadResourceResult.model_validate(repaired)

    filled = with_resources(result_of(BARE), {"docs://a": read.contents})
    output = convert_result(filled, handling=OutputHandling.of("content"))

    lines = [text("Resource: docs://a (31 B)"), text(json.dumps(odd), uri="docs://a")]
    assert (output.content, output.artifact["content"]) == (lines, [odd])


# What hides text.

HIDDEN = "\u200b\U000e0041"
HIDDEN_LINK = {
    "type": "resource_link",
    "uri": f"https://x.com/{HIDDEN}",
    "name": f"n{HIDDEN}",
    "description": "d\x07",
    "mimeType": f"text/plain{HIDDEN}",
}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (text(f"a{HIDDEN}\x1b[31mb\u202e"), "ab\\u202e"),
        (text(HIDDEN), "1 block was set aside (text)"),
        (HIDDEN_LINK, "Resource: https://x.com/ (text/plain) - n: d\\u0007"),
    ],
    ids=["text", "nothing but hidden text", "link"],
)
def test_models_read_no_hidden_text_and_the_artifact_is_whole(block: Json, shown: str) -> None:
    output = converted(block)

    assert output.content == shown
    assert output.artifact["content"] == [block]
    plain = convert_result(result_of(text(f"a{HIDDEN}")), sanitize=False)
    assert (plain.content, plain.artifact["content"]) == (f"a{HIDDEN}", [])


def test_structure_stays_json_without_hidden_text() -> None:
    value = {"name": f"x{HIDDEN}", "turned": "\u202ey", "code": "\x9bz"}
    output = converted(structuredContent=value)

    assert isinstance(output.content, str)
    assert json.loads(output.content) == {"name": "x", "turned": "\u202ey", "code": "\x9bz"}
    assert not {*HIDDEN, "\u202e", "\x9b"} & set(output.content)
    assert output.artifact["structured_content"] == value


def test_an_error_of_a_server_is_cleaned_too() -> None:
    error = ProtocolError(f"no{HIDDEN}\x1b[2J")
    output = output_from_error(error, Tool(server="s", wire_name="t", name="t"))

    assert output.content == "no"
    assert output.artifact["error"]["message"] == f"no{HIDDEN}\x1b[2J"


# Blocks translated one by one.

MAPPED: dict[str, tuple[Any, str | Json]] = {
    "text": (TEXT, "hello"),
    "image": (IMAGE, data("image", PNG, "image/png")),
    "audio": (AUDIO, data("audio", WAV, "audio/wav")),
    "resource": (A_B, "Resource: a://b"),
    "link": (LINK, "Resource: file:///a.csv"),
    "a resource with an address only": (resource("a://b"), "Resource: a://b"),
    "a resource with a flat address": ({"type": "resource", "uri": "a://b"}, "Resource: a://b"),
    "a link without a name": ({"type": "resource_link", "uri": "a://b"}, "Resource: a://b"),
}
ODD = [HOLOGRAM, {"type": "image", "data": "AAAA"}, {"type": "resource"}, {"type": ["text"]}, {}]


def test_blocks_are_mapped_in_order_as_json_and_as_objects(caplog: Any) -> None:
    expected = [text(one) if isinstance(one, str) else one for _, one in MAPPED.values()]
    sent = [one for one, _ in MAPPED.values()]
    objects = types.CallToolResult.model_validate({"content": sent[:5]}).content

    with caplog.at_level(logging.WARNING, "plait.langchain"):
        assert map_content(sent) == expected
        assert map_content(objects) == expected[:5]
        assert map_content([]) == []
        assert caplog.records == []
        assert [map_content_item(odd) for odd in ODD] == [text(json.dumps(odd)) for odd in ODD]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * len(ODD)


# Whatever a server answers, the model reads something and the program gets the rest.

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
structures = values.filter(lambda value: value is not None)
strings = st.text()
contents = st.fixed_dictionaries(
    {"uri": strings}, optional={"text": strings, "blob": strings, "mimeType": strings}
)
media = {"type": st.sampled_from(["image", "audio"]), "data": strings, "mimeType": strings}
linked = {"type": st.just("resource_link"), "uri": strings, "name": strings}
about = {"size": st.integers(), "mimeType": strings, "description": strings}
good_blocks: st.SearchStrategy[Json] = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": strings}),
    st.fixed_dictionaries(media),
    st.fixed_dictionaries(linked, optional=about),
    st.fixed_dictionaries({"type": st.just("resource"), "resource": contents}),
)
odd_fields = st.dictionaries(st.sampled_from(["annotations", "_meta", "text", "data"]), values)
blocks = good_blocks | values | st.builds(lambda a, b: {**a, **b}, good_blocks, odd_fields)
answers = st.fixed_dictionaries(
    {"content": st.lists(blocks, max_size=4)},
    optional={
        "structuredContent": values,
        "isError": st.booleans(),
        "_meta": st.dictionaries(strings, values, max_size=2),
    },
)
routes = st.sampled_from(["content", "artifact"])
structure_routes = st.sampled_from(["auto", "content", "artifact"])
handlings = st.builds(
    OutputHandling, **dict.fromkeys(TYPES, routes), structured_content=structure_routes
)


@given(answers, handlings, st.booleans())
def test_every_answer_has_something_to_read_and_a_whole_artifact(
    answer: Json, handling: OutputHandling, standard: bool
) -> None:
    sent = result_of(*answer["content"], **{k: v for k, v in answer.items() if k != "content"})
    before = copy.deepcopy(sent)

    output = convert_result(sent, handling=handling, standard_blocks=standard)

    shown = output.content if isinstance(output.content, list) else [text(output.content)]
    assert shown
    assert all(block["text"].strip() for block in shown if block["type"] == "text")
    assert output.artifact.keys() == MCPToolArtifact.__required_keys__
    assert output.artifact["structured_content"] == answer.get("structuredContent")
    assert json.loads(json.dumps(output.artifact)) == output.artifact
    json.dumps(output.content)
    assert sent == before
    # Every block is on at least one side.
    blank = [one for one in sent.content if isinstance(one, types.TextContent)]
    count = len(sent.content) - sum(not one.text.strip() for one in blank)
    assert len(shown) + len(output.artifact["content"]) >= count
    # Reading what is pending leaves nothing pending.
    inside = [types.TextResourceContents(uri="a", text="read")]
    filled = with_resources(sent, dict.fromkeys(pending_reads(sent), inside))
    assert pending_reads(filled) == []
    assert len(filled.content) == len(sent.content)
    assert with_resources(sent, {}) == sent


@given(structures, st.sampled_from(["auto", "content"]))
def test_structure_is_never_said_twice_and_alone_is_whole(structured: Any, route: str) -> None:
    written = json.dumps(structured, indent=1, sort_keys=True)
    handling: Any = OutputHandling(structured_content=route)  # pyright: ignore[reportArgumentType]
    for wrapped in (structured, {"result": structured}):
        said = [types.TextContent(text=written)]
        sent = types.CallToolResult(content=[*said], structured_content=wrapped)
        shown = convert_result(ToolResult.from_mcp("s", "t", sent), handling=handling).content
        assert shown == written
    alone = types.CallToolResult(content=[], structured_content=structured)
    content = convert_result(ToolResult.from_mcp("s", "t", alone), sanitize=False).content
    assert isinstance(content, str)
    assert json.loads(content) == structured
