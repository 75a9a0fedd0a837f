"""What requests to models cost: by a table of your own, or by the package `genai-prices`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias

from plait.traces.messages.message import UsageMetadata

CostOf: TypeAlias = Callable[[str, UsageMetadata], float | None]
"""Takes the name of a model and a usage; returns US dollars, or `None` if they are not known."""

PriceTable: TypeAlias = Mapping[str, Mapping[str, float]]
"""US dollars for a million tokens, by model: `input`, `output`, `cache_read`, `cache_creation`."""

_COUNTS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_creation": "cache_creation_tokens",
}


def cost_function(prices: PriceTable | CostOf | None, provider: str | None = None) -> CostOf:
    """Return what computes costs; without `prices` it is `genai-prices`, if that is installed."""
    if callable(prices):
        return prices
    if prices is not None:
        table = prices
        return lambda model, usage: _from_table(table.get(model), usage)
    return lambda model, usage: _from_package(model, usage, provider)


def _from_table(price: Mapping[str, float] | None, usage: UsageMetadata) -> float | None:
    if price is None:
        return None
    counts = {name: getattr(usage, field) or 0 for name, field in _COUNTS.items()}
    if any(count and name not in price for name, count in counts.items()):
        return None
    return sum(count * price.get(name, 0.0) for name, count in counts.items()) / 1_000_000


def _from_package(model: str, usage: UsageMetadata, provider: str | None) -> float | None:
    try:
        package: Any = import_module("genai_prices")
    except ImportError:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    # Anthropic counts cached tokens separately; the package counts them as input.
    cached = read + written if provider == "anthropic" else 0
    counted = package.Usage(
        input_tokens=usage.input_tokens + cached,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read or None,
        cache_write_tokens=written or None,
    )
    try:
        price = package.calc_price(counted, model_ref=model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)
