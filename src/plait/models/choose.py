"""Finding a model that nobody named: by the keys that are set, then on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plait.models.endpoints import Endpoint, is_loopback
from plait.models.providers import OPENAI, PROVIDERS, Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Clues:
    """What hints at a model."""

    keys: frozenset[str] = frozenset()
    """The providers whose keys are set, by name."""

    openai_url: str | None = None
    """`OPENAI_BASE_URL`."""

    endpoint: Endpoint | None = None
    """An endpoint nobody configured, such as a running Ollama."""

    lacking: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is missing here to use a provider, by its name: `langchain-anthropic is not installed`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model that can be used, and why it is this one."""

    reason: str
    """One clause: `ANTHROPIC_API_KEY is set`."""

    provider: Provider | None = None
    """`None` for an endpoint without a key."""

    model: str | None = None
    """`None` where only the endpoint knows what it has."""

    base_url: str | None = None
    """`None` is where the provider's own API is."""


def find_model(clues: Clues) -> tuple[FoundModel | None, tuple[str, ...]]:
    """Return the first model that applies, and what was passed over though it may be counted on."""
    notes: list[str] = []
    for provider in PROVIDERS:
        if provider.name not in clues.keys:
            continue
        if missing := clues.lacking.get(provider.name):
            notes.append(f"{provider.key_variable} is not used, since {missing}")
            continue
        base_url = clues.openai_url if provider is OPENAI else None
        found = FoundModel(
            reason=f"{provider.key_variable} is set",
            provider=provider,
            model=None if base_url else provider.model,
            base_url=base_url,
        )
        return found, tuple(notes)
    if clues.openai_url is not None:
        if is_loopback(clues.openai_url):
            reason = "OPENAI_BASE_URL is on this machine"
            return FoundModel(reason=reason, base_url=clues.openai_url), tuple(notes)
        notes.append("OPENAI_BASE_URL is not used, since OPENAI_API_KEY is not set")
    if clues.endpoint is not None:
        found = FoundModel(
            reason="Ollama runs on this machine",
            model=clues.endpoint.models[0],
            base_url=clues.endpoint.base_url,
        )
        return found, tuple(notes)
    return None, tuple(notes)
