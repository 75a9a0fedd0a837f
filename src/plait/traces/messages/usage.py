"""What a run, or a turn of it, needed of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar


@dataclass(frozen=True, slots=True)
class UsageMetadata:
    """Tokens and cost, as the provider reported them."""

    input_tokens: int = 0

    output_tokens: int = 0

    total_tokens: int = 0

    cost_usd: float | None = None

    cache_read_tokens: int | None = None
    """Tokens of the input that came from the provider's cache; `None` where it does not say."""

    cache_creation_tokens: int | None = None
    """Tokens of the input that were put into the provider's cache."""

    model: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Describe it as plain data: the three counts, and what else is known."""
        rest = {
            "cost_usd": self.cost_usd,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_creation_tokens": self.cache_creation_tokens,
            "model": self.model,
        }
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
            **{name: value for name, value in rest.items() if value is not None},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            input_tokens=data.get("input_tokens", 0),
            output_tokens=data.get("output_tokens", 0),
            total_tokens=data.get("total_tokens", 0),
            cost_usd=data.get("cost_usd"),
            cache_read_tokens=data.get("cache_read_tokens"),
            cache_creation_tokens=data.get("cache_creation_tokens"),
            model=data.get("model"),
        )

    def __add__(self, other: UsageMetadata) -> UsageMetadata:
        """Add up two usages; the model is the later one that is known."""
        return UsageMetadata(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_creation_tokens=_sum(self.cache_creation_tokens, other.cache_creation_tokens),
            model=other.model or self.model,
        )


Number = TypeVar("Number", int, float)


def _sum(one: Number | None, other: Number | None) -> Number | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other
