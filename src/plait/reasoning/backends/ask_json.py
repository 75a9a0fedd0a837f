"""Asking a model for a JSON object, and taking nothing else for an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from plait._support.redact import Redactor
from plait.errors import ReplyError
from plait.reasoning.backends.port import Completer, Completion, Prompt

ReplyT = TypeVar("ReplyT", bound=BaseModel)

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""Small local models think aloud before they answer."""

_FENCED = re.compile(r"```[ \t]*(?:json)?[ \t]*\r?\n?(?P<inside>.*)```", re.DOTALL | re.IGNORECASE)
"""From the first fence to the last: a text inside the JSON may hold fences of its own."""

_MOST_PROBLEMS = 5
"""As many as a model needs to see what it did wrong."""

_LONGEST_EXCERPT = 2000
"""How much of a bad answer is shown to the model that wrote it, in characters."""


async def ask_json(
    completer: Completer, prompt: Prompt, reply_type: type[ReplyT]
) -> tuple[ReplyT, Completion]:
    """Ask for a JSON object that fits `reply_type`.

    Code fences around it are taken off. An answer that does not fit is shown to the model once,
    with what is wrong. The completion that is returned counts the tokens of both rounds.

    Raises:
        ReplyError: The second answer does not fit either.
        BackendError: The model could not be reached, or refused.
    """
    first = await completer.complete(prompt)
    try:
        return reply_from_text(first.text, reply_type), first
    except ValueError as error:
        problem = str(error)
    second = await completer.complete(_repair(prompt, first.text, problem))
    completion = replace(
        second,
        input_tokens=_sum(first.input_tokens, second.input_tokens),
        output_tokens=_sum(first.output_tokens, second.output_tokens),
    )
    try:
        return reply_from_text(second.text, reply_type), completion
    except ValueError as error:
        # The answer is the text of a model: whatever it repeats of a secret must not be shown.
        said = Redactor().excerpt(second.text, 120) or "nothing"
        wrong = Redactor().excerpt(str(error))
        raise ReplyError(
            f"{completer.name} gave no usable answer for {prompt.pipe!r}, asked twice: "
            f"{wrong}; it said: {said}"
        ) from None


def reply_from_text(text: str, reply_type: type[ReplyT]) -> ReplyT:
    """Read the answer of a model.

    Raises:
        ValueError: It is no JSON object, or does not fit; the text says why.
    """
    found = _object_in(text)
    try:
        return reply_type.model_validate_json(found)
    except ValidationError as error:
        raise ValueError(_problems(error)) from None


def _object_in(text: str) -> str:
    """Return the part of a text that is a JSON object."""
    reasons: list[str] = []
    for candidate in _candidates(text):
        try:
            value: object = json.loads(candidate, parse_constant=_refuse_constant)
        except RecursionError:
            reasons.append("the JSON is nested too deeply")
        except ValueError as error:
            reasons.append(f"this is not JSON: {error}")
        else:
            if isinstance(value, dict):
                return candidate
            reasons.append("this is JSON, but not an object")
    raise ValueError(reasons[-1] if reasons else "the answer is empty")


def _candidates(text: str) -> Iterator[str]:
    answer = _THINKING.sub("", text).strip()
    if answer:
        yield answer
    if fenced := _FENCED.search(answer):
        yield fenced["inside"].partition("```")[0].strip()
        yield fenced["inside"].strip()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _problems(error: ValidationError) -> str:
    """Say what does not fit, without quoting the answer."""
    found = [
        f"{'.'.join(map(str, problem['loc'])) or 'the object'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = len(found) - _MOST_PROBLEMS
    return "; ".join(found[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _repair(prompt: Prompt, answer: str, problem: str) -> Prompt:
    """Return the prompt for the second round."""
    shown = answer if len(answer) <= _LONGEST_EXCERPT else answer[:_LONGEST_EXCERPT] + "…"
    return replace(
        prompt,
        user=(
            f"{prompt.user}\n\n"
            f"Your last answer could not be used: {problem}\n"
            f"The answer was:\n{shown}\n\n"
            "Answer again, with the complete JSON object and nothing else."
        ),
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)
