"""Servers that break the protocol: every good part arrives, the broken part is named."""

from __future__ import annotations

import pytest

from plait import Toolbox
from tests.servers import Era, raw_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ERAS: tuple[Era, ...] = ("legacy", "modern")


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_good_in_a_broken_answer_arrives(era: Era) -> None:
    async with Toolbox({"raw": raw_stdio_config("all", era=era)}) as box:
        tools = await box.tools()
        names = {tool.wire_name for tool in tools}
        assert "good" in names
        assert "tool-without-schema" not in names or "unknown-block" in names
        repaired = " ".join(box.status()["raw"].repaired)
        assert "inputSchema" in repaired

        for name, kind in {
            "unknown-block": "text",
            "uri-only-resource": "resource_link",
            "image-without-type": "text",
            "link-without-name": "resource_link",
        }.items():
            result = await box.call("raw", name)
            assert [block.type for block in result.content] == ["text", kind, "text"], name
            assert result.content[0].text == "before"  # pyright: ignore[reportAttributeAccessIssue]
            assert result.content[2].text == "after"  # pyright: ignore[reportAttributeAccessIssue]
            assert result.content[1].meta is not None
            assert "plait/original" in result.content[1].meta
            assert "content[1]" in result.notes[0]
            assert not result.is_error

        assert (await box.call("raw", "good")).text == "good"
        empty = await box.call("raw", "no-content")
        assert (empty.content, empty.structured_content) == ((), {"total": 3})
        assert (await box.call("raw", "content-string")).text == "just a string"
        assert (await box.call("raw", "content-object")).text == "one block"

        broken = await box.call("raw", "breaks-schema")
        assert broken.text == "before"
        assert broken.structured_content == {"total": "many"}
        assert "output schema" in broken.notes[0]


@pytest.mark.parametrize("era", ERAS)
async def test_all_pages_of_a_list_are_read(era: Era) -> None:
    async with Toolbox({"raw": raw_stdio_config("two-pages", era=era)}) as box:
        assert len(await box.tools()) >= 2


@pytest.mark.parametrize("era", ERAS)
async def test_tools_of_the_same_name_are_never_handed_out_twice(era: Era) -> None:
    async with Toolbox({"raw": raw_stdio_config("duplicate-names", era=era)}) as box:
        names = [tool.name for tool in await box.tools()]
        assert len(names) == len(set(names))
