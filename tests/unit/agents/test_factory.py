"""From a configuration to an agent: availability, fallback, routes, and the end of agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from plait.agents.config import ModelConfig
from plait.agents.port import (
    AgentCapabilities,
    AgentPort,
    AgentResult,
    BaseAgent,
    Conversation,
    Settings,
    read_messages,
)
from plait.agents.program_tools import ToolLike
from plait.agents.registry import (
    REGISTRY,
    EngineAvailability,
    EngineRegistry,
    EngineSpec,
    close_all_agents,
    get_agent,
)
from plait.agents.servers import AgentServers
from plait.errors import EngineUnavailableError
from plait.traces.messages.message import Message, UsageMetadata


class EchoAgent(BaseAgent):
    """An engine that says what it was told."""

    def __init__(self, model_config: ModelConfig) -> None:
        self.model_config = model_config
        self.closed = False
        self.fails = False

    async def arun(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: object = None,
    ) -> AgentResult:
        text = read_messages(messages)[-1].text
        return AgentResult(text, text, [], UsageMetadata(), 1, limit_reached=False)

    async def aclose(self) -> None:
        self.closed = True
        if self.fails:
            raise RuntimeError("no")


def _registry(*specs: EngineSpec) -> EngineRegistry:
    return EngineRegistry([EngineSpec(name="langchain", agent_factory=EchoAgent), *specs])


def _config(interface: str, **more: Any) -> ModelConfig:
    return ModelConfig(id="a", model_name="m", interface=interface, **more)


def test_an_agent_is_made_for_its_interface() -> None:
    registry = _registry(EngineSpec(name="acme", agent_factory=EchoAgent))

    agent = get_agent(_config("acme"), registry=registry)

    assert isinstance(agent, EchoAgent)
    assert isinstance(agent, AgentPort)
    assert agent.capabilities == AgentCapabilities()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"interface": "langchain"}, "missing_model_provider"),
        ({"interface": "openai_endpoint"}, "missing_endpoint_base_url"),
        (
            {"interface": "openai_endpoint", "endpoint_base_url": "https://h/v1"},
            "missing_endpoint_api_key",
        ),
    ],
)
def test_a_configuration_that_lacks_something_says_what(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(EngineUnavailableError) as failed:
        get_agent(ModelConfig(id="a", model_name="m", **settings), registry=_registry())

    assert failed.value.reason == reason


def test_no_configuration_and_no_name_are_said() -> None:
    nameless = _config("acme").model_copy(update={"model_name": None})

    for config, reason in ((None, "missing_config"), (nameless, "missing_model_name")):
        with pytest.raises(EngineUnavailableError) as failed:
            get_agent(config, registry=_registry())
        assert failed.value.reason == reason


def test_an_endpoint_on_this_machine_needs_no_key() -> None:
    registry = _registry(EngineSpec(name="openai_endpoint", routes_to="langchain"))
    config = _config("openai_endpoint", endpoint_base_url="http://127.0.0.1:11434/v1")

    agent = get_agent(config, registry=registry)

    assert isinstance(agent, EchoAgent)
    assert agent.model_config.interface == "openai_endpoint"


def test_an_engine_that_is_not_there_is_replaced_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = _registry(
        EngineSpec(
            name="claude_tool",
            agent_factory=EchoAgent,
            needs=("no_such_module_at_all",),
            install="plait[x]",
            fallback="langchain",
        )
    )

    with caplog.at_level(logging.WARNING, "plait.agents"):
        agent = get_agent(_config("claude_tool"), registry=registry)

    assert isinstance(agent, EchoAgent)
    assert agent.model_config.interface == "langchain"
    assert agent.model_config.model_provider == "anthropic"
    (record,) = caplog.records
    assert "no_such_module_at_all is not installed: pip install 'plait[x]'" in record.getMessage()


def test_without_fallback_an_engine_that_is_not_there_is_an_error() -> None:
    registry = _registry(
        EngineSpec(
            name="acme",
            agent_factory="no_such_module_at_all.agent:Agent",
            fallback="langchain",
        )
    )

    with pytest.raises(EngineUnavailableError) as failed:
        get_agent(_config("acme"), auto_fallback=False, registry=registry)

    assert failed.value.fallback == "langchain"
    assert "no_such_module_at_all" in failed.value.reason


def test_engines_that_fall_back_to_each_other_are_an_error() -> None:
    gone = EngineAvailability(False, "gone", "b")
    registry = EngineRegistry(
        [
            EngineSpec(name="a", availability_checker=lambda: gone),
            EngineSpec(
                name="b",
                availability_checker=lambda: EngineAvailability(False, "gone", "a"),
            ),
        ]
    )

    with pytest.raises(EngineUnavailableError, match="b cannot be used: gone"):
        get_agent(_config("a"), registry=registry)


def test_an_unknown_engine_falls_back_to_langchain() -> None:
    found = _registry().availability("langchian")

    assert (found.available, found.fallback) == (False, "langchain")
    assert "langchian" in found.reason


def test_what_is_no_agent_is_refused() -> None:
    registry = _registry(EngineSpec(name="acme", agent_factory=lambda _: object()))  # pyright: ignore[reportArgumentType]

    with pytest.raises(EngineUnavailableError, match="not an AgentPort"):
        get_agent(_config("acme"), registry=registry)


def test_a_name_that_is_missing_in_its_module_is_said() -> None:
    registry = _registry(EngineSpec(name="acme", agent_factory="plait.agents.port:NoSuchAgent"))

    with pytest.raises(EngineUnavailableError, match="NoSuchAgent"):
        get_agent(_config("acme"), registry=registry)


def test_an_engine_can_be_registered_once_unless_it_is_forced() -> None:
    registry = _registry()
    spec = EngineSpec(name="langchain")

    with pytest.raises(ValueError, match="already"):
        registry.register(spec)
    registry.register(spec, force=True)

    assert registry.spec("langchain") is spec


def test_a_route_is_followed_to_the_engine_that_runs_the_model() -> None:
    registry = _registry(
        EngineSpec(name="a", routes_to="b"), EngineSpec(name="b", routes_to="langchain")
    )

    assert registry.resolve("a") == "langchain"
    assert registry.resolve("nobody") == "nobody"


def test_the_registry_has_these_engines() -> None:
    assert REGISTRY.names() == [
        "langchain",
        "openrouter",
        "openai_endpoint",
        "claude_tool",
        "claude_agent_sdk",
        "manual",
    ]
    table = {
        name: (spec.fallback, spec.routes_to, spec.supports_mcp, spec.supports_tools)
        for name in REGISTRY.names()
        if (spec := REGISTRY.spec(name))
    }
    assert table == {
        "langchain": (None, None, True, True),
        "openrouter": (None, "langchain", True, True),
        "openai_endpoint": (None, "langchain", True, True),
        "claude_tool": ("langchain", None, True, True),
        "claude_agent_sdk": ("langchain", None, True, True),
        "manual": (None, None, False, False),
    }
    assert REGISTRY.availability("manual").available


def test_other_packages_offer_engines_by_entry_points(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "acme_engine.py").write_text(
        "from plait.agents.registry import EngineSpec\n"
        "spec = EngineSpec(name='acme', availability_checker=None)\n"
        "other = 3\n"
    )
    about = tmp_path / "acme_engine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-engine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[plait.agents.test]\nacme = acme_engine:spec\nodd = acme_engine:other\n"
        "broken = no_such_module_at_all:spec\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = EngineRegistry([], group="plait.agents.test")

    with caplog.at_level(logging.WARNING, "plait.agents"):
        assert registry.names() == ["acme"]

    assert len(caplog.records) == 2


@pytest.mark.anyio
async def test_every_agent_is_closed_and_one_that_fails_keeps_no_other() -> None:
    agents = [
        get_agent(_config("langchain", model_provider="x"), registry=_registry()) for _ in "ab"
    ]
    assert all(isinstance(agent, EchoAgent) for agent in agents)
    agents[0].fails = True  # pyright: ignore[reportAttributeAccessIssue]

    await close_all_agents()
    await close_all_agents()

    assert [agent.closed for agent in agents if isinstance(agent, EchoAgent)] == [True, True]


def test_a_blocking_run_works_with_and_without_a_running_loop() -> None:
    agent = EchoAgent(_config("acme"))

    async def inside() -> str:
        return agent.run([Message.user("in")]).final_response

    assert agent.run([Message.user("out")]).final_response == "out"
    assert asyncio.run(inside()) == "in"
