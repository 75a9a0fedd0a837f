"""Why a model stopped: which answers are complete, and whose calls may be made."""

from __future__ import annotations

from typing import Final, Literal

StopKind = Literal["complete", "truncated", "refused"]
"""Whether an answer is complete, was cut, or was refused or filtered."""

_TRUNCATED: Final = frozenset(
    {"max_tokens", "model_context_window_exceeded", "length", "max_output_tokens", "incomplete"}
    | {"model_length", "context_length_exceeded", "malformed_function_call"}
)
"""Reasons of Anthropic, OpenAI, Google, Mistral, Ollama and Bedrock, in lower case."""

_REFUSED: Final = frozenset(
    {"refusal", "content_filter", "content_filtered", "guardrail_intervened"}
    | {"safety", "recitation", "blocklist", "prohibited_content", "spii", "image_safety"}
)


UNFINISHED: Final = frozenset({"pause_turn", "compaction"})
"""Reasons of Anthropic after which the model continues with the next request."""

_BEFORE_THE_END: Final = UNFINISHED | {"stop_sequence"}
"""Reasons of Anthropic to stop anywhere, also in the arguments of a call."""


def stop_kind(reason: str | None) -> StopKind:
    """Classify a reason, as a provider names it; an unknown one is complete."""
    name = (reason or "").lower()
    if name in _TRUNCATED | UNFINISHED:
        return "truncated"
    return "refused" if name in _REFUSED else "complete"


def cuts_calls(reason: str | None) -> bool:
    """Return whether the arguments of calls may be incomplete in an answer that stopped so."""
    return stop_kind(reason) == "truncated" or (reason or "").lower() in _BEFORE_THE_END


def not_made(reason: str | None, max_tokens: int | None = None) -> str:
    """Return the text that answers a call of an incomplete answer."""
    if stop_kind(reason) == "refused":
        return f"This call was not made: the answer that requested it was refused ({reason})."
    if (reason or "").lower() in _BEFORE_THE_END:
        return (
            f"This call was not made: the answer that requested it stopped before its end "
            f"({reason}), so its arguments may be incomplete. Call again if that is needed."
        )
    limit = "" if max_tokens is None else f" of {max_tokens} tokens"
    return (
        f"This call was not made: the answer that requested it was cut at its limit{limit} "
        f"({reason}), so its arguments may be incomplete. Call again with shorter arguments, or in "
        "smaller steps."
    )
