"""Asks a model for a JSON object, and validates the reply."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn, TypeVar, cast

from pydantic import ValidationError

from plait._support.redact import Redactor
from plait.errors import ReplyError
from plait.reasoning.backends.port import Completer, Completion, Prompt
from plait.reasoning.fields import Params, clamp_numbers

ReplyT = TypeVar("ReplyT", bound=Params)

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""Small local models write their thinking before the answer."""

_FENCED = re.compile(r"```[ \t]*(?:json)?[ \t]*\r?\n?(?P<inside>.*)```", re.DOTALL | re.IGNORECASE)
"""From the first fence to the last: a text inside the JSON may hold fences of its own."""

MAX_PROBLEMS = 5
"""Enough for a model to correct its answer."""

MAX_STRING_CHARACTERS = 400
MAX_ARRAY_ITEMS = 5

MAX_EXCERPT_CHARACTERS = 2000
"""How much of an invalid answer is sent back to the model, in characters."""


async def ask_json(
    completer: Completer, prompt: Prompt, reply_type: type[ReplyT]
) -> tuple[ReplyT, Completion]:
    """Ask for a JSON object of `reply_type`.

    Code fences around it are removed. An invalid answer is sent back to the model once, with its
    problems. The returned completion counts the tokens of both rounds.
    """
    prompt = replace(prompt, schema=schema_of(reply_type))
    first = await completer.complete(prompt)
    try:
        return reply_from_text(first.text, reply_type), first
    except ValueError as error:
        problem = str(error)
    answer = first.text
    excerpt = (
        answer if len(answer) <= MAX_EXCERPT_CHARACTERS else answer[:MAX_EXCERPT_CHARACTERS] + "…"
    )
    question = (
        f"{prompt.user}\n\n"
        f"Your last answer could not be used: {problem}\n"
        f"The answer was:\n{excerpt}\n\n"
        "Answer again, with the complete JSON object and nothing else."
    )
    second = await completer.complete(replace(prompt, user=question))
    completion = replace(
        second,
        input_tokens=_sum(first.input_tokens, second.input_tokens),
        output_tokens=_sum(first.output_tokens, second.output_tokens),
    )
    try:
        return reply_from_text(second.text, reply_type), completion
    except ValueError as error:
        # A model may repeat a secret of its prompt.
        excerpt = Redactor().excerpt(second.text, 120) or "nothing"
        problem = Redactor().excerpt(str(error))
        raise ReplyError(
            f"{completer.name} gave no usable answer for {prompt.pipe!r}, asked twice: "
            f"{problem}; it said: {excerpt}"
        ) from None


@cache
def schema_of(reply_type: type[Params]) -> dict[str, Any]:
    """Return the schema of a reply, without the metadata that a small model would fill at length.

    Strings are bounded, so that a model that repeats itself ends.
    """

    def bounded(value: Any) -> Any:
        if isinstance(value, list):
            return [bounded(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        schema = {key: bounded(item) for key, item in cast("dict[str, Any]", value).items()}
        if isinstance(schema.get("properties"), dict):
            schema["properties"].pop("metadata", None)
            schema["required"] = [*schema["properties"]]
        if schema.get("type") == "string":
            schema["maxLength"] = MAX_STRING_CHARACTERS
        if schema.get("type") == "array":
            schema.setdefault("maxItems", MAX_ARRAY_ITEMS)
        return schema

    return bounded(reply_type.model_json_schema())


def reply_from_text(text: str, reply_type: type[ReplyT]) -> ReplyT:
    """Parse the answer of a model; numbers are brought into their range.

    Raises:
        ValueError: It is no JSON object, or does not match; the text says why.
    """
    try:
        # More lenient than with a caller: a model gets no second chance for each small mistake.
        reply = reply_type.model_validate_json(_object_in(text), strict=False, extra="ignore")
        return clamp_numbers(reply, "", {})
    except ValidationError as error:
        # The problems do not quote the answer.
        problems = [
            f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}"
            for one in error.errors(include_url=False, include_context=False, include_input=False)
        ]
    more = len(problems) - MAX_PROBLEMS
    and_more = f"; and {more} more" if more > 0 else ""
    raise ValueError("; ".join(problems[:MAX_PROBLEMS]) + and_more)


def _object_in(text: str) -> str:
    answer = _THINKING.sub("", text).strip()
    candidates = [answer] if answer else []
    if fenced := _FENCED.search(answer):
        inside = fenced["inside"]
        candidates += [inside.partition("```")[0].strip(), inside.strip()]
    reason = "the answer is empty"
    for candidate in candidates:
        try:
            value: object = json.loads(candidate, parse_constant=_refuse_constant)
        except RecursionError:
            reason = "the JSON is nested too deeply"
        except ValueError as error:
            reason = f"this is not JSON: {error}"
        else:
            if isinstance(value, dict):
                return candidate
            reason = "this is JSON, but not an object"
    raise ValueError(reason)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)
