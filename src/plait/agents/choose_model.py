"""Choosing the model of a run, and the engine for it: what is asked for, or else what is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final

from pydantic import SecretStr

from plait.agents.model_config import ModelConfig
from plait.agents.model_names import NamedModel, named_model
from plait.agents.registry import REGISTRY
from plait.errors import ConfigError
from plait.models.choose import Clues, FoundModel, find_model
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
from plait.models.providers import ANTHROPIC, OPENAI, OPENROUTER_KEY, PROVIDERS

_MODEL_KEY: Final = "PLAIT_MODEL_API_KEY"
"""The key for an endpoint that `--model` names; no other key is sent there."""

_CLAUDE_ENGINES: Final = ("claude_tool", "claude_agent_sdk")

_WAYS: Final = """\
there is no model to ask; any of these helps:
set ANTHROPIC_API_KEY or OPENAI_API_KEY, and a model of that provider is used
start Ollama, or set OPENAI_BASE_URL to an endpoint on this machine
name a model: --model anthropic:NAME, --model ollama:NAME, --model http://127.0.0.1:8080/v1#NAME
try it without a model: --model scripted:FILE, with what it is to say in a JSON file"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWish:
    """What the user asks for; the rest is found out."""

    model: str | None = None

    interface: str | None = None

    reason: str = "it was asked for"
    """Why it is this model, in one clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of models here."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The keys that are set, by their variables."""

    openai_url: str | None = None
    """`OPENAI_BASE_URL`."""

    anthropic_url: str | None = None
    """`ANTHROPIC_BASE_URL`."""

    ollama_host: str | None = None
    """`OLLAMA_HOST`."""

    endpoint: Endpoint | None = None
    """A running Ollama."""

    listed: tuple[str, ...] = ()
    """The models that `OPENAI_BASE_URL` offers."""

    installed: frozenset[str] = frozenset({"anthropic", "langchain_anthropic", "langchain_openai"})
    """Which of these packages there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The model to use, and why."""

    config: ModelConfig

    reason: str
    """One clause: `ANTHROPIC_API_KEY is set`."""

    notes: tuple[str, ...] = ()
    """What was passed over though somebody may have counted on it."""

    @property
    def title(self) -> str:
        """The model as people read it: `anthropic:claude-…`, `llama3.2 at http://…`."""
        config = self.config
        if config.interface == "manual":
            return f"manual:{config.manual_traces}"
        if config.endpoint_base_url is not None:
            return f"{config.model_name} at {origin_of(config.endpoint_base_url)}"
        provider = config.model_provider
        return f"{provider}:{config.model_name}" if provider else str(config.model_name)


async def choose_here(
    wish: ModelWish, environ: Mapping[str, str], *, look_for_ollama: bool = True
) -> ModelChoice:
    """Choose a model with what this machine has; what could not be chosen is not looked for.

    Raises:
        ConfigError: There is none, or what is asked for lacks something.
    """
    around = surroundings_of(environ)
    if wish.model is None and wish.interface not in (*_CLAUDE_ENGINES, "manual", "openrouter"):
        found, _ = find_model(_clues(wish, around))
        if found is None and look_for_ollama:
            around = replace(around, endpoint=await find_ollama(around.ollama_host))
        elif found is not None and found.base_url is not None and found.model is None:
            key = around.keys.get(OPENAI.key_variable)
            _check_url(found.base_url, key, "OPENAI_BASE_URL", OPENAI.key_variable)
            around = replace(around, listed=await list_models(found.base_url, key))
    return choose_model(wish, around)


def surroundings_of(environ: Mapping[str, str]) -> Surroundings:
    """Read what an environment says of models, and look which packages are installed."""

    def given(name: str) -> str | None:
        return environ.get(name, "").strip() or None

    variables = (ANTHROPIC.key_variable, OPENAI.key_variable, OPENROUTER_KEY, _MODEL_KEY)
    wanted = ("anthropic", "langchain_anthropic", "langchain_openai")
    return Surroundings(
        keys={name: key for name in variables if (key := given(name)) is not None},
        openai_url=given("OPENAI_BASE_URL"),
        anthropic_url=given("ANTHROPIC_BASE_URL"),
        ollama_host=given("OLLAMA_HOST"),
        installed=frozenset(name for name in wanted if find_spec(name) is not None),
    )


def choose_model(wish: ModelWish, around: Surroundings) -> ModelChoice:
    """Choose a model and an engine.

    Raises:
        ConfigError: There is none, or what is asked for lacks something.
    """
    if wish.interface is not None and wish.interface not in REGISTRY.get_interfaces():
        raise ConfigError(REGISTRY.check_availability(wish.interface).reason)
    if wish.model is not None:
        model = named_model(wish.model, wish.interface)
        return ModelChoice(config=_config(model, wish, around), reason=wish.reason)
    if wish.interface in _CLAUDE_ENGINES:
        model = _of_anthropic(ANTHROPIC.model)
        is_set = ANTHROPIC.key_variable in around.keys
        reason = f"{ANTHROPIC.key_variable} is set" if is_set else f"{wish.interface} has its own"
        return ModelChoice(config=_config(model, wish, around), reason=reason)
    if wish.interface in ("manual", "openrouter"):
        what = "manual:FILE" if wish.interface == "manual" else "openrouter:VENDOR/NAME"
        raise ConfigError(f"which model is it? --interface {wish.interface} needs --model {what}")
    found, notes = find_model(_clues(wish, around))
    if found is None:
        raise ConfigError("\n".join((_WAYS, *notes)))
    config = _config_of_found(found, wish, around)
    return ModelChoice(config=config, reason=found.reason, notes=notes)


def _clues(wish: ModelWish, around: Surroundings) -> Clues:
    set_keys = {one.name for one in PROVIDERS if one.key_variable in around.keys}
    lacking: dict[str, str] = {}
    if wish.interface == "openai_endpoint":
        set_keys.discard(ANTHROPIC.name)
    if _engine_for_anthropic(wish, around) is None:
        lacking[ANTHROPIC.name] = "neither anthropic nor langchain-anthropic is installed"
    if "langchain_openai" not in around.installed:
        lacking[OPENAI.name] = "langchain-openai is not installed"
    return Clues(
        keys=frozenset(set_keys),
        openai_url=around.openai_url,
        endpoint=around.endpoint,
        lacking=lacking,
    )


def _engine_for_anthropic(wish: ModelWish, around: Surroundings) -> str | None:
    if wish.interface is not None:
        return wish.interface
    if "anthropic" in around.installed:
        return "claude_tool"
    return "langchain" if "langchain_anthropic" in around.installed else None


def _config_of_found(found: FoundModel, wish: ModelWish, around: Surroundings) -> ModelConfig:
    if found.provider is ANTHROPIC:
        return _config(_of_anthropic(found.model or ANTHROPIC.model), wish, around)
    if found.base_url is None:
        return _openai(found.model or OPENAI.model, wish, around)
    if found.model is not None:
        return _endpoint(found.model, found.base_url, None, "Ollama")
    if not around.listed:
        raise ConfigError("OPENAI_BASE_URL lists no model: name one with --model openai:NAME")
    return _openai(around.listed[0], wish, around)


def _config(model: NamedModel, wish: ModelWish, around: Surroundings) -> ModelConfig:
    match model.kind:
        case "anthropic":
            return _anthropic(model, wish, around)
        case "openai":
            return _openai(model.name, wish, around)
        case "ollama":
            url = ollama_url(around.ollama_host)
            if url is None:
                raise ConfigError(
                    "OLLAMA_HOST is not on this machine: write --model http://HOST:11434/v1#NAME"
                )
            return _endpoint(model.name, f"{url}/v1", None, "OLLAMA_HOST")
        case "endpoint":
            return _endpoint(
                model.name,
                model.base_url or "",
                around.keys.get(_MODEL_KEY),
                "the URL of the model",
                key_variable=_MODEL_KEY,
            )
        case "openrouter":
            key = around.keys.get(OPENROUTER_KEY)
            if key is None:
                raise ConfigError(f"{model.written} needs {OPENROUTER_KEY}")
            return _plain(model.name, "openrouter", endpoint_api_key=SecretStr(key))
        case "manual":
            return ModelConfig(interface="manual", manual_traces=model.name)
        case "scripted" | "langchain":
            interface = wish.interface or "langchain"
            return _plain(model.name, interface, model_provider=model.provider)


def _of_anthropic(name: str) -> NamedModel:
    return NamedModel(kind="anthropic", name=name, provider="anthropic", written=name)


def _anthropic(model: NamedModel, wish: ModelWish, around: Surroundings) -> ModelConfig:
    key = around.keys.get(ANTHROPIC.key_variable)
    url = around.anthropic_url
    if url is not None:
        _check_url(url, key, "ANTHROPIC_BASE_URL", None)
    return _plain(
        model.name,
        # Where nothing can run it, the first engine says what to install.
        _engine_for_anthropic(wish, around) or "claude_tool",
        model_provider=ANTHROPIC.name,
        anthropic_base_url=url,
        anthropic_api_key=None if key is None else SecretStr(key),
    )


def _openai(name: str, wish: ModelWish, around: Surroundings) -> ModelConfig:
    key = around.keys.get(OPENAI.key_variable)
    if around.openai_url is not None:
        variable = OPENAI.key_variable
        return _endpoint(name, around.openai_url, key, "OPENAI_BASE_URL", key_variable=variable)
    if key is None:
        raise ConfigError(f"{OPENAI.name}:{name} needs {OPENAI.key_variable}, or OPENAI_BASE_URL")
    if wish.interface == "openai_endpoint":
        return _endpoint(name, OPENAI_URL, key, "OpenAI")
    return _plain(name, wish.interface or "langchain", model_provider=OPENAI.name)


def _endpoint(
    name: str, base_url: str, key: str | None, what: str, *, key_variable: str | None = None
) -> ModelConfig:
    _check_url(base_url, key, what, key_variable)
    return _plain(
        name,
        "openai_endpoint",
        endpoint_base_url=with_version(base_url),
        endpoint_api_key=None if key is None else SecretStr(key),
    )


def _check_url(base_url: str, key: str | None, what: str, key_variable: str | None) -> None:
    """Refuse a URL to which the key must not go, or which needs one."""
    if (fault := endpoint_fault(base_url, secret=key is not None)) is not None:
        raise ConfigError(f"{what} cannot be used: {fault}")
    if key is None and key_variable is not None and not is_loopback(base_url):
        raise ConfigError(f"{what} is not on this machine: it needs {key_variable}")


def _plain(name: str, interface: str, **settings: Any) -> ModelConfig:
    # No temperature: there are models that take none, and nobody asked for one.
    return ModelConfig(id=name, model_name=name, interface=interface, temperature=None, **settings)
