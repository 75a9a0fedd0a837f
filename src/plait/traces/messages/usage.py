"""The usage of a model: tokens and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class UsageMetadata:
    """Tokens and cost of a turn or a run, as the provider reported them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float | None = None
    cache_read_tokens: int | None = None
    """Input tokens from the cache of the provider; `None` if it does not report them."""

    cache_creation_tokens: int | None = None
    """Input tokens written to the cache of the provider."""

    model: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON: the three counts, and the other fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Convert the result of `to_dict` to a usage."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: data[name] for name in names if name in data})

    def __add__(self, other: UsageMetadata) -> UsageMetadata:
        """Add two usages; the model is the last one that is known."""
        names = [field.name for field in fields(self) if field.name != "model"]
        sums = {name: _sum(getattr(self, name), getattr(other, name)) for name in names}
        return UsageMetadata(**sums, model=other.model or self.model)


def _sum(first: Any, second: Any) -> Any:
    """Add two numbers; `None` is unknown, and adds nothing."""
    if first is None or second is None:
        return first if second is None else second
    return first + second
