"""Model names as users write them: `anthropic:claude-…`, `ollama:NAME`, `URL#NAME`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import urldefrag

from plait.errors import ConfigError

ModelKind: TypeAlias = Literal[
    "anthropic", "openai", "ollama", "openrouter", "endpoint", "scripted", "manual", "langchain"
]
"""How a model is reached; `langchain` is any other provider of LangChain."""

_ENGINES: Final[dict[ModelKind, tuple[str, ...]]] = {
    "anthropic": ("claude_tool", "claude_agent_sdk", "langchain"),
    "openai": ("langchain", "openai_endpoint"),
    "ollama": ("openai_endpoint", "langchain"),
    "openrouter": ("openrouter", "langchain"),
    "endpoint": ("openai_endpoint", "langchain"),
    "scripted": ("langchain",),
    "manual": ("manual",),
    "langchain": ("langchain",),
}
"""The engines that can run a model, the usual one first."""

_ALL_ENGINES: Final = frozenset(engine for engines in _ENGINES.values() for engine in engines)

_CLAUDE_ENGINES: Final = ("claude_tool", "claude_agent_sdk")

_DEFAULT_KINDS: Final[dict[str, ModelKind]] = {
    **dict.fromkeys(_CLAUDE_ENGINES, "anthropic"),
    "openrouter": "openrouter",
    "openai_endpoint": "openai",
}
"""The kind of a name without a provider, on engines with a single provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """A parsed model name."""

    kind: ModelKind

    name: str
    """Of the model; of the file for `scripted` and `manual`."""

    provider: str | None = None
    """As LangChain spells it, if LangChain needs it."""

    base_url: str | None = None
    """Of an `endpoint`."""

    text: str
    """The name as the user wrote it."""

    def runs_on(self, engine: str) -> bool:
        """Check whether an engine can run it; engines of other packages may run any model."""
        return engine in _ENGINES[self.kind] or engine not in _ALL_ENGINES

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that can run it, the usual one first."""
        return _ENGINES[self.kind]


def named_model(text: str, engine: str | None = None) -> NamedModel:
    """Parse the name of a model; some engines accept names without a provider.

    Raises:
        ConfigError: The name is invalid, or the engine does not run such models.
    """
    model = _parse(text.strip(), engine)
    if engine is not None and not model.runs_on(engine):
        raise ConfigError(
            f"{model.text} does not run on {engine}: leave --engine out, "
            f"or use --engine {' or '.join(model.engines)}"
        )
    return model


def _parse(text: str, engine: str | None) -> NamedModel:
    if text.startswith(("http://", "https://")):
        return _parse_url(text)
    provider, colon, name = text.partition(":")
    known = provider in get_args(ModelKind) and provider not in ("endpoint", "langchain")
    if colon and name and known:
        return NamedModel(kind=_kind(provider), name=name, provider=provider, text=text)
    if engine in _DEFAULT_KINDS and text and not (colon and engine in _CLAUDE_ENGINES):
        kind = _DEFAULT_KINDS[engine]
        return NamedModel(kind=kind, name=text, provider=kind, text=text)
    if text.startswith("claude-"):
        return NamedModel(kind="anthropic", name=text, provider="anthropic", text=text)
    if colon and provider and name:
        return NamedModel(kind="langchain", name=name, provider=provider, text=text)
    raise ConfigError(
        f"the model {text!r} has no known provider: write provider:name, ollama:NAME, "
        "or URL#NAME: http://127.0.0.1:8080/v1#NAME"
    )


def _kind(provider: str) -> ModelKind:
    return next(kind for kind in get_args(ModelKind) if kind == provider)


def _parse_url(text: str) -> NamedModel:
    base_url, name = urldefrag(text)
    if not name:
        raise ConfigError("the URL names no model: write URL#NAME")
    return NamedModel(kind="endpoint", name=name, base_url=base_url, text=f"the model {name}")
