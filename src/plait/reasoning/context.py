"""Selects the thoughts of a session for a prompt, so that its size is bounded."""

from __future__ import annotations

from collections.abc import Sequence

from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Thought

MOST_THOUGHTS = 30
"""The most thoughts in a prompt."""

BUDGET_TOKENS = 4000
"""The most tokens of a session in a prompt, four bytes each."""


async def recent_context(
    store: Storage, session_id: str, *, most: int = MOST_THOUGHTS, budget: int = BUDGET_TOKENS
) -> list[Thought]:
    """Return the first thought, which states the topic, and the last ones."""
    recent = await store.get_recent_thoughts(session_id, most)
    first = await store.get_first_thought(session_id)
    return within_budget(first, recent, most=most, budget=budget)


def within_budget(
    first: Thought | None, recent: Sequence[Thought], *, most: int, budget: int
) -> list[Thought]:
    """Return the first thought, then as many of the last as fit, in order."""
    if first is None:
        return []
    left = budget - estimated_tokens(first.content)
    kept: list[Thought] = []
    for thought in reversed(recent):
        left -= estimated_tokens(thought.content)
        if thought.id == first.id or left < 0 or len(kept) >= most - 1:
            break
        kept.append(thought)
    return [first, *reversed(kept)]


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens of a text."""
    return -(-len(text.encode()) // 4)


def truncated(text: str, budget: int = BUDGET_TOKENS) -> str:
    """Cut a text that exceeds the budget."""
    return text if estimated_tokens(text) <= budget else text[: budget * 2] + " […]"


def as_lines(thoughts: Sequence[Thought]) -> str:
    """Return thoughts as a list of lines."""
    return "\n".join(f"- {truncated(thought.content)}" for thought in thoughts)
