"""Two runs side by side: aligned turns, and what differs, by the rules of `differences`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from plait.traces.differences import AlignedStep, ComparedStep, aligned
from plait.traces.html.conversation import run_badge, run_title
from plait.traces.html.elements import Child, Html, h
from plait.traces.html.labels import cost_label, count_label, seconds_label
from plait.traces.html.page import SINGLE_FILE, Site, page
from plait.traces.html.text import text_block
from plait.traces.messages.content import TextContent, ThinkingContent, ToolUseContent
from plait.traces.trace import Trace

_WORDS = re.compile(r"\s+|\w+(?:[.,]\w+)*|[^\w\s]")
_MOST_WORDS = 3_000
"""Words of a text whose differences are marked one by one; of longer ones, by line."""
_MOST_LINES = 3_000
_SHORT = 90
"""Characters of JSON that stay on one line."""
_MOST_JSON = 100_000
_CONTEXT = 160
"""Characters of equal text that are shown around a difference."""

Part = tuple[str, str]
"""A part of a step: what it is, and its text."""


def compare_page(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    links: tuple[str, str] | None = None,
    site: Site = SINGLE_FILE,
) -> str:
    """Build a page with two runs side by side; `links` are the pages of the runs."""
    title = f"{names[0]} and {names[1]}"
    return page(title, compare_section(first, second, names=names, links=links), site=site)


def compare_section(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    links: tuple[str, str] | None = None,
) -> Html:
    """Build the facts of two runs and their aligned steps."""
    rows = aligned(first, second)
    changed = sum(not row.same for row in rows)
    verdict = "The runs are the same." if not changed else f"{count_label(changed, 'step')} differ."
    if changed == 1:
        verdict = "1 step differs."
    return h(
        "section",
        h("h1", run_title(first), dir="auto"),
        _facts(first, second, names, links),
        h("p", verdict, class_="verdict"),
        h("div", h("b", names[0]), h("b", names[1]), class_="pair names"),
        list(_rows(rows, names)),
        class_="compare",
    )


def _facts(
    first: Trace, second: Trace, names: tuple[str, str], links: tuple[str, str] | None
) -> Html:
    heads = [
        h("th", h("a", name, href=links[place]) if links else name)
        for place, name in enumerate(names)
    ]
    rows: list[tuple[str, Child, Child, str | None]] = [
        ("ended", run_badge(first), run_badge(second), None),
        ("model", first.actual_model or "–", second.actual_model or "–", None),
        _numbers("turns", first.turns, second.turns),
        _numbers("calls", len(first.calls), len(second.calls)),
        _numbers("tokens", first.usage.total_tokens, second.usage.total_tokens),
        _costs(first.usage.cost_usd, second.usage.cost_usd),
        _seconds(first.seconds, second.seconds),
    ]
    body = [
        h("tr", h("th", name), h("td", left), h("td", right), h("td", change, class_="muted"))
        for name, left, right, change in rows
    ]
    return h("table", h("tr", h("th"), heads, h("th")), body, class_="versus")


def _numbers(name: str, left: int, right: int) -> tuple[str, Child, Child, str | None]:
    change = f"{right - left:+,}" if right != left else "="
    return name, f"{left:,}", f"{right:,}", change


def _costs(left: float | None, right: float | None) -> tuple[str, Child, Child, str | None]:
    change = None if left is None or right is None else _ratio(left, right)
    return "cost", cost_label(left) or "–", cost_label(right) or "–", change


def _seconds(left: float, right: float) -> tuple[str, Child, Child, str | None]:
    return "time", seconds_label(left), seconds_label(right), _ratio(left, right)


def _ratio(left: float, right: float) -> str | None:
    return None if left <= 0 else f"{100 * (right - left) / left:+.0f} %"


def _rows(rows: Sequence[AlignedStep], names: tuple[str, str]) -> Iterator[Html]:
    numbers = _numbered(rows)
    for same, group in groupby(enumerate(rows), key=lambda pair: pair[1].same):
        found = list(group)
        shown = [_row(row, numbers[place], place, names) for place, row in found]
        if same:
            label = f"{count_label(len(found), 'step')} the same"
            yield h("details", h("summary", label), shown, class_="same")
        else:
            yield from shown


def _numbered(rows: Sequence[AlignedStep]) -> list[str]:
    """Name each row: by its turn in the runs, or by what it is."""
    left = right = 0
    names: list[str] = []
    for row in rows:
        kind = (row.first or row.second or _NOTHING).kind
        left += row.first is not None and kind == "turn"
        right += row.second is not None and kind == "turn"
        if kind != "turn":
            names.append({"question": "Question", "failure": "Failure"}.get(kind, "End"))
        elif row.first is None:
            names.append(f"Turn {right}, only here")
        elif row.second is None:
            names.append(f"Turn {left}, only here")
        else:
            names.append(f"Turn {left}" if left == right else f"Turn {left} and {right}")
    return names


_NOTHING = ComparedStep(kind="end", text="")


def _row(row: AlignedStep, name: str, place: int, names: tuple[str, str]) -> Html:
    left, right = _parts(row.first), _parts(row.second)
    pairs = list(_part_pairs(left, right))
    cells: list[Html] = []
    for one, other in pairs:
        before, after = _marked(one and one[1], other and other[1])
        same = "equal" if one == other and not row.same else ""
        cells.append(_cell(one, before, "first" if other is None else same, names[0]))
        cells.append(_cell(other, after, "second" if one is None else same, names[1]))
    return h(
        "article",
        h("h3", name),
        h("div", cells, class_="pair"),
        class_="aligned" if row.same else "aligned differs",
        id=f"s{place}",
        tabindex="-1",
        data_item=True,
    )


def _cell(part: Part | None, content: Child, class_: str, run: str) -> Html:
    """Build one side of a pair; it names its run where the sides stand below each other."""
    if part is None:
        return h("div", class_="cell none")
    return h("div", h("p", part[0], class_="role", data_of=run), content, class_=f"cell {class_}")


def _parts(step: ComparedStep | None) -> list[Part]:
    """Return the texts, calls and results of a step."""
    if step is None:
        return []
    if step.kind in {"failure", "end"}:
        pairs = (line.partition(": ") for line in step.text.split("\n", 1))
        return [(label, text) for label, _, text in pairs]
    parts: list[Part] = []
    names: dict[str, str] = {}
    for message in step.messages:
        for block in message.content:
            match block:
                case TextContent():
                    parts.append((message.role.value, block.text))
                case ThinkingContent():
                    parts.append(("thinking", block.thinking))
                case ToolUseContent():
                    names[block.id] = block.name
                    arguments = _json(block.input)
                    parts.append((f"calls {block.name}", arguments))
                case _:
                    pass
        for result in message.tool_results:
            name = names.get(result.tool_use_id, "a tool")
            label = f"error of {name}" if result.is_error else f"result of {name}"
            parts.append((label, _readable(result.content)))
    return parts


def _json(value: object) -> str:
    line = json.dumps(value, ensure_ascii=False, default=str)
    if len(line) <= _SHORT:
        return line
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _readable(content: str) -> str:
    """Break the lines of JSON; any other text stays as it is."""
    if content[:1] not in {"{", "["} or len(content) > _MOST_JSON:
        return content
    try:
        return _json(json.loads(content))
    except (ValueError, RecursionError):
        return content


def _part_pairs(
    left: Sequence[Part], right: Sequence[Part]
) -> Iterator[tuple[Part | None, Part | None]]:
    labels = [part[0] for part in left], [part[0] for part in right]
    for kind, a, b, c, d in SequenceMatcher(None, *labels, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from ((part, None) for part in left[a:b])
            yield from ((None, part) for part in right[c:d])


def _marked(left: str | None, right: str | None) -> tuple[Child, Child]:
    """Mark what differs in two texts."""
    if left is None or right is None or left == right:
        return _plain(left), _plain(right)
    words = _WORDS.findall(left), _WORDS.findall(right)
    if max(map(len, words)) > _MOST_WORDS:
        words = left.splitlines(keepends=True), right.splitlines(keepends=True)
    if max(map(len, words)) > _MOST_LINES:
        return _plain(left), _plain(right)
    before: list[Child] = []
    after: list[Child] = []
    for kind, a, b, c, d in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        old, new = "".join(words[0][a:b]), "".join(words[1][c:d])
        if kind == "equal":
            before.append(_elided(old))
            after.append(_elided(new))
        else:
            before.append(h("del", old) if old else None)
            after.append(h("ins", new) if new else None)
    return h("pre", before, dir="auto"), h("pre", after, dir="auto")


def _elided(text: str) -> Child:
    if len(text) <= 3 * _CONTEXT:
        return text
    left_out = f" … {len(text) - 2 * _CONTEXT:,} characters the same … "
    return [text[:_CONTEXT], h("span", left_out, class_="cut"), text[-_CONTEXT:]]


def _plain(text: str | None) -> Child:
    return None if text is None else text_block(text, class_="")
