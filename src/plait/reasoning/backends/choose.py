"""Choosing the backend: what the user asks for, or else the first that applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from plait.errors import BackendError, ConfigError
from plait.models.choose import Clues, FoundModel, find_model
from plait.models.endpoints import OPENAI_URL, Endpoint, find_ollama
from plait.models.providers import ANTHROPIC, OPENAI, installed_packages
from plait.reasoning.backends.settings import BackendName, ReasoningSettings, Wish

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What was found on this machine."""

    endpoint: Endpoint | None = None
    """An endpoint nobody configured, such as a running Ollama."""

    local_model: str | None = None
    """The name of a fetched model that can be run in this process."""

    packages: frozenset[str] = frozenset()
    """Which packages of providers are installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The backend to use, and why."""

    backend: BackendName

    reason: str
    """One clause for the start line: `LANGBASE_API_KEY is set`."""

    model: str | None = None

    base_url: str | None = None

    notes: tuple[str, ...] = ()
    """What was passed over though somebody may have counted on it."""


def choose(
    settings: ReasoningSettings, around: Surroundings, *, sampling: bool | None = None
) -> Choice:
    """Choose a backend.

    `sampling` says whether the client of the request at hand declares it; `None` where there is no
    request. It matters only when nothing before it applies, so a choice made without a request
    holds for every request unless it is `local` or `host`.

    Raises:
        ConfigError: What the user asks for lacks something.
        BackendError: The user asks for sampling, and this client does not offer it.
    """
    wished = _wished(settings, around, sampling=sampling)
    if wished is not None:
        return wished
    if settings.keys.langbase is not None:
        return Choice(backend="langbase", reason="LANGBASE_API_KEY is set")
    found, notes = find_model(_clues(settings, around))
    if found is not None:
        return _choice(found, notes)
    if sampling:
        return Choice(backend="sampling", reason="the client offers sampling", notes=notes)
    if around.local_model is not None:
        return Choice(
            backend="local",
            reason="a local model has been fetched",
            model=around.local_model,
            notes=notes,
        )
    return Choice(backend="host", reason="no model is configured", notes=notes)


async def look_around(settings: ReasoningSettings) -> Surroundings:
    """Find out what this machine has; Ollama is looked for only if it could be chosen."""
    packages = installed_packages()
    around = Surroundings(packages=packages)
    wish = settings.wish
    if wish == Wish():
        wanted = choose(settings, around).backend in ("local", "host")
    else:
        wanted = wish.backend == "openai" and not (wish.base_url or _own_endpoint(settings))
    wanted = wanted and settings.look_for_ollama
    endpoint = await find_ollama(settings.ollama_host) if wanted else None
    return Surroundings(endpoint=endpoint, packages=packages)


def _clues(settings: ReasoningSettings, around: Surroundings) -> Clues:
    keys = {ANTHROPIC.name: settings.keys.anthropic, OPENAI.name: settings.keys.openai}
    has_package = ANTHROPIC.package in around.packages
    return Clues(
        keys=frozenset(name for name, key in keys.items() if key is not None),
        openai_url=settings.openai_url,
        endpoint=around.endpoint,
        lacking={} if has_package else {ANTHROPIC.name: "langchain-anthropic is not installed"},
    )


def _choice(found: FoundModel, notes: tuple[str, ...]) -> Choice:
    if found.provider is ANTHROPIC:
        model = f"{ANTHROPIC.name}:{found.model}"
        return Choice(backend="model", reason=found.reason, model=model, notes=notes)
    return Choice(
        backend="openai",
        reason=found.reason,
        model=found.model,
        base_url=found.base_url or OPENAI_URL,
        notes=notes,
    )


def _own_endpoint(settings: ReasoningSettings) -> tuple[str, str | None] | None:
    """Return where the usual variables of OpenAI lead, and the model to ask there."""
    if settings.openai_url is not None:
        return settings.openai_url, None
    return (OPENAI_URL, OPENAI.model) if settings.keys.openai is not None else None


def _wished(
    settings: ReasoningSettings, around: Surroundings, *, sampling: bool | None
) -> Choice | None:
    """Return what the user asks for, if anything."""
    wish = settings.wish
    backend = _backend_of(wish)
    reason = "it was asked for"
    match backend:
        case None:
            return None
        case "langbase":
            _demand(settings.keys.langbase, "LANGBASE_API_KEY is required for Langbase")
            return Choice(backend=backend, reason=reason)
        case "model":
            model = _demand(wish.model, "the backend model needs a model: provider:name")
            return Choice(backend=backend, reason=reason, model=model)
        case "openai":
            return _wished_endpoint(settings, around, reason)
        case "sampling":
            if sampling is False:
                raise BackendError("the client does not offer sampling", backend="sampling")
            return Choice(backend=backend, reason=reason)
        case "local":
            model = _demand(around.local_model, "no local model is available")
            return Choice(backend=backend, reason=reason, model=model)
        case "scripted":
            _demand(wish.script, "the scripted backend needs a file with replies")
            return Choice(backend=backend, reason=reason)
        case "host":
            return Choice(backend=backend, reason=reason)


def _backend_of(wish: Wish) -> BackendName | None:
    """Say which backend a wish means, where it does not name one."""
    if wish.backend is not None:
        return wish.backend
    if wish.base_url is not None:
        return "openai"
    if wish.model is not None:
        if ":" in wish.model:
            return "model"
        raise ConfigError(
            f"the model {wish.model!r} is of no known provider: write provider:name, "
            "or say at which base URL it is"
        )
    if wish.script is not None:
        raise ConfigError("a script is used only when the backend scripted is asked for")
    return None


def _wished_endpoint(settings: ReasoningSettings, around: Surroundings, reason: str) -> Choice:
    wish = settings.wish
    if wish.base_url is not None:
        base_url, model = wish.base_url, None
    elif (own := _own_endpoint(settings)) is not None:
        base_url, model = own
    else:
        endpoint = _demand(
            around.endpoint, "the backend openai needs a base URL, or OPENAI_API_KEY"
        )
        base_url, model = endpoint.base_url, endpoint.models[0]
    return Choice(backend="openai", reason=reason, model=wish.model or model, base_url=base_url)


def _demand(value: T | None, message: str) -> T:
    if value is None:
        raise ConfigError(message)
    return value
