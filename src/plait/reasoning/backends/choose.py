"""Chooses the backend: the one that the user names, or else the first that applies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TypeVar, assert_never

from plait.errors import BackendError, ConfigError
from plait.models.endpoints import OPENAI_URL, Endpoint, find_ollama, ollama_url, origin_of
from plait.models.providers import ANTHROPIC, OPENAI, find_model
from plait.models.weights import WEIGHTS, models_folder, usable_weights, weights_named
from plait.reasoning.backends.http import (
    LangbaseCompleter,
    LocalCompleter,
    OpenAICompatibleCompleter,
    RetryPolicy,
)
from plait.reasoning.backends.port import Completer, HostCompleter, ScriptedCompleter
from plait.reasoning.backends.settings import (
    MODEL_TIMEOUT_SECONDS,
    BackendName,
    BackendPreference,
    ReasoningSettings,
)

T = TypeVar("T")

_LOCAL_TIMEOUT_SECONDS = 600.0
"""A model on a busy core writes a few tokens a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableModels:
    """The models that this machine offers without configuration."""

    endpoint: Endpoint | None = None
    """An endpoint that is not configured, such as a running Ollama."""
    has_anthropic: bool = False
    """Whether LangChain's package for Anthropic is installed."""
    local: str | None = None
    """The model whose weights are on this machine, if it can run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """The backend to use, and the reason."""

    backend: BackendName
    reason: str
    """One clause for the start line: `LANGBASE_API_KEY is set`."""
    model: str | None = None
    base_url: str | None = None
    notes: tuple[str, ...] = ()
    """Why models that the user may have expected were not chosen."""


def choose(
    settings: ReasoningSettings, available: AvailableModels, *, sampling: bool | None = None
) -> BackendChoice:
    """Choose a backend.

    `sampling` is whether the client of the current request declares it; `None` outside a request.
    It matters only when nothing before it applies, so a choice made outside a request holds for
    every request unless it is `host`.
    """
    preferred = _preferred(settings, available, sampling=sampling)
    if preferred is not None:
        return preferred
    if settings.keys.langbase is not None:
        return BackendChoice(backend="langbase", reason="LANGBASE_API_KEY is set")
    keys = {ANTHROPIC.name: settings.keys.anthropic, OPENAI.name: settings.keys.openai}
    model, notes = find_model(
        [name for name, key in keys.items() if key is not None],
        openai_url=settings.openai_url,
        endpoint=available.endpoint,
        local=available.local,
        lacking={}
        if available.has_anthropic
        else {ANTHROPIC.name: "langchain-anthropic is not installed"},
    )
    if model is None:
        backend, reason = "host", "no model is configured"
        if sampling:
            backend, reason = "sampling", "the client offers sampling"
        return BackendChoice(backend=backend, reason=reason, notes=notes)
    if model.provider is ANTHROPIC:
        backend, name, base_url = "model", f"{ANTHROPIC.name}:{model.model}", None
    elif model.is_local:
        backend, name, base_url = "local", model.model, None
    else:
        backend, name, base_url = "openai", model.model, model.base_url or OPENAI_URL
    return BackendChoice(
        backend=backend, reason=model.reason, model=name, base_url=base_url, notes=notes
    )


async def detect_models(settings: ReasoningSettings) -> AvailableModels:
    """Detect the models of this machine; Ollama is contacted only if it could be chosen."""
    weights = usable_weights() if settings.detect_local else None
    local = weights.name if weights else None
    available = AvailableModels(
        has_anthropic=find_spec("langchain_anthropic") is not None, local=local
    )
    preference = settings.preference
    if preference == BackendPreference():
        needed = choose(settings, available).backend in ("host", "local")
    else:
        configured = preference.base_url or _openai_endpoint(settings)
        needed = preference.backend == "openai" and not configured
    if not (needed and settings.detect_ollama):
        return available
    endpoint = await find_ollama(settings.ollama_host)
    return replace(available, endpoint=endpoint)


def _openai_endpoint(settings: ReasoningSettings) -> tuple[str, str | None] | None:
    """Return the endpoint and the model that OpenAI's own variables configure."""
    if settings.openai_url is not None:
        return settings.openai_url, None
    return (OPENAI_URL, OPENAI.model) if settings.keys.openai is not None else None


def _preferred(
    settings: ReasoningSettings, available: AvailableModels, *, sampling: bool | None
) -> BackendChoice | None:
    """Return the backend that a preference names or implies, if it has what that needs."""
    preference = settings.preference
    model, base_url = preference.model, preference.base_url
    named = preference.backend
    if named is None and base_url is not None:
        named = "openai"
    elif named is None and model is not None:
        if ":" not in model:
            raise ConfigError(
                f"the model {model!r} is of no known provider: write provider:name, "
                "or say at which base URL it is"
            )
        named = "model"
    elif named is None and preference.script is not None:
        raise ConfigError("a script is used only when the backend scripted is asked for")
    match named:
        case None:
            return None
        case "langbase" as backend:
            model = base_url = None
            _require(settings.keys.langbase, "LANGBASE_API_KEY is required for Langbase")
        case "model" as backend:
            base_url = None
            _require(model, "the backend model needs a model: provider:name")
        case "openai" as backend if base_url is None:
            base_url, default = _openai_endpoint(settings) or (None, None)
            if base_url is None:
                endpoint = _require(
                    available.endpoint, "the backend openai needs a base URL, or OPENAI_API_KEY"
                )
                base_url, default = endpoint.base_url, endpoint.models[0]
            model = model or default
        case "openai" as backend:
            pass
        case "local" as backend:
            base_url = None
            model = model or available.local or next(iter(WEIGHTS))
            if not weights_named(model).is_in(models_folder()):
                raise ConfigError(
                    f"the local model {model} is not on this machine: plait model fetch {model}"
                )
        case "sampling" | "scripted" | "host" as backend:
            model = base_url = None
            if backend == "sampling" and sampling is False:
                raise BackendError("the client does not offer sampling", backend="sampling")
            if backend == "scripted":
                _require(preference.script, "the scripted backend needs a file with replies")
    return BackendChoice(backend=backend, reason="it was asked for", model=model, base_url=base_url)


def _require(value: T | None, message: str) -> T:
    if value is None:
        raise ConfigError(message)
    return value


def completer_for(choice: BackendChoice, settings: ReasoningSettings) -> Completer:
    """Return the completer of a choice; it is not open yet."""
    retry = settings.retry_policy(MODEL_TIMEOUT_SECONDS)
    match choice.backend:
        case "langbase":
            return LangbaseCompleter(
                settings.keys.langbase or "",
                base_url=settings.langbase_url,
                pipes=settings.pipes,
                retry=settings.retry_policy(RetryPolicy().timeout_seconds),
            )
        case "model":
            try:
                # Only this backend needs LangChain: slow to import, and maybe not installed.
                from plait.reasoning.backends.langchain_model import (  # noqa: PLC0415
                    LangChainCompleter,
                )
            except ModuleNotFoundError as error:
                raise ConfigError(
                    f"the model {choice.model!r} needs LangChain, which is not installed: "
                    "pip install 'plait[langchain]'"
                ) from error
            model = choice.model or ""
            return LangChainCompleter(model, key=key_for_model(model, settings), retry=retry)
        case "openai":
            base_url = choice.base_url or ""
            is_ollama = origin_of(base_url) == ollama_url(settings.ollama_host)
            return OpenAICompatibleCompleter(
                base_url,
                model=choice.model,
                name="ollama" if is_ollama else "openai",
                key=key_for_endpoint(choice, settings),
                retry=retry,
            )
        case "sampling":
            raise ConfigError("sampling asks a client, and there is no request of one here")
        case "scripted":
            return ScriptedCompleter.from_file(settings.preference.script or "")
        case "host":
            return HostCompleter()
        case "local":
            weights = weights_named(choice.model or "")
            retry = settings.retry_policy(_LOCAL_TIMEOUT_SECONDS)
            path = weights.path_in(models_folder())
            return LocalCompleter(path, model=weights.name, retry=retry)
        case _:
            assert_never(choice.backend)


def key_for_model(model: str, settings: ReasoningSettings) -> str | None:
    """Return the key for a LangChain model; LangChain does not read `.env` files."""
    keys = {ANTHROPIC.name: settings.keys.anthropic, OPENAI.name: settings.keys.openai}
    return keys.get(model.partition(":")[0])


def key_for_endpoint(choice: BackendChoice, settings: ReasoningSettings) -> str | None:
    """Return the key of the chosen endpoint; no other key is sent there."""
    if settings.preference.base_url is not None:
        return settings.preference.key
    if choice.base_url in (settings.openai_url, OPENAI_URL):
        return settings.keys.openai
    return None
