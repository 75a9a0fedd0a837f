"""`get_agent`: from a model's configuration to an agent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref

from plait.agents.config import ModelConfig
from plait.agents.port import AgentPort
from plait.agents.registry import REGISTRY, EngineRegistry, EngineSpec
from plait.errors import EngineUnavailableError
from plait.models.endpoints import is_loopback

logger = logging.getLogger("plait.agents")

_CLOSING_SECONDS = 10.0

_live: weakref.WeakSet[AgentPort] = weakref.WeakSet()


def get_agent(
    model_config: ModelConfig | None,
    *,
    auto_fallback: bool = True,
    registry: EngineRegistry = REGISTRY,
) -> AgentPort:
    """Create an agent on the engine of a model, or, with a warning, on its fallback.

    Raises:
        EngineUnavailableError: The configuration is incomplete, or no engine can be used.
    """
    config = _checked(model_config)
    config, spec = _choose(config, registry, auto_fallback=auto_fallback)
    engine = config.interface
    try:
        agent = spec.make(config)
    except ImportError as error:
        text = f"{engine} cannot be used: {error}"
        raise EngineUnavailableError(text, str(error), spec.fallback) from error
    if not isinstance(agent, AgentPort):
        text = f"{engine} made a {type(agent).__name__}, which is not an AgentPort"
        raise EngineUnavailableError(text, "not_an_agent")
    with contextlib.suppress(TypeError):  # no weak references: the caller closes it
        _live.add(agent)
    return agent


async def close_all_agents() -> None:
    """Close every live agent that `get_agent` created; failures are logged."""
    agents = list(_live)
    _live.clear()
    await asyncio.gather(*(_close(agent) for agent in agents))


async def _close(agent: AgentPort) -> None:
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await agent.aclose()
    except Exception as error:  # noqa: BLE001  # boundary: the other agents are closed anyway
        logger.warning("%s did not close: %r", type(agent).__name__, error)


def _checked(config: ModelConfig | None) -> ModelConfig:
    if config is None:
        raise EngineUnavailableError("there is no model configuration", "missing_config")
    if not config.model_name:
        raise EngineUnavailableError("model_name is missing", "missing_model_name")
    if config.interface == "langchain" and not config.model_provider:
        if ":" not in config.model_name:
            text = "model_provider is missing: LangChain needs it, as in 'anthropic'"
            raise EngineUnavailableError(text, "missing_model_provider")
    elif config.interface == "openai_endpoint":
        if not config.endpoint_base_url:
            text = "endpoint_base_url is missing: set the URL of the endpoint"
            raise EngineUnavailableError(text, "missing_endpoint_base_url")
        if config.endpoint_api_key is None and not is_loopback(config.endpoint_base_url):
            text = "endpoint_api_key is missing: only endpoints on this machine need none"
            raise EngineUnavailableError(text, "missing_endpoint_api_key")
    return config


def _choose(
    config: ModelConfig, registry: EngineRegistry, *, auto_fallback: bool
) -> tuple[ModelConfig, EngineSpec]:
    """Find an engine that can be used, and copy the configuration for it."""
    tried: set[str] = set()
    while True:
        engine = config.interface
        availability = registry.availability(engine)
        spec = registry.spec(registry.resolve(engine))
        if availability.available and spec is not None:
            return config, spec
        tried.add(engine)
        fallback, reason = availability.fallback, availability.reason
        if fallback is None or fallback in tried or not auto_fallback:
            raise EngineUnavailableError(f"{engine} cannot be used: {reason}", reason, fallback)
        logger.warning("%s cannot be used (%s); falling back to %s", engine, reason, fallback)
        config = _for_engine(config, fallback)


def _for_engine(config: ModelConfig, engine: str) -> ModelConfig:
    """Copy a configuration for another engine; the provider of the Claude engines is Anthropic."""
    provider = config.model_provider
    if provider is None and config.interface.startswith("claude_"):
        provider = "anthropic"
    return _checked(config.model_copy(update={"interface": engine, "model_provider": provider}))
