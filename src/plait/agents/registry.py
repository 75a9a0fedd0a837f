"""Which engines there are: those of this package, and those that others bring.

Another package adds an engine by an entry point of the group `plait.agents` that leads to an
`EngineSpec`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.agents.model_config import ModelConfig
    from plait.agents.port import AgentPort

logger = logging.getLogger("plait.agents")

ENTRY_POINTS = "plait.agents"
"""The group of entry points under which other packages offer engines."""

_LAST_RESORT = "langchain"
"""The interface to use instead of one that nobody knows."""


@dataclass(frozen=True, slots=True)
class EngineAvailability:
    """Whether an engine can be used here, and what could be used instead."""

    available: bool
    reason: str
    fallback_interface: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """One engine, described without importing it."""

    interface: str

    description: str = ""

    agent_factory: str | Callable[[ModelConfig], AgentPort] | None = None
    """A function or class, or where it is: `package.module:Name`."""

    needs: tuple[str, ...] = ()
    """The modules without which it cannot run."""

    install: str | None = None
    """What to install to have them."""

    availability_checker: Callable[[], EngineAvailability] | None = None
    """Asked instead of looking for modules."""

    fallback_interface: str | None = None

    routes_to: str | None = None
    """The interface whose engine does the work."""

    supports_mcp: bool = True

    supports_tools: bool = True

    def availability(self) -> EngineAvailability:
        """Say whether it can be used here; nothing is imported but packages it lies in."""
        if self.availability_checker is not None:
            return self.availability_checker()
        if isinstance(self.agent_factory, str):
            module = self.agent_factory.partition(":")[0]
            if not _is_there(module):
                return self._lacking(f"there is no module {module}")
        missing = [module for module in self.needs if not _is_there(module)]
        if not missing:
            return EngineAvailability(True, f"{self.interface} can be used")
        hint = f": pip install {self.install!r}" if self.install else ""
        return self._lacking(f"{', '.join(missing)} is not installed{hint}")

    def _lacking(self, reason: str) -> EngineAvailability:
        return EngineAvailability(False, reason, self.fallback_interface)

    def make(self, model_config: ModelConfig) -> object:
        """Make the engine for a model.

        Raises:
            ImportError: Its module cannot be imported.
        """
        factory = self.agent_factory
        if isinstance(factory, str):
            module, _, name = factory.partition(":")
            factory = getattr(import_module(module), name, None)
        if factory is None:
            raise ImportError(f"{self.agent_factory} is not there")
        return factory(model_config)


class EngineRegistry:
    """The engines by the name of their interface; filled when it is first asked."""

    def __init__(self, builtin: Iterable[EngineSpec], *, group: str | None = None) -> None:
        self._builtin = tuple(builtin)
        self._group = group
        self._specs: dict[str, EngineSpec] = {}
        self._filled = False
        self._lock = RLock()

    def register(self, spec: EngineSpec, force: bool = False) -> None:
        """Add an engine.

        Raises:
            ValueError: There is one of that name, and it is not to be replaced by `force`.
        """
        self._fill()
        with self._lock:
            if spec.interface in self._specs and not force:
                raise ValueError(f"there is an agent of the interface {spec.interface!r} already")
            self._specs[spec.interface] = spec

    def get_spec(self, interface: str) -> EngineSpec | None:
        """Return the engine of an interface."""
        self._fill()
        return self._specs.get(interface)

    def get_interfaces(self) -> list[str]:
        """Name every interface."""
        self._fill()
        return list(self._specs)

    def check_availability(self, interface: str) -> EngineAvailability:
        """Say whether an interface can be used here."""
        spec = self.get_spec(interface)
        if spec is None:
            known = ", ".join(self.get_interfaces())
            reason = f"nobody knows the interface {interface!r}; there are: {known}"
            return EngineAvailability(False, reason, _LAST_RESORT)
        routed = self.get_spec(self.resolve_interface(interface))
        return (routed or spec).availability()

    def resolve_interface(self, interface: str) -> str:
        """Follow an interface to the one whose engine does the work."""
        seen: set[str] = set()
        while (spec := self.get_spec(interface)) and spec.routes_to and interface not in seen:
            seen.add(interface)
            interface = spec.routes_to
        return interface

    def _fill(self) -> None:
        if self._filled:
            return
        with self._lock:
            if self._filled:
                return
            self._specs = {spec.interface: spec for spec in self._builtin}
            if self._group is not None:
                for spec in _offered(self._group):
                    self._specs.setdefault(spec.interface, spec)
            self._filled = True


def _offered(group: str) -> Iterable[EngineSpec]:
    for point in entry_points(group=group):
        try:
            spec: object = point.load()
        except Exception:  # boundary: a broken package must not take the others with it
            logger.exception("the agent %s of %s cannot be loaded", point.name, point.value)
            continue
        if isinstance(spec, EngineSpec):
            yield spec
        else:
            logger.warning("the agent %s of %s is not an EngineSpec", point.name, point.value)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a package on the way to it is not there
        return False


REGISTRY = EngineRegistry(
    [
        EngineSpec(
            interface="langchain",
            description="LangGraph agents with any chat model of LangChain",
            agent_factory="plait.agents.engines.langchain.agent:LangChainAgent",
            needs=("langchain_core", "langchain", "langgraph"),
            install="plait[langchain]",
        ),
        EngineSpec(
            interface="openrouter",
            description="models of OpenRouter, on the langchain engine",
            routes_to="langchain",
        ),
        EngineSpec(
            interface="openai_endpoint",
            description="an endpoint that speaks OpenAI's protocol, on the langchain engine",
            routes_to="langchain",
        ),
        EngineSpec(
            interface="claude_tool",
            description="the tool runner of Anthropic's SDK",
            agent_factory="plait.agents.engines.claude_tool.agent:ClaudeToolAgent",
            needs=("anthropic",),
            install="plait[anthropic]",
            fallback_interface="langchain",
        ),
        EngineSpec(
            interface="claude_agent_sdk",
            description="the Claude Agent SDK",
            agent_factory="plait.agents.engines.claude_agent_sdk.agent:ClaudeSDKAgent",
            needs=("claude_agent_sdk",),
            install="plait[claude]",
            fallback_interface="langchain",
        ),
        EngineSpec(
            interface="manual",
            description="recorded answers",
            agent_factory="plait.agents.engines.manual.agent:ManualAgent",
            supports_mcp=False,
            supports_tools=False,
        ),
    ],
    group=ENTRY_POINTS,
)
"""The engines that `get_agent` knows."""
