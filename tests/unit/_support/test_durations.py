"""Durations are finite numbers, wherever they are set."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import fields
from datetime import timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from plait import (
    MultiServerMCPClient,
    OAuth,
    Toolbox,
    load_mcp_tools,
)
from plait._support.durations import checked_limit, checked_seconds
from plait.agents.config import AgentConfig, ModelConfig, ModelRetryConfig, ToolRetryConfig
from plait.agents.servers import connect_all_mcp_servers
from plait.client.calls.result_cache import ResultCaching
from plait.client.calls.sampling import Sampling
from plait.client.calls.tool_call import run_deadline
from plait.client.config.budgets import ResultBudget
from plait.client.config.servers import (
    HttpServer,
    ReconnectPolicy,
    SseServer,
    StdioServer,
    Timeouts,
)
from plait.client.toolbox import ServerHandle
from plait.errors import ConfigError
from plait.gateway import McpToolServerConfigurationService
from plait.verification.plan import RunOptions
from plait.verification.suite import Limits

URL = "http://127.0.0.1:9/mcp"
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
    "longest delay in Python": lambda value: ReconnectPolicy(longest_delay_seconds=value),
    "jitter in Python": lambda value: ReconnectPolicy(jitter=value),
    "attempts in Python": lambda value: ReconnectPolicy(max_attempts=value),
    **{
        f"Timeouts.{item.name}": lambda value, name=item.name: Timeouts(**{name: value})
        for item in fields(Timeouts)
        if item.name != "tool_seconds"
    },
    "Timeouts.tool_seconds": lambda value: Timeouts(tool_seconds={"add": value}),
    "StdioServer.idle_seconds": lambda value: StdioServer(command="true", idle_seconds=value),
    "HttpServer.idle_seconds": lambda value: HttpServer(url=URL, idle_seconds=value),
    "HttpServer.exchange_seconds": lambda value: HttpServer(url=URL, exchange_seconds=value),
    "SseServer.stream_read_seconds": lambda value: SseServer(url=URL, stream_read_seconds=value),
    "max_concurrency": lambda value: StdioServer(command="true", max_concurrency=value),
    "session_kwargs": lambda value: Toolbox(
        WITH_KEY("session_kwargs", {"read_timeout_seconds": value})
    ),
    "get_tools": lambda value: asyncio.run(MultiServerMCPClient({}).get_tools(wait=value)),
    "ready": lambda value: asyncio.run(Toolbox(SERVERS).ready(value)),
    "call": lambda value: asyncio.run(Toolbox(SERVERS).call("a", "add", timeout_seconds=value)),
    "session call": lambda value: asyncio.run(
        ServerHandle(Toolbox(SERVERS), "a").call_tool("add", read_timeout_seconds=value)
    ),
    "load_mcp_tools": lambda value: asyncio.run(
        load_mcp_tools(None, connection=SERVERS["a"], default_tool_timeout=value)
    ),
    "agent servers": lambda value: asyncio.run(
        connect_all_mcp_servers(AsyncExitStack(), {}, timeout_seconds=value)
    ),
    "cost": lambda value: AgentConfig(max_cost_usd=value),
    "keep_seconds": lambda value: ResultBudget(keep_seconds=value),
    "sampling": lambda value: Sampling(lambda *_: None, timeout_seconds=value),
    "oauth": lambda value: OAuth(wait_seconds=value),
    "agent": lambda value: AgentConfig(timeout=value),
    "verification time": lambda value: RunOptions(report=Path(), max_seconds=value),
    "verification cost": lambda value: RunOptions(report=Path(), max_cost_usd=value),
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


@pytest.mark.parametrize("value", [nan, inf, True, -1, "5"])
@pytest.mark.parametrize("kind", [ModelRetryConfig, ToolRetryConfig])
def test_the_delays_of_retries_are_finite(kind: Callable[..., object], value: object) -> None:
    settings = ["initial_delay", "backoff_factor"]
    settings += ["max_delay"] if kind is ModelRetryConfig else []

    for setting in settings:
        with pytest.raises(ValidationError, match=setting):
            kind(**{setting: value})


@pytest.mark.parametrize("value", [nan, inf, -1, 0, True, "5"])
def test_the_limits_of_a_case_are_finite(value: Any) -> None:
    with pytest.raises(ValidationError, match="seconds"):
        Limits(seconds=value)


def test_typed_settings_take_a_timedelta_and_hold_seconds() -> None:
    minute: Any = timedelta(minutes=1)

    timeouts = Timeouts(connect_seconds=minute, tool_seconds={"add": minute})
    assert (timeouts.connect_seconds, timeouts.tool_seconds) == (60.0, {"add": 60.0})
    assert ReconnectPolicy(first_delay_seconds=minute, jitter=0).delay_seconds(0) == 60.0
    assert StdioServer(command="true", idle_seconds=minute).idle_seconds == 60.0


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
