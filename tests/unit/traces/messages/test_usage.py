"""Usage: what is written, and how it adds up."""

from __future__ import annotations

from plait.traces.messages.message import UsageMetadata


def test_the_counts_are_always_written_and_the_rest_where_it_is_known() -> None:
    assert UsageMetadata().to_dict() == {
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
    }
    full = UsageMetadata(1, 2, 3, 0.5, 0, 5, "m")
    assert full.to_dict() == {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "cost_usd": 0.5,
        "cache_read_tokens": 0,
        "cache_creation_tokens": 5,
        "model": "m",
    }
    assert UsageMetadata.from_dict(full.to_dict()) == full


def test_usages_add_up_and_what_nobody_knows_stays_unknown() -> None:
    one = UsageMetadata(1, 2, 3, None, 4, None, "a")
    other = UsageMetadata(10, 20, 30, 0.5, 1, None, None)

    assert one + other == UsageMetadata(11, 22, 33, 0.5, 5, None, "a")
