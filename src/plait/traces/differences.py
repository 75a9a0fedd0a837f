"""How two runs differ: by their messages and calls, without ids, times and usage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from operator import attrgetter
from typing import Literal

from plait.traces.messages.message import Content, Message, Role, ToolResultContent, ToolUseContent
from plait.traces.raw import messages_to_raw_trace
from plait.traces.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStep:
    """A step of a run as it is compared: a question, a turn with its results, or the end."""

    kind: Literal["question", "turn", "failure", "end"]
    text: str
    """What must be equal."""
    messages: tuple[Message, ...] = ()
    """The messages that it consists of, with numbers in place of the ids of calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedStep:
    """A step of one run, and its counterpart in the other; `None` if it has none."""

    first: ComparedStep | None
    second: ComparedStep | None

    @property
    def same(self) -> bool:
        """Whether both runs did the same here."""
        if self.first is None or self.second is None:
            return False
        return _key(self.first) == _key(self.second)


def differences(first: Trace, second: Trace, *, names: tuple[str, str] = ("a", "b")) -> list[str]:
    """Return the lines of a unified diff; none if the runs are equal."""
    return list(unified_diff(_lines(first), _lines(second), *names, lineterm=""))


def _lines(trace: Trace) -> list[str]:
    texts = (step.text + "\n" * (step.kind == "turn") for step in compared_steps(trace))
    return "\n".join(texts).split("\n")


def aligned(first: Trace, second: Trace) -> list[AlignedStep]:
    """Put the steps of two runs side by side; a step without a counterpart stands alone."""

    def tools(step: ComparedStep) -> Hashable:
        """Steps that call the same tools belong together, even if their texts differ."""
        return step.kind, tuple(call.name for one in step.messages for call in one.tool_calls)

    keys = (_key, tools, attrgetter("kind"))
    return list(_align(compared_steps(first), compared_steps(second), keys))


def _key(step: ComparedStep) -> Hashable:
    return step.kind, step.text


def _align(
    left: Sequence[ComparedStep],
    right: Sequence[ComparedStep],
    keys: Sequence[Callable[[ComparedStep], Hashable]],
) -> Iterator[AlignedStep]:
    """Align by the first key; what it leaves, by the others."""
    if not keys or not left or not right:
        yield from (AlignedStep(first=step, second=None) for step in left)
        yield from (AlignedStep(first=None, second=step) for step in right)
        return
    key, *others = keys
    matcher = SequenceMatcher(None, [key(one) for one in left], [key(one) for one in right])
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(left[a:b], right[c:d], strict=True)
            yield from (AlignedStep(first=one, second=other) for one, other in pairs)
        else:
            yield from _align(left[a:b], right[c:d], others)


def compared_steps(trace: Trace) -> list[ComparedStep]:
    """Return the steps of a run as they are compared."""
    questions = trace.started.messages if trace.started else ()
    steps = [
        ComparedStep(kind="question", text=f"asked: {message.text}", messages=(message,))
        for message in questions
    ]
    # A turn is a message of the model and the results of its calls; their ids become numbers.
    turns: list[list[Message]] = []
    numbers: dict[str, str] = {}
    for message in trace.messages:
        # A later turn may reuse an id for another call.
        for number, call in enumerate(message.tool_calls, 1):
            numbers[call.id] = str(number)
        compared = Message(
            message.role, [_with_number(block, numbers) for block in message.content]
        )
        if message.role is Role.TOOL and turns:
            turns[-1].append(compared)
        else:
            turns.append([compared])
    steps += [
        ComparedStep(kind="turn", text=messages_to_raw_trace(turn), messages=tuple(turn))
        for turn in turns
    ]
    if trace.failure:
        steps.append(ComparedStep(kind="failure", text=f"failure: {trace.failure.error}"))
    end = f"ended: {trace.status}\nanswer: {trace.final_response}"
    return [*steps, ComparedStep(kind="end", text=end)]


def _with_number(block: Content, numbers: dict[str, str]) -> Content:
    match block:
        case ToolUseContent():
            return ToolUseContent(numbers[block.id], block.name, block.input)
        case ToolResultContent():
            number = numbers.get(block.tool_use_id, "?")
            return ToolResultContent(number, block.content, block.is_error)
        case _:
            return block
