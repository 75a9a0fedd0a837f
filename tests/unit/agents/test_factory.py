"""From a configuration to an agent: availability, fallback, routes, and the end of agents."""

from __future__ import annotations

import asyncio
import logging
import warnings
from typing import Any

import pytest

from plait import Message
from plait.agents.config import ModelConfig
from plait.agents.port import (
    AgentCapabilities,
    AgentPort,
    AgentResult,
    BaseAgent,
    Conversation,
    read_messages,
)
from plait.agents.registry import (
    REGISTRY,
    EngineAvailability,
    EngineRegistry,
    EngineSpec,
    close_all_agents,
    get_agent,
)
from plait.errors import EngineUnavailableError
from plait.traces.messages.message import UsageMetadata


class EchoAgent(BaseAgent):
    """An engine that repeats the last message."""

    def __init__(self, model_config: ModelConfig) -> None:
        self.model_config = model_config
        self.closed = False
        self.fails = False

    async def arun(self, messages: Conversation, *_: Any, **__: Any) -> AgentResult:
        text = read_messages(messages)[-1].text
        return AgentResult(text, text, [], UsageMetadata(), 1, limit_reached=False)

    async def aclose(self) -> None:
        self.closed = True
        if self.fails:
            raise RuntimeError("no")


MISSING = "no_such_module_at_all"
GONE_A = EngineAvailability(False, "gone", "a")
GONE_B = EngineAvailability(False, "gone", "b")


def _registry(*specs: EngineSpec) -> EngineRegistry:
    return EngineRegistry([EngineSpec(name="langchain", agent_factory=EchoAgent), *specs])


def _config(interface: str, **more: Any) -> ModelConfig:
    return ModelConfig(id="a", model_name="m", interface=interface, **more)


@pytest.mark.parametrize(
    ("config", "made_for"),
    [
        (_config("acme"), "acme"),
        (
            _config("openai_endpoint", endpoint_base_url="http://127.0.0.1:11434/v1"),
            "openai_endpoint",
        ),
        (_config("claude_tool"), "langchain"),
        (_config("langchian", model_provider="x"), "langchain"),
    ],
    ids=["its own engine", "no key on this machine", "the fallback", "an unknown engine"],
)
def test_an_agent_is_made_for_its_interface_or_its_fallback(
    config: ModelConfig, made_for: str
) -> None:
    registry = _registry(
        EngineSpec(name="acme", agent_factory=EchoAgent),
        EngineSpec(name="openai_endpoint", routes_to="langchain"),
        EngineSpec(name="claude_tool", needs=(MISSING,), install="plait[x]", fallback="langchain"),
    )

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent = get_agent(config, registry=registry)

    assert isinstance(agent, EchoAgent)
    assert isinstance(agent, AgentPort)
    assert agent.capabilities == AgentCapabilities()
    assert agent.model_config.interface == made_for
    warned = [str(warning.message) for warning in caught]
    assert len(warned) == (made_for != config.interface)
    if config.interface == "claude_tool":
        assert f"{MISSING} is not installed: pip install 'plait[x]'" in warned[0]
        assert agent.model_config.model_provider == "anthropic"


@pytest.mark.parametrize(
    ("spec", "config", "reason", "fallback"),
    [
        (None, None, "missing_config", None),
        (
            None,
            _config("acme").model_copy(update={"model_name": None}),
            "missing_model_name",
            None,
        ),
        (None, _config("langchain"), "missing_model_provider", None),
        (None, _config("openai_endpoint"), "missing_endpoint_base_url", None),
        (
            None,
            _config("openai_endpoint", endpoint_base_url="https://h/v1"),
            "missing_endpoint_api_key",
            None,
        ),
        (
            EngineSpec(name="acme", agent_factory=f"{MISSING}.agent:A", fallback="langchain"),
            _config("acme"),
            f"there is no module {MISSING}.agent",
            "langchain",
        ),
        (
            EngineSpec(name="acme", agent_factory=lambda _: object()),  # pyright: ignore[reportArgumentType]
            _config("acme"),
            "not_an_agent",
            None,
        ),
        (
            EngineSpec(name="acme", agent_factory="plait.agents.port:NoSuchAgent"),
            _config("acme"),
            "plait.agents.port:NoSuchAgent does not exist",
            None,
        ),
        (None, _config("nobody", model_provider="x"), "there is no engine 'nobody'", "langchain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_made_says_why(
    spec: EngineSpec | None, config: ModelConfig | None, reason: str, fallback: str | None
) -> None:
    registry = _registry(*([] if spec is None else [spec]))

    with pytest.raises(EngineUnavailableError) as failed:
        get_agent(config, auto_fallback=False, registry=registry)

    assert failed.value.reason.startswith(reason)
    assert failed.value.fallback == fallback


def test_engines_that_fall_back_to_each_other_are_an_error() -> None:
    registry = EngineRegistry(
        [
            EngineSpec(name="a", availability_checker=lambda: GONE_B),
            EngineSpec(name="b", availability_checker=lambda: GONE_A),
        ]
    )

    with pytest.raises(EngineUnavailableError, match="b cannot be used: gone"):
        get_agent(_config("a"), registry=registry)


def test_engines_are_registered_once_and_routes_are_followed() -> None:
    registry = _registry(
        EngineSpec(name="a", routes_to="b"), EngineSpec(name="b", routes_to="langchain")
    )
    spec = EngineSpec(name="langchain")

    with pytest.raises(ValueError, match="already"):
        registry.register(spec)
    registry.register(spec, force=True)

    assert registry.spec("langchain") is spec
    assert [registry.resolve(name) for name in ("a", "nobody")] == ["langchain", "nobody"]


def test_the_registry_has_these_engines() -> None:
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
        f"broken = {MISSING}:spec\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = EngineRegistry([], group="plait.agents.test")

    with caplog.at_level(logging.WARNING, "plait.agents"):
        assert registry.names() == ["acme"]

    assert len(caplog.records) == 2


@pytest.mark.anyio
async def test_every_agent_is_closed_and_one_that_fails_keeps_no_other() -> None:
    config = _config("langchain", model_provider="x")
    agents = [get_agent(config, registry=_registry()) for _ in "ab"]
    agents[0].fails = True  # pyright: ignore[reportAttributeAccessIssue]

    await close_all_agents()
    await close_all_agents()

    assert [agent.closed for agent in agents if isinstance(agent, EchoAgent)] == [True, True]


def test_a_blocking_run_works_with_and_without_a_running_loop() -> None:
    agent = EchoAgent(_config("acme"))

    async def inside() -> str:
        return agent.run([Message.user("in")]).final_response

    assert agent.run("out").final_response == "out"
    assert asyncio.run(inside()) == "in"
