"""Results stay within their budget, and everything that is left out can be read."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget import OWN_SERVER, READ_MORE, ResultLimiter, cost_of
from plait.client.calls.tool_call import ToolCall
from plait.client.config.budgets import Limit, ResultBudget
from plait.client.config.servers import ServerConfig, StdioServer
from plait.client.connections.credentials import CallerCredentials
from plait.errors import InvalidArgumentsError, ResultExpiredError

pytestmark = pytest.mark.anyio

TOKENS = 1000
CALL = ToolCall(server="s", tool="t")
NO_SERVERS: Mapping[str, ServerConfig] = {}


def limiter_of(tokens: int = TOKENS, **more: Any) -> ResultLimiter:
    return ResultLimiter(ResultBudget(default=Limit(tokens=tokens)), NO_SERVERS, **more)


def result_of(*blocks: Any, structured: Any = None, meta: Any = None) -> ToolResult:
    made = [types.TextContent(text=one) if isinstance(one, str) else one for one in blocks]
    return ToolResult(
        server="s",
        tool="t",
        is_error=False,
        content=tuple(made),
        structured_content=structured,
        meta=meta,
    )


def image(size: int, seed: int = 0) -> types.ImageContent:
    data = base64.b64encode(random.Random(seed).randbytes(size)).decode()
    return types.ImageContent(data=data, mime_type="image/png")


def tokens_of(result: ToolResult) -> int:
    """Count what a model may get to see of a result."""
    limit = Limit(tokens=TOKENS)
    size = sum(cost_of(block, limit) for block in result.content)
    structured = result.structured_content
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    said = json.dumps(structured, ensure_ascii=False)
    same = [one for one in texts if _parsed(one) in (structured, (structured or {}).get("result"))]
    if structured is not None and not same:
        size += len(said.encode())
    return -(-size // 4)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def texts_of(result: ToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


class Shortened:
    """A result that is over its budget, and how it is read on."""

    def __init__(self, limiter: ResultLimiter, shorter: ToolResult) -> None:
        self.limiter = limiter
        self.shorter = shorter
        assert shorter.full_result is not None
        self.handle: str = shorter.full_result

    def call(self, **asked: Any) -> ToolCall:
        arguments = {"handle": self.handle, **asked}
        return ToolCall(server=OWN_SERVER, tool=READ_MORE, arguments=arguments)

    async def read(self, **asked: Any) -> ToolResult:
        return await self.limiter.answer_read_more(self.call(**asked))

    async def text(self, **asked: Any) -> str:
        """Read a whole text, range after range."""
        text = ""
        while True:
            answer = await self.read(start=len(text), **asked)
            piece, note = texts_of(answer)
            assert tokens_of(answer) <= TOKENS
            text += piece
            if "this is the end" in note:
                return text
            assert f"start={len(text)}]" in note


async def shortened(limiter: ResultLimiter, *blocks: Any, **more: Any) -> Shortened:
    return Shortened(limiter, await limiter.limited(result_of(*blocks, **more), CALL))


@pytest.mark.parametrize(
    ("limiter", "block", "has_limits"),
    [
        (limiter_of(), "x" * 4 * TOKENS, True),
        (ResultLimiter(None, NO_SERVERS), "x" * 5_000_000, False),
        # A large picture counts as what a model pays for one.
        (limiter_of(2000), image(2_000_000), True),
    ],
    ids=["within the budget", "no budget", "a picture"],
)
async def test_what_is_within_its_budget_is_left_alone(
    limiter: ResultLimiter, block: Any, has_limits: bool
) -> None:
    result = result_of(block)

    assert await limiter.limited(result, CALL) is result
    assert limiter.has_limits is has_limits


async def test_five_megabytes_of_text_can_be_read_to_the_end() -> None:
    whole = "".join(f"{number}: grün 🎈\n" for number in range(280_000))

    kept = await shortened(limiter_of(400_000), whole)

    assert len(kept.shorter.text.encode()) <= 1_600_000
    assert len(whole.encode()) > 5_000_000
    text = ""
    while len(text) < len(whole):
        text += texts_of(await kept.read(start=len(text)))[0]
    assert text == whole


async def test_a_thousand_rows_stay_json_and_can_be_read_to_the_end() -> None:
    rows = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(1000)]
    data = {"total": 1000, "rows": rows}

    kept = await shortened(limiter_of(), json.dumps(data, indent=2), structured=data)

    assert tokens_of(kept.shorter) <= TOKENS
    shown = json.loads(kept.shorter.text)
    assert shown == kept.shorter.structured_content
    *seen, mark = shown["rows"]
    assert re.findall(r"start=(\d+)", json.dumps(mark)) == [str(len(seen))]
    note = ""
    while len(seen) < 1000:
        answer = await kept.read(path="$.rows", start=len(seen))
        piece, note = texts_of(answer)
        assert tokens_of(answer) <= TOKENS
        seen += json.loads(piece)
    assert seen == rows
    assert "this is the end" in note


async def test_thirty_images_are_shown_as_far_as_they_fit_and_read_one_by_one() -> None:
    images = [image(3000, seed) for seed in range(30)]

    kept = await shortened(limiter_of(8000), "Pictures:", *images)

    content = kept.shorter.content
    shown = [block for block in content if isinstance(block, types.ImageContent)]
    assert shown == images[: len(shown)]
    assert 4 < len(shown) < 10
    assert len(content) == 31
    assert sum(cost_of(block, Limit(tokens=8000)) for block in content) <= 32_000
    read = f'read_more(handle="{kept.handle}", block=30)'
    assert texts_of(kept.shorter)[-1] == f"[image/png of 3000 bytes, left out; to read it: {read}]"
    seen: list[Any] = []
    while len(seen) < 30:
        answer = await kept.read(block=len(seen) + 1)
        seen += [block for block in answer.content if isinstance(block, types.ImageContent)]
    assert seen == images


async def test_with_a_budget_of_bytes_a_picture_counts_as_its_bytes() -> None:
    limiter = ResultLimiter(ResultBudget(default=Limit(bytes=10_000)), NO_SERVERS)
    picture = image(20_000)

    kept = await shortened(limiter, picture)

    assert [block.type for block in kept.shorter.content] == ["text"]
    data = ""
    while len(data) < len(picture.data):
        data += texts_of(await kept.read(start=len(data)))[0]
    assert data == picture.data


blobs = st.builds(image, st.integers(0, 20_000), st.integers(0, 5))
long_texts = st.builds(
    lambda piece, times: piece * times, st.text(min_size=1, max_size=40), st.integers(1, 2000)
)
json_texts = st.recursive(
    st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=40,
).map(lambda value: json.dumps({"list": [value] * 20}, indent=2))
resources = st.builds(
    lambda text: types.EmbeddedResource(
        resource=types.TextResourceContents(uri="file:///a", text=text)
    ),
    long_texts,
)
results = st.builds(
    lambda blocks, structured: result_of(*blocks, structured=structured),
    st.lists(long_texts | json_texts | blobs | resources, max_size=12),
    st.none() | json_texts.map(json.loads),
)


@settings(max_examples=60)
@given(results)
async def test_any_result_fits_its_budget_and_every_block_can_be_read_exactly(
    result: ToolResult,
) -> None:
    limiter = limiter_of()

    shorter = await limiter.limited(result, CALL)

    assert tokens_of(shorter) <= TOKENS
    if shorter.full_result is None:
        assert shorter is result
        return
    assert limiter.full_result(shorter.full_result) is result
    kept = Shortened(limiter, shorter)
    for number, block in enumerate(result.content):
        whole: Any = block.resource if isinstance(block, types.EmbeddedResource) else block
        text = whole.data if isinstance(whole, types.ImageContent) else whole.text
        assert await kept.text(block=number) == text
    if result.structured_content is not None:
        text = await kept.text(block=len(result.content))
        assert json.loads(text) == result.structured_content


async def test_a_thousand_blocks_become_a_few_and_one_line() -> None:
    blocks = [json.dumps({"id": number, "text": "x" * 100}) for number in range(1000)]

    kept = await shortened(limiter_of(), *blocks)

    *seen, last = texts_of(kept.shorter)
    assert seen == blocks[: len(seen)]
    assert len(seen) > 20
    read = f'read_more(handle="{kept.handle}", block={len(seen)})'
    assert last == f"[{1000 - len(seen)} more blocks are left out; to read on: {read}]"
    note = ""
    while len(seen) < 1000:
        *more, note = texts_of(await kept.read(block=len(seen)))
        seen += more
    assert seen == blocks
    assert "999 of 1000" in note


async def test_structured_content_beside_another_text_shares_its_budget() -> None:
    rows = {"rows": [{"id": number} for number in range(2000)]}

    kept = await shortened(limiter_of(), "2000 rows were found.", structured=rows)

    assert kept.shorter.text == "2000 rows were found."
    assert tokens_of(kept.shorter) <= TOKENS
    assert kept.shorter.structured_content is not None
    assert "block=1" in kept.shorter.structured_content["plait/cut"]
    answer = await kept.read(block=1, path="$.rows[1990:].id")
    assert answer.text.splitlines()[0] == json.dumps(list(range(1990, 2000)))


async def test_metadata_that_is_larger_than_the_budget_is_left_out() -> None:
    result = result_of("x" * 10_000, meta={"huge": "y" * 10_000})

    shorter = await limiter_of().limited(result, CALL)

    assert shorter.meta is None
    assert shorter.to_mcp().meta == {"plait/full_result": shorter.full_result}


async def test_a_counter_of_tokens_replaces_the_estimate() -> None:
    def count_letters(text: str) -> int:
        return len(text)

    limiter = limiter_of(counter=count_letters)
    fits = await limiter.limited(result_of("x" * TOKENS), CALL)
    kept = await shortened(limiter, json.dumps([{"id": number} for number in range(1000)]))

    assert fits.full_result is None
    assert len(kept.shorter.text) <= TOKENS
    assert isinstance(json.loads(kept.shorter.text), list)
    assert sum(map(len, (await kept.read()).text.splitlines())) <= TOKENS


async def test_a_path_reads_a_string_a_number_and_an_object() -> None:
    data = {"text": "ab" * 10_000, "number": 7, "object": {"key": [1, 2]}}
    kept = await shortened(limiter_of(), json.dumps(data))

    async def first(**asked: Any) -> str:
        return texts_of(await kept.read(**asked))[0]

    assert await first(path="$.text", start=2, length=4) == "abab"
    assert await first(path="$.number") == "7"
    assert json.loads(await first(path="$.object")) == {"key": [1, 2]}
    assert json.loads(await first(path="$", start=1)) == {"number": 7, "object": {"key": [1, 2]}}
    assert len((await first(path="$.text")).encode()) <= 4 * TOKENS


async def test_an_item_that_is_too_large_by_itself_is_shortened() -> None:
    kept = await shortened(limiter_of(), json.dumps([{"text": "x" * 50_000, "id": 1}, {"id": 2}]))

    answer = await kept.read(path="$")

    piece, note = texts_of(answer)
    (item,) = json.loads(piece)
    assert item["id"] == 1
    assert "path=$[0].text" in item["text"]
    assert "start=1" in note
    assert tokens_of(answer) <= TOKENS


async def test_find_lists_where_a_text_stands() -> None:
    words = ("ERROR" if number % 1000 == 7 else "fine" for number in range(5000))
    lines = "".join(f"{number} {word}\n" for number, word in enumerate(words))
    kept = await shortened(limiter_of(), lines)

    answer = await kept.read(find="error")

    starts = [int(one) for one in re.findall(r"^start=(\d+):", answer.text, re.MULTILINE)]
    assert [lines[start : start + 5] for start in starts] == ["ERROR"] * 5
    assert answer.text.endswith("[5 places]")
    assert (await kept.read(find="panic")).text == "There is no match.\n[0 places]"


@pytest.mark.parametrize(
    "asked",
    [
        *({"block": 2}, {"start": 100_000}, {"path": "$.rows"}, {"start": -1}, {"length": 0}),
        *({"find": ""}, {"page": 2}),
    ],
)
async def test_a_wrong_argument_is_explained(asked: dict[str, Any]) -> None:
    kept = await shortened(limiter_of(), "x" * 10_000)

    with pytest.raises(InvalidArgumentsError):
        await kept.read(**asked)


async def test_results_of_others_are_refused_like_ones_that_are_unknown() -> None:
    kept = await shortened(limiter_of(), "x" * 10_000)
    stranger = replace(kept.call(), access=CallerCredentials.of({"X-User": "bob"}))

    with pytest.raises(ResultExpiredError, match="call the tool again") as refused:
        await kept.limiter.answer_read_more(stranger)
    with pytest.raises(ResultExpiredError) as unknown:
        await limiter_of().answer_read_more(kept.call())
    assert str(refused.value) == str(unknown.value)


async def test_tools_and_servers_have_budgets_of_their_own() -> None:
    common = ResultBudget(
        default=Limit(tokens=1000), tools={"s/big*": Limit(tokens=5000), "free": Limit()}
    )
    own = ResultBudget(default=Limit(bytes=2000), tools={"bigger": Limit(tokens=10_000)})
    servers = {"o": StdioServer(command="x", result_budget=own)}
    limiter = ResultLimiter(common, servers)

    async def bytes_of(server: str, tool: str) -> int:
        call = ToolCall(server=server, tool=tool)
        return len((await limiter.limited(result_of("x" * 100_000), call)).text)

    assert 3900 < await bytes_of("s", "t") <= 4000
    assert 19_900 < await bytes_of("s", "big_one") <= 20_000
    assert await bytes_of("s", "free") == 100_000
    assert 1900 < await bytes_of("o", "t") <= 2000
    assert 3900 < await bytes_of("p", "big_one") <= 4000
    assert 39_900 < await bytes_of("o", "bigger") <= 40_000
