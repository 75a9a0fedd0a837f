"""Chooses the model and the engine of a run: those requested, or those available."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias, cast, get_args
from urllib.parse import urldefrag

from pydantic import SecretStr

from plait.agents.config import ModelConfig
from plait.agents.registry import REGISTRY
from plait.errors import ConfigError
from plait.models.endpoints import (
    OPENAI_URL,
    Endpoint,
    endpoint_fault,
    find_ollama,
    is_loopback,
    list_models,
    ollama_url,
    origin_of,
    with_version,
)
from plait.models.providers import (
    ANTHROPIC,
    OPENAI,
    OPENROUTER_KEY,
    PROVIDERS,
    FoundModel,
    find_model,
)
from plait.models.weights import usable_weights

_MODEL_KEY: Final = "PLAIT_MODEL_API_KEY"
"""The key for an endpoint that `--model` names; no other key is sent there."""

_CLAUDE_ENGINES: Final = ("claude_tool", "claude_agent_sdk")

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

_DEFAULT_KINDS: Final[dict[str, ModelKind]] = {
    **dict.fromkeys(_CLAUDE_ENGINES, "anthropic"),
    "openrouter": "openrouter",
    "openai_endpoint": "openai",
}
"""The kind of a name without a provider, on engines with a single provider."""

_WAYS: Final = """\
no model is configured; do one of these:
set ANTHROPIC_API_KEY or OPENAI_API_KEY, and a model of that provider is used
on this machine: pip install 'plait[local]', plait model fetch NAME, then --model local:NAME; or \
start Ollama, or set OPENAI_BASE_URL to an endpoint
choose a model: --model anthropic:NAME, --model ollama:NAME, --model http://127.0.0.1:8080/v1#NAME
try it without a model: plait init --demo, then --model scripted:demo-model.json"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """The model and engine that the user requests; what is `None` is chosen."""

    model: str | None = None
    engine: str | None = None
    reason: str = "requested"
    """Why this model is used, in one clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEnvironment:
    """The models that are available here: environment variables, packages and endpoints."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The keys that are set, by variable."""
    openai_url: str | None = None
    """`OPENAI_BASE_URL`."""
    anthropic_url: str | None = None
    """`ANTHROPIC_BASE_URL`."""
    ollama_host: str | None = None
    """`OLLAMA_HOST`."""
    endpoint: Endpoint | None = None
    """A running Ollama."""
    local: str | None = None
    """A local model whose weights are here."""
    listed: tuple[str, ...] = ()
    """The models that `OPENAI_BASE_URL` lists."""
    installed: frozenset[str] = frozenset({"anthropic", "langchain_anthropic", "langchain_openai"})
    """The installed ones of these packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The model to use, and why."""

    config: ModelConfig
    reason: str
    """One clause: `ANTHROPIC_API_KEY is set`."""
    notes: tuple[str, ...] = ()
    """Models that were skipped, and why."""

    @property
    def title(self) -> str:
        """The model for display: `anthropic:claude-…`, `llama3.2 at http://…`."""
        config = self.config
        if config.interface == "manual":
            return f"manual:{config.manual_traces}"
        if config.endpoint_base_url is not None:
            return f"{config.model_name} at {origin_of(config.endpoint_base_url)}"
        provider = config.model_provider
        return f"{provider}:{config.model_name}" if provider else str(config.model_name)


async def choose_here(
    request: ModelRequest, environ: Mapping[str, str], *, look_for_ollama: bool = True
) -> ModelChoice:
    """Choose a model and an engine, and query local endpoints only if they may be chosen."""

    def value_of(name: str) -> str | None:
        return environ.get(name, "").strip() or None

    variables = (ANTHROPIC.key_variable, OPENAI.key_variable, OPENROUTER_KEY, _MODEL_KEY)
    packages = ("anthropic", "langchain_anthropic", "langchain_openai")
    env = ModelEnvironment(
        keys={name: key for name in variables if (key := value_of(name)) is not None},
        openai_url=value_of("OPENAI_BASE_URL"),
        anthropic_url=value_of("ANTHROPIC_BASE_URL"),
        ollama_host=value_of("OLLAMA_HOST"),
        installed=frozenset(name for name in packages if find_spec(name) is not None),
    )
    if request.engine is not None and request.engine not in _ALL_ENGINES:
        return choose_model(request, env)
    if request.model is None and request.engine not in (*_CLAUDE_ENGINES, "manual", "openrouter"):
        found, _ = _find(request, env)
        if found is None and look_for_ollama:
            env = replace(env, endpoint=await find_ollama(env.ollama_host))
        if found is None and request.engine in (None, "langchain"):
            weights = usable_weights(environ)
            env = replace(env, local=weights.name if weights else None)
        elif found is not None and found.base_url is not None and found.model is None:
            key = env.keys.get(OPENAI.key_variable)
            _check_url(found.base_url, key, "OPENAI_BASE_URL", OPENAI.key_variable)
            env = replace(env, listed=await list_models(found.base_url, key))
    return choose_model(request, env)


def choose_model(request: ModelRequest, env: ModelEnvironment) -> ModelChoice:
    """Choose a model and an engine."""
    engine = request.engine
    if engine is not None and engine not in REGISTRY.names():
        raise ConfigError(REGISTRY.availability(engine).reason)
    if engine is not None and engine not in _ALL_ENGINES:
        # An engine of another package has its own names for models.
        spec = REGISTRY.spec(engine)
        name = request.model or (spec.default_model if spec is not None else None) or engine
        reason = request.reason if request.model else f"the default of {engine}"
        return ModelChoice(config=_plain(name, engine), reason=reason)
    if request.model is not None:
        config = _named(request.model.strip(), request, env)
        return ModelChoice(config=config, reason=request.reason)
    if engine in _CLAUDE_ENGINES:
        has_key = ANTHROPIC.key_variable in env.keys
        reason = f"{ANTHROPIC.key_variable} is set" if has_key else f"{engine} has its own key"
        return ModelChoice(config=_anthropic(ANTHROPIC.model, request, env), reason=reason)
    if engine in ("manual", "openrouter"):
        what = "manual:FILE" if engine == "manual" else "openrouter:VENDOR/NAME"
        raise ConfigError(f"--engine {engine} needs --model {what}")
    found, notes = _find(request, env)
    if found is None:
        raise ConfigError("\n".join((_WAYS, *notes)))
    if found.provider is ANTHROPIC:
        config = _anthropic(found.model or ANTHROPIC.model, request, env)
    elif found.is_local:
        config = _plain(found.model or "", "langchain", model_provider="local")
    elif found.base_url is None:
        config = _openai(found.model or OPENAI.model, request, env)
    elif found.model is not None:
        config = _endpoint(found.model, found.base_url, "Ollama", env)
    elif env.listed:
        config = _openai(env.listed[0], request, env)
    else:
        raise ConfigError("OPENAI_BASE_URL lists no model: name one with --model openai:NAME")
    return ModelChoice(config=config, reason=found.reason, notes=notes)


def _find(
    request: ModelRequest, env: ModelEnvironment
) -> tuple[FoundModel | None, tuple[str, ...]]:
    keys = {provider.name for provider in PROVIDERS if provider.key_variable in env.keys}
    lacking: dict[str, str] = {}
    if request.engine == "openai_endpoint":
        keys.discard(ANTHROPIC.name)
    if _engine_for_anthropic(request, env) is None:
        lacking[ANTHROPIC.name] = "neither anthropic nor langchain-anthropic is installed"
    if "langchain_openai" not in env.installed:
        lacking[OPENAI.name] = "langchain-openai is not installed"
    return find_model(
        keys, openai_url=env.openai_url, endpoint=env.endpoint, local=env.local, lacking=lacking
    )


def _engine_for_anthropic(request: ModelRequest, env: ModelEnvironment) -> str | None:
    if request.engine is not None:
        return request.engine
    if "anthropic" in env.installed:
        return "claude_tool"
    return "langchain" if "langchain_anthropic" in env.installed else None


def _named(text: str, request: ModelRequest, env: ModelEnvironment) -> ModelConfig:
    """Configure the model of a name: `provider:name`, `URL#NAME`, or as its engine spells it."""
    kind, provider, name = _parse(text, request.engine)
    engines = _ENGINES[kind]
    if request.engine in _ALL_ENGINES and request.engine not in engines:
        shown = f"the model {name}" if kind == "endpoint" else text  # a URL may hold a secret
        raise ConfigError(
            f"{shown} does not run on {request.engine}: leave --engine out, "
            f"or use --engine {' or '.join(engines)}"
        )
    match kind:
        case "anthropic":
            return _anthropic(name, request, env)
        case "openai":
            return _openai(name, request, env)
        case "ollama":
            url = ollama_url(env.ollama_host)
            if url is None:
                raise ConfigError(
                    "OLLAMA_HOST is not on this machine: write --model http://HOST:11434/v1#NAME"
                )
            return _endpoint(name, f"{url}/v1", "OLLAMA_HOST", env)
        case "endpoint":
            return _endpoint(name, provider, "the URL of the model", env, _MODEL_KEY)
        case "openrouter":
            key = env.keys.get(OPENROUTER_KEY)
            if key is None:
                raise ConfigError(f"{text} needs {OPENROUTER_KEY}")
            return _plain(name, "openrouter", endpoint_api_key=SecretStr(key))
        case "manual":
            return ModelConfig(interface="manual", manual_traces=name)
        case "scripted" | "langchain":
            return _plain(name, request.engine or "langchain", model_provider=provider)


def _parse(text: str, engine: str | None) -> tuple[ModelKind, str, str]:
    """Return the kind of a model, its provider or URL, and its name there."""
    if text.startswith(("http://", "https://")):
        base_url, name = urldefrag(text)
        if not name:
            raise ConfigError("the URL names no model: write URL#NAME")
        return "endpoint", base_url, name
    provider, colon, name = text.partition(":")
    known = provider in get_args(ModelKind) and provider not in ("endpoint", "langchain")
    if colon and name and known:
        return cast("ModelKind", provider), provider, name
    if engine in _DEFAULT_KINDS and text and not (colon and engine in _CLAUDE_ENGINES):
        return _DEFAULT_KINDS[engine], _DEFAULT_KINDS[engine], text
    if text.startswith("claude-"):
        return "anthropic", "anthropic", text
    if colon and provider and name:
        return "langchain", provider, name
    raise ConfigError(
        f"the model {text!r} has no known provider: write provider:name, ollama:NAME, "
        "or URL#NAME: http://127.0.0.1:8080/v1#NAME"
    )


def _anthropic(name: str, request: ModelRequest, env: ModelEnvironment) -> ModelConfig:
    key = env.keys.get(ANTHROPIC.key_variable)
    url = env.anthropic_url
    if url is not None:
        _check_url(url, key, "ANTHROPIC_BASE_URL", None)
    return _plain(
        name,
        # If no package is installed, this engine reports what to install.
        _engine_for_anthropic(request, env) or "claude_tool",
        model_provider=ANTHROPIC.name,
        anthropic_base_url=url,
        anthropic_api_key=None if key is None else SecretStr(key),
    )


def _openai(name: str, request: ModelRequest, env: ModelEnvironment) -> ModelConfig:
    if env.openai_url is not None:
        return _endpoint(name, env.openai_url, "OPENAI_BASE_URL", env, OPENAI.key_variable)
    if OPENAI.key_variable not in env.keys:
        raise ConfigError(f"{OPENAI.name}:{name} needs {OPENAI.key_variable}, or OPENAI_BASE_URL")
    if request.engine == "openai_endpoint":
        return _endpoint(name, OPENAI_URL, "OpenAI", env, OPENAI.key_variable)
    return _plain(name, request.engine or "langchain", model_provider=OPENAI.name)


def _endpoint(
    name: str, base_url: str, what: str, env: ModelEnvironment, key_variable: str | None = None
) -> ModelConfig:
    key = None if key_variable is None else env.keys.get(key_variable)
    _check_url(base_url, key, what, key_variable)
    url, secret = with_version(base_url), None if key is None else SecretStr(key)
    return _plain(name, "openai_endpoint", endpoint_base_url=url, endpoint_api_key=secret)


def _check_url(base_url: str, key: str | None, what: str, key_variable: str | None) -> None:
    """Reject a URL to which the key must not be sent, or which needs one."""
    if (fault := endpoint_fault(base_url, secret=key is not None)) is not None:
        raise ConfigError(f"{what} cannot be used: {fault}")
    if key is None and key_variable is not None and not is_loopback(base_url):
        raise ConfigError(f"{what} is not on this machine: it needs {key_variable}")


def _plain(name: str, engine: str, **settings: Any) -> ModelConfig:
    # No temperature: some models reject the parameter.
    return ModelConfig(id=name, model_name=name, interface=engine, temperature=None, **settings)
