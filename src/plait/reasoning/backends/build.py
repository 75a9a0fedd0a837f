"""Creates the completer of the chosen backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from plait.errors import ConfigError
from plait.models.endpoints import OPENAI_URL
from plait.models.providers import ANTHROPIC, OPENAI
from plait.reasoning.backends.choose import BackendChoice
from plait.reasoning.backends.client_model import HostCompleter, Sample, SamplingCompleter
from plait.reasoning.backends.http import RetryPolicy
from plait.reasoning.backends.langbase import LangbaseCompleter
from plait.reasoning.backends.openai_compatible import OpenAICompatibleCompleter
from plait.reasoning.backends.pipes import pipes_of
from plait.reasoning.backends.port import Completer
from plait.reasoning.backends.scripted import ScriptedCompleter
from plait.reasoning.backends.settings import MODEL_TIMEOUT_SECONDS, ReasoningSettings


def completer_for(
    choice: BackendChoice,
    settings: ReasoningSettings,
    *,
    prompts: Mapping[str, str] | None = None,
    sample: Sample | None = None,
) -> Completer:
    """Return the completer of a choice; it is not open yet.

    `prompts` are the system prompts by mode, for Langbase's pipes. `sample` sends a sampling
    request to the client of the current request.

    Raises:
        ConfigError: Something that the choice needs is missing.
    """
    retry = settings.retry_policy(MODEL_TIMEOUT_SECONDS)
    match choice.backend:
        case "langbase":
            return LangbaseCompleter(
                settings.keys.langbase or "",
                base_url=settings.langbase_url,
                pipes=pipes_of(settings.pipes, prompts or {}),
                retry=settings.retry_policy(settings.retry.timeout_seconds),
            )
        case "model":
            return _langchain(choice, settings, retry)
        case "openai":
            return OpenAICompatibleCompleter(
                choice.base_url or "",
                model=choice.model,
                key=key_for_endpoint(choice, settings),
                retry=retry,
            )
        case "sampling":
            if sample is None:
                raise ConfigError("sampling asks a client, and there is no request of one here")
            return SamplingCompleter(sample)
        case "scripted":
            return ScriptedCompleter.from_file(settings.preference.script or "")
        case "host":
            return HostCompleter()
        case "local":
            raise ConfigError("no local model is available")
        case _:
            assert_never(choice.backend)


def _langchain(choice: BackendChoice, settings: ReasoningSettings, retry: RetryPolicy) -> Completer:
    try:
        # Only this backend needs LangChain, which is slow to import and may not be installed.
        from plait.reasoning.backends.langchain_model import LangChainCompleter  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the model {choice.model!r} needs LangChain, which is not installed: "
            "pip install 'plait[langchain]'"
        ) from error
    model = choice.model or ""
    return LangChainCompleter(model, key=key_for_model(model, settings), retry=retry)


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
