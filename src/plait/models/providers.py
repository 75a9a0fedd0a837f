"""Providers of models, and how a model is found when none is named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from plait.models.endpoints import Endpoint, is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of models."""

    name: str
    """The name in LangChain: the first half of `provider:model`."""
    key_variable: str
    """The environment variable that holds the key."""
    model: str
    """The default model; a small one, since it is used often."""


ANTHROPIC: Final = Provider(
    name="anthropic", key_variable="ANTHROPIC_API_KEY", model="claude-haiku-5-5"
)

OPENAI: Final = Provider(name="openai", key_variable="OPENAI_API_KEY", model="gpt-4o-mini")

PROVIDERS: Final = (ANTHROPIC, OPENAI)
"""In order of precedence of their keys."""

OPENROUTER_KEY: Final = "OPENROUTER_API_KEY"

_SECRETS: Final = (
    *(provider.key_variable for provider in PROVIDERS),
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    OPENROUTER_KEY,
    "PLAIT_MODEL_API_KEY",
)


def keys_in(environ: Mapping[str, str]) -> list[str]:
    """Return the provider keys in an environment, for redaction."""
    return [key for name in _SECRETS if (key := environ.get(name, "").strip())]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A usable model, and the reason for choosing it."""

    reason: str
    """One clause: `ANTHROPIC_API_KEY is set`."""
    provider: Provider | None = None
    """`None` for an endpoint without a key."""
    model: str | None = None
    """`None` if only the endpoint knows its models."""
    base_url: str | None = None
    """`None` for the API of the provider."""
    is_local: bool = False
    """Whether plait itself runs the model."""


def find_model(
    keys: Collection[str] = (),
    *,
    openai_url: str | None = None,
    endpoint: Endpoint | None = None,
    local: str | None = None,
    lacking: Mapping[str, str] | None = None,
) -> tuple[FoundModel | None, tuple[str, ...]]:
    """Return the first usable model, and notes about keys and URLs that are not used.

    `keys` are the names of providers whose keys are set, `openai_url` is `OPENAI_BASE_URL`,
    `endpoint` a detected one such as a running Ollama, and `local` a model whose weights are on
    this machine, and can run here. `lacking` says why a provider cannot be used, by its name:
    `langchain-anthropic is not installed`.
    """
    notes: list[str] = []
    for provider in PROVIDERS:
        if provider.name not in keys:
            continue
        if missing := (lacking or {}).get(provider.name):
            notes.append(f"{provider.key_variable} is not used, since {missing}")
            continue
        base_url = openai_url if provider is OPENAI else None
        found = FoundModel(
            reason=f"{provider.key_variable} is set",
            provider=provider,
            model=None if base_url else provider.model,
            base_url=base_url,
        )
        return found, tuple(notes)
    if openai_url is not None:
        if is_loopback(openai_url):
            reason = "OPENAI_BASE_URL is on this machine"
            return FoundModel(reason=reason, base_url=openai_url), tuple(notes)
        notes.append("OPENAI_BASE_URL is not used, since OPENAI_API_KEY is not set")
    found = None
    if endpoint is not None:
        reason = "Ollama runs on this machine"
        found = FoundModel(reason=reason, model=endpoint.models[0], base_url=endpoint.base_url)
    elif local is not None:
        reason = f"the weights of {local} are on this machine"
        found = FoundModel(reason=reason, model=local, is_local=True)
    return found, tuple(notes)
