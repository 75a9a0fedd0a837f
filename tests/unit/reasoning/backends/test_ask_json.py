"""Reading the JSON that a model was asked for, and nothing else."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import Field

from plait.errors import BackendError, ReplyError
from plait.reasoning.backends.ask_json import ask_json, reply_from_text
from plait.reasoning.backends.port import Completion, Prompt, ScriptedCompleter
from plait.reasoning.fields import Params


class Thought(Params):
    thought: str
    confidence: float = Field(ge=0, le=1)
    mode: Literal["linear", "tree"] = "linear"
    steps: list[str] = Field(default_factory=list[str])


PROMPT = Prompt(
    pipe="linear-reasoning-v1", system="s", user="Think.", temperature=0.7, max_tokens=100
)
GOOD = {"thought": "yes", "confidence": 1, "mode": "tree", "steps": ["a"]}


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "  {}\n",
        "```json\n{}\n```",
        "```\n{}\n```",
        "```JSON\r\n{}\r\n```",
        "Sure:\n```json\n{}```\nDone.",
        "```json\n{}\n```\n\n```python\nprint(1)\n```",
        "<think>\nMaybe {{1}}?\n```json\n[]\n```\n</think>\n{}",
    ],
)
def test_an_object_is_found_in_what_models_put_around_it(around: str) -> None:
    text = around.replace("{}", json.dumps(GOOD))

    reply = reply_from_text(text, Thought)

    assert reply == Thought(thought="yes", confidence=1.0, mode="tree", steps=["a"])


def test_fences_inside_of_a_text_do_not_end_the_object() -> None:
    inside = {"thought": "```json\n{}\n```", "confidence": 0.5}

    for text in (json.dumps(inside), f"```json\n{json.dumps(inside)}\n```"):
        assert reply_from_text(text, Thought).thought == inside["thought"]


@given(st.text("abc{}`\n ", min_size=1).filter(str.strip), st.floats(0, 1), st.text(max_size=5))
def test_every_object_is_read_bare_and_fenced_and_what_is_unknown_in_it_is_ignored(
    thought: str, confidence: float, unknown: str
) -> None:
    value = {f"x{unknown}": unknown, "thought": thought, "confidence": str(confidence)}
    for text in (json.dumps(value), f"```json\n{json.dumps(value, indent=1)}\n```"):
        assert reply_from_text(text, Thought) == Thought(thought=thought, confidence=confidence)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", snapshot("the answer is empty")),
        (" \n", snapshot("the answer is empty")),
        ("[]", snapshot("this is JSON, but not an object")),
        ("null", snapshot("this is JSON, but not an object")),
        ("I say: {}", snapshot("this is not JSON: Expecting value: line 1 column 1 (char 0)")),
        (
            '{"thought": "x", "confidence": 0.',
            snapshot("this is not JSON: Expecting ',' delimiter: line 1 column 33 (char 32)"),
        ),
        (
            '{"thought": "x", "confidence": NaN}',
            snapshot("this is not JSON: NaN is not a number of JSON"),
        ),
        ("[" * 100_000, snapshot("the JSON is nested too deeply")),
        ('{"confidence": 0.5}', snapshot("thought: Field required")),
        (
            '{"thought": "x", "confidence": 2, "mode": "sideways"}',
            snapshot(
                "confidence: Input should be less than or equal to 1; "
                "mode: Input should be 'linear' or 'tree'"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        reply_from_text(text, Thought)

    assert str(refused.value) == reason


@pytest.mark.anyio
async def test_a_good_answer_takes_one_round() -> None:
    completer = ScriptedCompleter([GOOD])

    reply, completion = await ask_json(completer, PROMPT, Thought)

    assert reply.thought == "yes"
    assert completion == Completion(text=json.dumps(GOOD), model="scripted")
    assert completer.prompts == [PROMPT]


@pytest.mark.anyio
async def test_the_second_round_says_what_was_wrong_and_counts_both() -> None:
    completer = ScriptedCompleter(
        [
            Completion(text='{"thought": 1}', model="a", input_tokens=10, output_tokens=1),
            Completion(text=json.dumps(GOOD), model="b", input_tokens=20, output_tokens=2),
        ]
    )

    _, completion = await ask_json(completer, PROMPT, Thought)

    first, second = completer.prompts
    assert (completion.model, completion.input_tokens, completion.output_tokens) == ("b", 30, 3)
    assert (second.pipe, second.system, second.temperature, second.max_tokens) == (
        first.pipe,
        first.system,
        first.temperature,
        first.max_tokens,
    )
    assert second.user == snapshot(
        """\
Think.

Your last answer could not be used: thought: Input should be a valid string\
; confidence: Field required
The answer was:
{"thought": 1}

Answer again, with the complete JSON object and nothing else.\
"""
    )


@pytest.mark.anyio
async def test_an_endless_answer_is_shown_only_in_part() -> None:
    completer = ScriptedCompleter(["word " * 100_000, GOOD])

    await ask_json(completer, PROMPT, Thought)

    assert len(completer.prompts[1].user) < 3000


@pytest.mark.anyio
async def test_two_bad_answers_are_an_error_with_a_short_and_safe_cut_of_the_last() -> None:
    token = "sk-" + "a1" * 20
    completer = ScriptedCompleter(["first", f"The key is {token}. " + "blah " * 1000])

    with pytest.raises(ReplyError) as failed:
        await ask_json(completer, PROMPT, Thought)

    text = str(failed.value)
    assert "scripted" in text
    assert "'linear-reasoning-v1'" in text
    assert "The key is" in text
    assert token not in text
    assert len(text) < 500
    assert "\n" not in text
    assert len(completer.prompts) == 2


@pytest.mark.anyio
async def test_an_error_of_the_backend_is_not_answered_with_another_round() -> None:
    completer = ScriptedCompleter([BackendError("down", backend="scripted"), GOOD])

    with pytest.raises(BackendError, match="down"):
        await ask_json(completer, PROMPT, Thought)

    assert len(completer.prompts) == 1
