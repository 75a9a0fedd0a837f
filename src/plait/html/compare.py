"""Two runs side by side: aligned turns, and what differs, by the rules of `differences`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby

from plait.html.conversation import run_title
from plait.html.elements import Child, Html, h
from plait.html.page import SINGLE_FILE, Site, page
from plait.html.pieces import cost_label, count_label, folded, seconds_label, status_badge
from plait.html.text import text_block
from plait.traces.differences import AlignedStep, ComparedStep, aligned
from plait.traces.messages.message import TextContent, ThinkingContent, ToolUseContent
from plait.traces.trace import Trace

_WORDS = re.compile(r"\s+|\w+(?:[.,]\w+)*|[^\w\s]")
MAX_COMPARED_WORDS = 3_000
"""Words of a text whose differences are marked one by one; of longer ones, by line."""
MAX_COMPARED_LINES = 3_000
"""Of longer texts nothing is marked: the time to compare grows with the square."""
MAX_LINE_CHARACTERS = 90
"""Longer JSON is broken into lines, so that differences can be marked in them."""
MAX_JSON_CHARACTERS = 100_000
"""A longer text is not read as JSON."""
_CONTEXT = 160
"""Characters of equal text that are shown around a difference."""

Part = tuple[str, str]
"""A part of a step: what it is, and its text."""


def compare_page(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    site: Site = SINGLE_FILE,
) -> str:
    """Build a page with two runs side by side."""
    title = f"{names[0]} and {names[1]}"
    return page(title, compare_section(first, second, names=names), site=site)


def compare_section(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
) -> Html:
    """Build the facts of two runs and their aligned steps; steps without a change are folded."""
    rows = aligned(first, second)
    changed = sum(not row.same for row in rows)
    verdict = "The runs are the same."
    if changed:
        verdict = "1 step differs." if changed == 1 else f"{count_label(changed, 'step')} differ."
    labels = _row_labels(rows)
    steps: list[Html] = []
    for same, group in groupby(enumerate(rows), key=lambda pair: pair[1].same):
        shown = [_row(row, labels[place], place, names) for place, row in group]
        label = f"{count_label(len(shown), 'step')} the same"
        steps += [folded(label, shown, class_="same")] if same else shown
    return h(
        "section",
        h("h1", run_title(first), dir="auto"),
        _facts(first, second, names),
        h("p", verdict, class_="verdict"),
        h("div", h("b", names[0]), h("b", names[1]), class_="pair names"),
        steps,
        class_="compare",
    )


def _facts(first: Trace, second: Trace, names: tuple[str, str]) -> Html:
    def number(name: str, left: int, right: int) -> tuple[str, Child, Child, str | None]:
        change = f"{right - left:+,}" if right != left else "="
        return name, f"{left:,}", f"{right:,}", change

    def ratio(left: float | None, right: float | None) -> str | None:
        if left is None or right is None or left <= 0:
            return None
        return f"{100 * (right - left) / left:+.0f} %"

    old, new = first.usage, second.usage
    took = ratio(first.seconds, second.seconds)
    spent = ratio(old.cost_usd, new.cost_usd)
    badges = [status_badge(one.status, one.failed_calls) for one in (first, second)]
    rows: list[tuple[str, Child, Child, str | None]] = [
        ("ended", badges[0], badges[1], None),
        ("model", first.actual_model or "–", second.actual_model or "–", None),
        number("turns", first.turns, second.turns),
        number("calls", len(first.calls), len(second.calls)),
        number("tokens", old.total_tokens, new.total_tokens),
        ("cost", cost_label(old.cost_usd) or "–", cost_label(new.cost_usd) or "–", spent),
        ("time", seconds_label(first.seconds), seconds_label(second.seconds), took),
    ]
    body = [
        h("tr", h("th", name), h("td", left), h("td", right), h("td", change, class_="muted"))
        for name, left, right, change in rows
    ]
    return h(
        "table", h("tr", h("th"), [h("th", name) for name in names], h("th")), body, class_="versus"
    )


def _row_labels(rows: Sequence[AlignedStep]) -> list[str]:
    """Name each row: by its turn in the runs, or by what it is."""
    left = right = 0
    labels: list[str] = []
    for row in rows:
        step = row.first or row.second
        kind = "end" if step is None else step.kind
        left += row.first is not None and kind == "turn"
        right += row.second is not None and kind == "turn"
        if kind != "turn":
            labels.append({"question": "Question", "failure": "Failure"}.get(kind, "End"))
        elif row.first is None:
            labels.append(f"Turn {right}, only here")
        elif row.second is None:
            labels.append(f"Turn {left}, only here")
        else:
            labels.append(f"Turn {left}" if left == right else f"Turn {left} and {right}")
    return labels


def _row(row: AlignedStep, label: str, place: int, names: tuple[str, str]) -> Html:
    left, right = _parts(row.first), _parts(row.second)
    kinds = [part[0] for part in left], [part[0] for part in right]
    pairs: list[tuple[Part | None, Part | None]] = []
    for change, a, b, c, d in SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
        if change == "equal":
            pairs += zip(left[a:b], right[c:d], strict=True)
        else:
            pairs += [(part, None) for part in left[a:b]]
            pairs += [(None, part) for part in right[c:d]]
    cells: list[Html] = []
    for one, other in pairs:
        before, after = _marked_texts(one and one[1], other and other[1])
        same = "equal" if one == other and not row.same else ""
        cells.append(_cell(one, before, "first" if other is None else same, names[0]))
        cells.append(_cell(other, after, "second" if one is None else same, names[1]))
    return h(
        "article",
        h("h3", label),
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
                    parts.append((f"calls {block.name}", _json(block.input)))
                case _:
                    pass
        for result in message.tool_results:
            name = names.get(result.tool_use_id, "a tool")
            label = f"error of {name}" if result.is_error else f"result of {name}"
            content = result.content
            if content[:1] in {"{", "["} and len(content) <= MAX_JSON_CHARACTERS:
                with suppress(ValueError, RecursionError):
                    content = _json(json.loads(content))
            parts.append((label, content))
    return parts


def _json(value: object) -> str:
    line = json.dumps(value, ensure_ascii=False, default=str)
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _marked_texts(left: str | None, right: str | None) -> tuple[Child, Child]:
    """Mark what differs in two texts."""
    whole = [None if text is None else text_block(text, class_="") for text in (left, right)]
    if left is None or right is None or left == right:
        return whole[0], whole[1]
    words = _WORDS.findall(left), _WORDS.findall(right)
    if max(map(len, words)) > MAX_COMPARED_WORDS:
        words = left.splitlines(keepends=True), right.splitlines(keepends=True)
    if max(map(len, words)) > MAX_COMPARED_LINES:
        return whole[0], whole[1]
    before: list[Child] = []
    after: list[Child] = []
    for kind, a, b, c, d in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        old, new = "".join(words[0][a:b]), "".join(words[1][c:d])
        if kind != "equal":
            before.append(h("del", old) if old else None)
            after.append(h("ins", new) if new else None)
            continue
        shown: Child = old
        if len(old) > 3 * _CONTEXT:
            left_out = f" … {len(old) - 2 * _CONTEXT:,} characters the same … "
            shown = [old[:_CONTEXT], h("span", left_out, class_="cut"), old[-_CONTEXT:]]
        before.append(shown)
        after.append(shown)
    return h("pre", before, dir="auto"), h("pre", after, dir="auto")
