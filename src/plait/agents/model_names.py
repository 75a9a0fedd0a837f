"""The names by which people ask for models: `anthropic:claude-…`, `ollama:NAME`, `URL#NAME`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import urldefrag

from plait.errors import ConfigError

ModelKind: TypeAlias = Literal[
    "anthropic", "openai", "ollama", "openrouter", "endpoint", "scripted", "manual", "langchain"
]
"""What must be known to reach a model; `langchain` is any other provider of LangChain."""

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

_OWN: Final = frozenset(engine for engines in _ENGINES.values() for engine in engines)

_OF_ANTHROPIC: Final = ("claude_tool", "claude_agent_sdk")

_BARE: Final[dict[str, ModelKind]] = {
    **dict.fromkeys(_OF_ANTHROPIC, "anthropic"),
    "openrouter": "openrouter",
    "openai_endpoint": "openai",
}
"""What a name without a provider means to the engines that have only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """A model that was asked for."""

    kind: ModelKind

    name: str
    """Of the model; of the file for `scripted` and `manual`."""

    provider: str | None = None
    """As LangChain spells it, where LangChain must know."""

    base_url: str | None = None
    """Of an `endpoint`."""

    written: str
    """As it was asked for."""

    def runs_on(self, engine: str) -> bool:
        """Say whether an engine can run it; engines of other packages may know more."""
        return engine in _ENGINES[self.kind] or engine not in _OWN

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that can run it, the usual one first."""
        return _ENGINES[self.kind]


def named_model(text: str, engine: str | None = None) -> NamedModel:
    """Understand the name of a model; the engine, if one is asked for, knows names of its own.

    Raises:
        ConfigError: It is no such name, or the engine does not run such models.
    """
    model = _read(text.strip(), engine)
    if engine is not None and not model.runs_on(engine):
        raise ConfigError(
            f"{model.written} does not run on {engine}: leave --interface out, "
            f"or say --interface {' or '.join(model.engines)}"
        )
    return model


def _read(text: str, engine: str | None) -> NamedModel:
    if text.startswith(("http://", "https://")):
        return _read_url(text)
    provider, colon, name = text.partition(":")
    known = provider in get_args(ModelKind) and provider not in ("endpoint", "langchain")
    if colon and name and known:
        return NamedModel(kind=_kind(provider), name=name, provider=provider, written=text)
    if engine in _BARE and text and not (colon and engine in _OF_ANTHROPIC):
        kind = _BARE[engine]
        return NamedModel(kind=kind, name=text, provider=kind, written=text)
    if text.startswith("claude-"):
        return NamedModel(kind="anthropic", name=text, provider="anthropic", written=text)
    if colon and provider and name:
        return NamedModel(kind="langchain", name=name, provider=provider, written=text)
    raise ConfigError(
        f"the model {text!r} is of no known provider: write provider:name, ollama:NAME, "
        "or where it is: http://127.0.0.1:8080/v1#NAME"
    )


def _kind(provider: str) -> ModelKind:
    return next(kind for kind in get_args(ModelKind) if kind == provider)


def _read_url(text: str) -> NamedModel:
    base_url, name = urldefrag(text)
    if not name:
        raise ConfigError("which model is it at that URL? write URL#NAME")
    return NamedModel(kind="endpoint", name=name, base_url=base_url, written=f"the model {name}")
