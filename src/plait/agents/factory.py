"""From a model's configuration to an agent that runs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref

from plait.agents.model_config import ModelConfig
from plait.agents.port import AgentPort
from plait.agents.registry import REGISTRY, EngineAvailability, EngineRegistry, EngineSpec
from plait.errors import EngineUnavailableError
from plait.models.endpoints import is_loopback

logger = logging.getLogger("plait.agents")

_CLOSING_SECONDS = 10.0
"""How long one agent may take to close."""

_live: weakref.WeakSet[AgentPort] = weakref.WeakSet()


def get_agent(
    model_config: ModelConfig | None,
    *,
    auto_fallback: bool = True,
    registry: EngineRegistry = REGISTRY,
) -> AgentPort:
    """Make the agent of a model's interface, or with a warning the one to be used instead.

    Raises:
        EngineUnavailableError: The configuration lacks something, or no engine can be used.
    """
    config = _checked(model_config)
    config, spec = _choose(config, registry, auto_fallback=auto_fallback)
    try:
        agent = spec.make(config)
    except ImportError as error:
        text = f"{config.interface} cannot be used: {error}"
        raise EngineUnavailableError(text, str(error), spec.fallback_interface) from error
    if not isinstance(agent, AgentPort):
        text = f"{config.interface} made a {type(agent).__name__}, which is not an AgentPort"
        raise EngineUnavailableError(text, "not_an_agent")
    with contextlib.suppress(TypeError):  # it cannot be referred to weakly: its maker closes it
        _live.add(agent)
    return agent


async def close_all_agents() -> None:
    """Close every agent that `get_agent` made and that is still there; failures are only logged."""
    agents = list(_live)
    _live.clear()
    await asyncio.gather(*(_close(agent) for agent in agents))


async def _close(agent: AgentPort) -> None:
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await agent.aclose()
    except Exception as error:  # noqa: BLE001  # boundary: one that fails must not keep the others
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
            text = "endpoint_base_url is missing: where is the endpoint?"
            raise EngineUnavailableError(text, "missing_endpoint_base_url")
        if config.endpoint_api_key is None and not is_loopback(config.endpoint_base_url):
            text = "endpoint_api_key is missing: only endpoints on this machine do without"
            raise EngineUnavailableError(text, "missing_endpoint_api_key")
    return config


def _choose(
    config: ModelConfig, registry: EngineRegistry, *, auto_fallback: bool
) -> tuple[ModelConfig, EngineSpec]:
    """Find the engine that can be used; the configuration is copied for the one that is."""
    tried: set[str] = set()
    while True:
        found = registry.check_availability(config.interface)
        spec = registry.get_spec(registry.resolve_interface(config.interface))
        if found.available and spec is not None:
            return config, spec
        tried.add(config.interface)
        other = found.fallback_interface
        if other is None or other in tried or not auto_fallback:
            raise _unavailable(config.interface, found)
        logger.warning(
            "%s cannot be used (%s); going on with %s", config.interface, found.reason, other
        )
        config = _moved(config, other)


def _moved(config: ModelConfig, interface: str) -> ModelConfig:
    """Copy a configuration for another interface; those of Claude have models of Anthropic."""
    provider = config.model_provider
    if provider is None and config.interface.startswith("claude_"):
        provider = "anthropic"
    return _checked(config.model_copy(update={"interface": interface, "model_provider": provider}))


def _unavailable(interface: str, found: EngineAvailability) -> EngineUnavailableError:
    text = f"{interface} cannot be used: {found.reason}"
    return EngineUnavailableError(text, found.reason, found.fallback_interface)
