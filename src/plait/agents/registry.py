"""The registry of engines, and `get_agent`: from the configuration of a model to an agent.

Another package adds an engine by an entry point of the group `plait.agents` that refers to an
`EngineSpec`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import RLock

from plait.agents.config import ModelConfig
from plait.agents.port import AgentPort
from plait.errors import EngineUnavailableError
from plait.models.endpoints import is_loopback

logger = logging.getLogger("plait.agents")

ENTRY_POINTS = "plait.agents"
"""The group of entry points under which other packages offer engines."""

_FALLBACK = "langchain"
"""The engine to use instead of an unknown one."""


@dataclass(frozen=True, slots=True)
class EngineAvailability:
    """Whether an engine can be used here, and which one could be used instead."""

    available: bool
    reason: str
    fallback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """One engine, described without importing it."""

    name: str
    """The value of `ModelConfig.interface` that selects it."""
    description: str = ""
    agent_factory: str | Callable[[ModelConfig], AgentPort] | None = None
    """A function or class, or its path: `package.module:Name`."""
    needs: tuple[str, ...] = ()
    """The modules it imports from other packages."""
    install: str | None = None
    """What to install to get them."""
    availability_checker: Callable[[], EngineAvailability] | None = None
    """Called instead of looking for modules."""
    fallback: str | None = None
    """The engine to use where this one is unavailable."""
    routes_to: str | None = None
    """The engine that runs the model, if it is another one."""
    default_model: str | None = None
    """For an engine of another package: the model to run if none is named."""
    supports_mcp: bool = True
    supports_tools: bool = True

    def availability(self) -> EngineAvailability:
        """Check whether it can be used here, importing only parent packages."""
        if self.availability_checker is not None:
            return self.availability_checker()
        if isinstance(self.agent_factory, str):
            module = self.agent_factory.partition(":")[0]
            if not _is_importable(module):
                return EngineAvailability(False, f"there is no module {module}", self.fallback)
        missing = [module for module in self.needs if not _is_importable(module)]
        if not missing:
            return EngineAvailability(True, f"{self.name} can be used")
        hint = f": pip install {self.install!r}" if self.install else ""
        reason = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed{hint}"
        return EngineAvailability(False, reason, self.fallback)


class EngineRegistry:
    """The engines by name; entry points are loaded on first use."""

    def __init__(self, builtin: Iterable[EngineSpec], *, group: str | None = None) -> None:
        self._builtin = tuple(builtin)
        self._group = group
        self._loaded: dict[str, EngineSpec] | None = None
        self._lock = RLock()

    def register(self, spec: EngineSpec, force: bool = False) -> None:
        """Add an engine.

        Raises:
            ValueError: The name is taken, and `force` is false.
        """
        with self._lock:
            if spec.name in self._specs and not force:
                raise ValueError(f"there is an engine {spec.name!r} already")
            self._specs[spec.name] = spec

    def spec(self, name: str) -> EngineSpec | None:
        """Return an engine by its name."""
        return self._specs.get(name)

    def names(self) -> list[str]:
        """List the names of all engines."""
        return list(self._specs)

    def availability(self, name: str) -> EngineAvailability:
        """Check whether an engine can be used here."""
        spec = self.spec(self.resolve(name)) or self.spec(name)
        if spec is None:
            reason = f"there is no engine {name!r}; the engines are: {', '.join(self.names())}"
            return EngineAvailability(False, reason, _FALLBACK)
        return spec.availability()

    def resolve(self, name: str) -> str:
        """Follow `routes_to` to the name of the engine that runs the model."""
        seen: set[str] = set()
        while (spec := self.spec(name)) and spec.routes_to and name not in seen:
            seen.add(name)
            name = spec.routes_to
        return name

    @property
    def _specs(self) -> dict[str, EngineSpec]:
        with self._lock:
            if self._loaded is not None:
                return self._loaded
            self._loaded = {spec.name: spec for spec in self._builtin}
            for point in () if self._group is None else entry_points(group=self._group):
                try:
                    spec: object = point.load()
                except Exception:  # boundary: a broken package must not disable the other engines
                    logger.exception(
                        "the engine %s of %s cannot be loaded", point.name, point.value
                    )
                    continue
                if isinstance(spec, EngineSpec):
                    self._loaded.setdefault(spec.name, spec)
                else:
                    text = "the engine %s of %s is not an EngineSpec"
                    logger.warning(text, point.name, point.value)
            return self._loaded


def _is_importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a parent package is missing
        return False


REGISTRY = EngineRegistry(
    [
        EngineSpec(
            name="langchain",
            description="LangGraph agents with any chat model of LangChain",
            agent_factory="plait.agents.engines.langchain.agent:LangChainAgent",
            needs=("langchain_core", "langchain", "langgraph"),
            install="plait[models]",
        ),
        EngineSpec(
            name="openrouter",
            description="models of OpenRouter, on the langchain engine",
            routes_to="langchain",
        ),
        EngineSpec(
            name="openai_endpoint",
            description="an endpoint that speaks OpenAI's protocol, on the langchain engine",
            routes_to="langchain",
        ),
        EngineSpec(
            name="claude_tool",
            description="Anthropic's Messages API",
            agent_factory="plait.agents.engines.claude_tool.agent:ClaudeToolAgent",
            needs=("anthropic",),
            install="plait[anthropic]",
            fallback="langchain",
        ),
        EngineSpec(
            name="claude_agent_sdk",
            description="the Claude Agent SDK",
            agent_factory="plait.agents.engines.claude_agent_sdk.agent:ClaudeSDKAgent",
            needs=("claude_agent_sdk",),
            install="plait[claude]",
            fallback="langchain",
        ),
        EngineSpec(
            name="manual",
            description="recorded answers",
            agent_factory="plait.agents.engines.manual.agent:ManualAgent",
            supports_mcp=False,
            supports_tools=False,
        ),
    ],
    group=ENTRY_POINTS,
)
"""The engines that `get_agent` knows."""


MAX_CLOSING_SECONDS = 10.0
"""How long one agent may take to close: the others wait no longer for it."""

_live: weakref.WeakSet[AgentPort] = weakref.WeakSet()


def get_agent(
    model_config: ModelConfig | None,
    *,
    auto_fallback: bool = True,
    registry: EngineRegistry = REGISTRY,
) -> AgentPort:
    """Create an agent on the engine of a model, or, with a `RuntimeWarning`, on its fallback.

    Raises:
        EngineUnavailableError: The configuration is incomplete, or no engine can be used.
    """
    config = _checked(model_config)
    tried: set[str] = set()
    refused: list[str] = []
    while True:
        engine = config.interface
        availability = registry.availability(engine)
        spec = registry.spec(registry.resolve(engine))
        if availability.available and spec is not None:
            break
        tried.add(engine)
        fallback, reason = availability.fallback, availability.reason
        if fallback is None or fallback in tried or not auto_fallback:
            raise EngineUnavailableError(f"{engine} cannot be used: {reason}", reason, fallback)
        refused.append(f"{engine} cannot be used ({reason})")
        provider = config.model_provider
        if provider is None and engine.startswith("claude_"):
            provider = "anthropic"  # which these engines imply
        update = {"interface": fallback, "model_provider": provider}
        config = _checked(config.model_copy(update=update))
    if refused:  # no log record: another engine is to be seen by programs that have no logging
        text = f"{'; '.join(refused)}: the agent runs on {engine}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    factory = spec.agent_factory
    try:
        if isinstance(factory, str):
            module, _, name = factory.partition(":")
            factory = getattr(import_module(module), name, None)
        if factory is None:
            raise ImportError(f"{spec.agent_factory} does not exist")
        agent: object = factory(config)
    except ImportError as error:
        text = f"{engine} cannot be used: {error}"
        raise EngineUnavailableError(text, str(error), spec.fallback) from error
    if not isinstance(agent, AgentPort):
        text = f"{engine} made a {type(agent).__name__}, which is not an AgentPort"
        raise EngineUnavailableError(text, "not_an_agent")
    with contextlib.suppress(TypeError):  # no weak references: the caller closes it
        _live.add(agent)
    return agent


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


async def close_all_agents() -> None:
    """Close every live agent that `get_agent` created; failures are logged."""

    async def close(agent: AgentPort) -> None:
        try:
            async with asyncio.timeout(MAX_CLOSING_SECONDS):
                await agent.aclose()
        except Exception as error:  # noqa: BLE001  # boundary: the other agents are closed anyway
            logger.warning("%s did not close: %r", type(agent).__name__, error)

    agents = list(_live)
    _live.clear()
    await asyncio.gather(*map(close, agents))
