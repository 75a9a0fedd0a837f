"""Durations are finite numbers, wherever they are set."""

from collections.abc import Callable
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from plait import MultiServerMCPClient, OAuth, Toolbox
from plait._support.durations import checked_limit, checked_seconds
from plait.agents.config import AgentConfig, ModelConfig
from plait.client.calls.result_cache import ResultCaching
from plait.client.calls.sampling import Sampling
from plait.client.calls.tool_call import run_deadline
from plait.client.config.budgets import ResultBudget
from plait.client.config.timing import ReconnectPolicy
from plait.errors import ConfigError
from plait.gateway import McpToolServerConfigurationService

SERVERS: Any = {"a": {"command": "true"}}
WITH_KEY: Callable[[str, Any], Any] = lambda key, value: {"a": {"command": "true", key: value}}  # noqa: E731

SETTINGS: dict[str, Callable[[Any], object]] = {
    "cache": lambda value: Toolbox(SERVERS, cache=value),
    "result_cache": lambda value: MultiServerMCPClient(SERVERS, result_cache=value),
    "result_cache by tool": lambda value: ResultCaching.of({"add": value}),
    "default_tool_timeout": lambda value: Toolbox(SERVERS, default_tool_timeout=value),
    "tool_timeouts": lambda value: Toolbox(SERVERS, tool_timeouts={"add": value}),
    "connect_timeout": lambda value: Toolbox(WITH_KEY("connect_timeout", value)),
    "read_timeout": lambda value: Toolbox(WITH_KEY("read_timeout", value)),
    "reconnect": lambda value: Toolbox(WITH_KEY("reconnect", {"delayMs": value})),
    "reconnect in Python": lambda value: ReconnectPolicy(first_delay_seconds=value),
    "keep_seconds": lambda value: ResultBudget(keep_seconds=value),
    "sampling": lambda value: Sampling(lambda *_: None, timeout_seconds=value),
    "oauth": lambda value: OAuth(wait_seconds=value),
    "agent": lambda value: AgentConfig(timeout=value),
    "gateway": lambda value: McpToolServerConfigurationService(timeout_seconds=value),
    "gateway list": lambda value: McpToolServerConfigurationService(ttl_seconds=value),
}


@pytest.mark.parametrize("value", [nan, inf, -inf, -1, "5"], ids=repr)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_duration_that_is_none_is_refused(setting: str, value: object) -> None:
    with pytest.raises(ConfigError):
        SETTINGS[setting](value)


BOOLS = {"cache", "result_cache"}
"""Where true and false are words for always and never."""


@pytest.mark.parametrize("setting", [one for one in SETTINGS if one not in BOOLS])
def test_true_is_not_one_second(setting: str) -> None:
    with pytest.raises(ConfigError):
        SETTINGS[setting](True)


@pytest.mark.parametrize("value", [nan, inf, True, -1])
def test_models_refuse_it_as_well(value: object) -> None:
    settings: dict[str, Any] = {"request_timeout": value}

    with pytest.raises(ValueError, match="request_timeout"):
        ModelConfig(id="m", model_name="m", **settings)


@pytest.mark.parametrize("value", [nan, inf, True])
def test_the_deadline_of_a_run_is_finite(value: float) -> None:
    with pytest.raises(ConfigError), run_deadline(value):
        pass


def test_seconds_may_be_numbers_or_a_timedelta() -> None:
    assert checked_seconds(2, "x") == 2.0
    assert checked_seconds(timedelta(minutes=1), "x") == 60.0
    assert checked_limit(0, "x") == 0.0
    assert checked_limit(None, "x") is None
    with pytest.raises(ConfigError):
        checked_seconds(10**400, "x")
