"""Content blocks become text for a person, or files."""

import base64
from pathlib import Path

import pytest
from mcp import types

from plait.cli.commands.call import print_result
from plait.cli.content import part_from_block, part_from_contents, saved_parts
from plait.client.calls.outcome import ToolResult

PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)


def image(data: bytes = PNG, mime_type: str = "image/png") -> types.ImageContent:
    return types.ImageContent(data=base64.b64encode(data).decode(), mime_type=mime_type)


def test_each_kind_of_block_has_its_line() -> None:
    blob = types.BlobResourceContents(
        uri="shop://manual", mime_type="application/pdf", blob=base64.b64encode(b"%PDF").decode()
    )
    blocks: list[types.ContentBlock] = [
        types.TextContent(text="hello"),
        image(),
        types.AudioContent(data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav"),
        types.EmbeddedResource(
            resource=types.TextResourceContents(uri="shop://notes", text="some notes")
        ),
        types.EmbeddedResource(resource=blob),
        types.ResourceLink(uri="shop://item/1", name="one", mime_type="text/plain", size=1234),
        types.ResourceLink(uri="shop://item/2", name="two"),
        types.ImageContent(data="not base64!", mime_type="image/png"),
    ]

    assert [str(part_from_block(block)) for block in blocks] == [
        "hello",
        "[image image/png, 2.0 kB; --save DIR writes it]",
        "[audio audio/wav, 4 B; --save DIR writes it]",
        "some notes",
        "[resource shop://manual application/pdf, 4 B; --save DIR writes it]",
        "[link shop://item/1, text/plain, 1.2 kB]",
        "[link shop://item/2]",
        "[image image/png, invalid base64]",
    ]


def test_data_is_saved_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    parts = [part_from_block(image()), part_from_block(types.TextContent(text="hello"))]

    first = saved_parts(parts, folder, "shop-../logo")
    second = saved_parts(parts, folder, "shop-../logo")

    assert [path.name for path in sorted(folder.iterdir())] == [
        "shop-_logo-1.png",
        "shop-_logo-2.png",
    ]
    assert (folder / "shop-_logo-1.png").read_bytes() == PNG
    assert str(first[0]) == f"[image image/png, 2.0 kB: {folder / 'shop-_logo-1.png'}]"
    assert second[1] == parts[1]


def test_an_unknown_kind_of_data_is_saved_as_bin(tmp_path: Path) -> None:
    contents = types.BlobResourceContents(uri="x://y", blob=base64.b64encode(b"x").decode())

    (saved,) = saved_parts([part_from_contents(contents)], tmp_path, "x")

    assert saved.saved == tmp_path / "x-1.bin"


@pytest.mark.parametrize(("text", "shown"), [("a", "a\n"), ("", '\n{\n  "x": 1\n}\n')])
def test_structured_content_is_printed_where_no_words_are(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = ToolResult(
        server="shop",
        tool="add",
        is_error=False,
        content=(types.TextContent(text=text),),
        structured_content={"x": 1},
    )

    print_result(result, None, as_json=False, quiet=False)

    assert capsys.readouterr().out == shown
