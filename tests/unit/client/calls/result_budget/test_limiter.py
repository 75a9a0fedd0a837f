"""Results stay within their budget, and everything that is left out can be read."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Mapping
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.cut import cost_of
from plait.client.calls.result_budget.limiter import OWN_SERVER, READ_MORE, ResultLimiter
from plait.client.calls.tool_call import RunIdentity, ToolCall
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


def reading(handle: str, **asked: Any) -> ToolCall:
    return ToolCall(server=OWN_SERVER, tool=READ_MORE, arguments={"handle": handle, **asked})


async def read_text(limiter: ResultLimiter, handle: str, block: int) -> str:
    """Read a whole block as text, range after range."""
    text, start = "", 0
    while True:
        answer = await limiter.answer_read_more(reading(handle, block=block, start=start))
        piece, note = answer.content
        assert isinstance(piece, types.TextContent)
        assert isinstance(note, types.TextContent)
        assert tokens_of(answer) <= TOKENS
        text += piece.text
        start += len(piece.text)
        if "this is the end" in note.text:
            return text
        assert f"start={start}]" in note.text


async def test_what_is_within_its_budget_is_left_alone() -> None:
    result = result_of("x" * 4 * TOKENS)

    assert await limiter_of().limited(result, CALL) is result


async def test_without_a_budget_nothing_is_cut_and_no_tool_is_offered() -> None:
    limiter = ResultLimiter(None, NO_SERVERS)
    result = result_of("x" * 5_000_000)

    assert await limiter.limited(result, CALL) is result
    assert not limiter.has_limits


async def test_five_megabytes_of_text_can_be_read_to_the_end() -> None:
    whole = "".join(f"{number}: grün 🎈\n" for number in range(280_000))
    limiter = limiter_of(400_000)

    shorter = await limiter.limited(result_of(whole), CALL)

    assert shorter.full_result is not None
    assert len(shorter.text.encode()) <= 1_600_000
    assert len(whole.encode()) > 5_000_000
    text, start = "", 0
    while start < len(whole):
        piece, _ = (
            await limiter.answer_read_more(reading(shorter.full_result, start=start))
        ).content
        assert isinstance(piece, types.TextContent)
        text, start = text + piece.text, start + len(piece.text)
    assert text == whole


async def test_a_thousand_rows_stay_json_and_can_be_read_to_the_end() -> None:
    rows = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(1000)]
    data = {"total": 1000, "rows": rows}
    limiter = limiter_of()

    shorter = await limiter.limited(result_of(json.dumps(data, indent=2), structured=data), CALL)

    assert tokens_of(shorter) <= TOKENS
    shown = json.loads(shorter.text)
    assert shown == shorter.structured_content
    *kept, mark = shown["rows"]
    assert shorter.full_result is not None
    start = int(re.findall(r"start=(\d+)", json.dumps(mark))[0])
    assert start == len(kept)
    while start < 1000:
        answer = await limiter.answer_read_more(
            reading(shorter.full_result, path="$.rows", start=start)
        )
        piece, note = answer.content
        assert isinstance(piece, types.TextContent)
        assert isinstance(note, types.TextContent)
        assert tokens_of(answer) <= TOKENS
        kept += json.loads(piece.text)
        start = len(kept)
    assert kept == rows
    assert "this is the end" in note.text  # pyright: ignore[reportPossiblyUnboundVariable]


async def test_thirty_images_are_shown_as_far_as_they_fit_and_read_one_by_one() -> None:
    images = [image(3000, seed) for seed in range(30)]
    limiter = limiter_of(8000)

    shorter = await limiter.limited(result_of("Pictures:", *images), CALL)

    shown = [block for block in shorter.content if isinstance(block, types.ImageContent)]
    assert shown == images[: len(shown)]
    assert 4 < len(shown) < 10
    assert len(shorter.content) == 31
    limit = Limit(tokens=8000)
    assert sum(cost_of(block, limit) for block in shorter.content) <= 32_000
    assert shorter.full_result is not None
    line = shorter.content[30]
    assert isinstance(line, types.TextContent)
    read = f'read_more(handle="{shorter.full_result}", block=30)'
    assert line.text == f"[image/png of 3000 bytes, left out; to read it: {read}]"
    seen: list[Any] = []
    while len(seen) < 30:
        answer = await limiter.answer_read_more(reading(shorter.full_result, block=len(seen) + 1))
        seen += [block for block in answer.content if isinstance(block, types.ImageContent)]
    assert seen == images


async def test_a_large_picture_counts_as_what_a_model_pays_for_one() -> None:
    limiter = limiter_of(2000)
    result = result_of(image(2_000_000))

    assert await limiter.limited(result, CALL) is result


async def test_with_a_budget_of_bytes_a_picture_counts_as_its_bytes() -> None:
    limiter = ResultLimiter(ResultBudget(default=Limit(bytes=10_000)), NO_SERVERS)
    picture = image(20_000)

    shorter = await limiter.limited(result_of(picture), CALL)

    assert shorter.full_result is not None
    (line,) = shorter.content
    assert isinstance(line, types.TextContent)
    data, start = "", 0
    while start < len(picture.data):
        piece, _ = (
            await limiter.answer_read_more(reading(shorter.full_result, start=start))
        ).content
        assert isinstance(piece, types.TextContent)
        data, start = data + piece.text, start + len(piece.text)
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
    for number, block in enumerate(result.content):
        match block:
            case types.TextContent(text=text):
                whole = text
            case types.ImageContent(data=data):
                whole = data
            case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
                whole = text
            case _:
                raise AssertionError(block)
        assert await read_text(limiter, shorter.full_result, number) == whole
    if result.structured_content is not None:
        text = await read_text(limiter, shorter.full_result, len(result.content))
        assert json.loads(text) == result.structured_content


async def test_a_thousand_blocks_become_a_few_and_one_line() -> None:
    blocks = [json.dumps({"id": number, "text": "x" * 100}) for number in range(1000)]
    limiter = limiter_of()

    shorter = await limiter.limited(result_of(*blocks), CALL)

    *kept, last = [block.text for block in shorter.content if isinstance(block, types.TextContent)]
    assert kept == blocks[: len(kept)]
    assert len(kept) > 20
    assert shorter.full_result is not None
    read = f'read_more(handle="{shorter.full_result}", block={len(kept)})'
    assert last == f"[{1000 - len(kept)} more blocks are left out; to read on: {read}]"
    while len(kept) < 1000:
        *more, note = (
            await limiter.answer_read_more(reading(shorter.full_result, block=len(kept)))
        ).content
        kept += [block.text for block in more if isinstance(block, types.TextContent)]
    assert kept == blocks
    assert isinstance(note, types.TextContent)  # pyright: ignore[reportPossiblyUnboundVariable]
    assert "999 of 1000" in note.text


async def test_structured_content_beside_another_text_shares_its_budget() -> None:
    rows = {"rows": [{"id": number} for number in range(2000)]}
    limiter = limiter_of()

    shorter = await limiter.limited(result_of("2000 rows were found.", structured=rows), CALL)

    assert shorter.text == "2000 rows were found."
    assert tokens_of(shorter) <= TOKENS
    assert shorter.full_result is not None
    assert shorter.structured_content is not None
    assert "block=1" in shorter.structured_content["plait/cut"]
    answer = await limiter.answer_read_more(
        reading(shorter.full_result, block=1, path="$.rows[1990:].id")
    )
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
    rows = json.dumps([{"id": number} for number in range(1000)])

    fits = await limiter.limited(result_of("x" * TOKENS), CALL)
    shorter = await limiter.limited(result_of(rows), CALL)

    assert fits.full_result is None
    assert len(shorter.text) <= TOKENS
    assert isinstance(json.loads(shorter.text), list)
    assert shorter.full_result is not None
    answer = await limiter.answer_read_more(reading(shorter.full_result))
    assert sum(map(len, answer.text.splitlines())) <= TOKENS


async def test_a_path_reads_a_string_a_number_and_an_object() -> None:
    data = {"text": "ab" * 10_000, "number": 7, "object": {"key": [1, 2]}}
    limiter = limiter_of()
    shorter = await limiter.limited(result_of(json.dumps(data)), CALL)
    assert shorter.full_result is not None

    async def first(**asked: Any) -> str:
        block = (
            await limiter.answer_read_more(reading(str(shorter.full_result), **asked))
        ).content[0]
        assert isinstance(block, types.TextContent)
        return block.text

    assert await first(path="$.text", start=2, length=4) == "abab"
    assert await first(path="$.number") == "7"
    assert json.loads(await first(path="$.object")) == {"key": [1, 2]}
    assert json.loads(await first(path="$", start=1)) == {"number": 7, "object": {"key": [1, 2]}}
    assert len((await first(path="$.text")).encode()) <= 4 * TOKENS


async def test_an_item_that_is_too_large_by_itself_is_shortened() -> None:
    data = [{"text": "x" * 50_000, "id": 1}, {"id": 2}]
    limiter = limiter_of()
    shorter = await limiter.limited(result_of(json.dumps(data)), CALL)

    answer = await limiter.answer_read_more(reading(str(shorter.full_result), path="$"))

    piece, note = answer.content
    assert isinstance(piece, types.TextContent)
    assert isinstance(note, types.TextContent)
    (item,) = json.loads(piece.text)
    assert item["id"] == 1
    assert "path=$[0].text" in item["text"]
    assert "start=1" in note.text
    assert tokens_of(answer) <= TOKENS


async def test_find_lists_where_a_text_stands() -> None:
    lines = "".join(
        f"{number} {'ERROR' if number % 1000 == 7 else 'fine'}\n" for number in range(5000)
    )
    limiter = limiter_of()
    shorter = await limiter.limited(result_of(lines), CALL)

    answer = await limiter.answer_read_more(reading(str(shorter.full_result), find="error"))

    starts = [int(one) for one in re.findall(r"^start=(\d+):", answer.text, re.MULTILINE)]
    assert [lines[start : start + 5] for start in starts] == ["ERROR"] * 5
    assert answer.text.endswith("[5 places]")
    nothing = await limiter.answer_read_more(reading(str(shorter.full_result), find="panic"))
    assert nothing.text == "There is no match.\n[0 places]"


@pytest.mark.parametrize(
    "asked",
    [
        {"block": 2},
        {"start": 100_000},
        {"path": "$.rows"},
        {"start": -1},
        {"length": 0},
        {"find": ""},
        {"page": 2},
    ],
)
async def test_a_wrong_argument_is_explained(asked: dict[str, Any]) -> None:
    limiter = limiter_of()
    shorter = await limiter.limited(result_of("x" * 10_000), CALL)

    with pytest.raises(InvalidArgumentsError):
        await limiter.answer_read_more(reading(str(shorter.full_result), **asked))


async def test_results_of_others_are_refused_like_ones_that_are_unknown() -> None:
    def made_by(user: str, thread: str | None, call: ToolCall = CALL) -> ToolCall:
        return ToolCall(
            server=call.server,
            tool=call.tool,
            arguments=call.arguments,
            access=CallerCredentials.of({"X-User": user}),
            run=RunIdentity(thread=thread),
        )

    limiter, other_client = limiter_of(), limiter_of()
    shorter = await limiter.limited(result_of("x" * 10_000), made_by("ann", "1"))
    call = reading(str(shorter.full_result))

    assert (await limiter.answer_read_more(made_by("ann", "1", call))).content
    for stranger in (made_by("bob", "1", call), made_by("ann", "2", call), call):
        with pytest.raises(ResultExpiredError) as refused:
            await limiter.answer_read_more(stranger)
    with pytest.raises(ResultExpiredError) as unknown:
        await other_client.answer_read_more(made_by("ann", "1", call))
    assert str(refused.value) == str(unknown.value)  # pyright: ignore[reportPossiblyUnboundVariable]
    assert "call the tool again" in str(unknown.value)


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
