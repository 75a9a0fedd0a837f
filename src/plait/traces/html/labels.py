"""Formats numbers for people: durations, tokens, cost, counts."""

from __future__ import annotations

from plait.traces.messages.message import UsageMetadata


def seconds_label(seconds: float | None) -> str:
    """Format a duration: `4 ms`, `0.92 s`, `12.4 s`, `3 min 5 s`; a dash for `None`."""
    if seconds is None:
        return "–"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "<1 ms"
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count_label(count: int, noun: str) -> str:
    """Format a count: `1 tool`, `2,000 tools`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def cost_label(cost_usd: float | None) -> str | None:
    """Format a cost: `$0.0012`, `$12.30`; `None` if it is unknown."""
    if cost_usd is None:
        return None
    return f"${cost_usd:,.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def tokens_label(usage: UsageMetadata | None) -> str | None:
    """Format the tokens of a turn: `1,200 → 80 tokens`; `None` if there are none."""
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return None
    return f"{usage.input_tokens:,} → {usage.output_tokens:,} tokens"
