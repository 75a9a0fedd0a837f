"""What is asked of the Messages API, but for the messages."""

from __future__ import annotations

from typing import Any

import pytest

from plait import AgentConfig, ConfigError, Message, ModelConfig, StaticTool
from plait._support.redact import Redactor
from plait.agents import AgentMiddlewareConfig
from plait.agents.agent_run import AgentRun, tools_of_run
from plait.agents.engines.claude_tool.agent import ClaudeToolAgent, request_for
from plait.traces.recorder import Recorder

MARK = {"type": "ephemeral"}
TOOLS = [StaticTool("one"), StaticTool("two", "The second.", {"$ref": "#/$defs/a", "$defs": {}})]


def request(settings: AgentConfig | None = None, **config: Any) -> dict[str, Any]:
    """Ask what would be sent."""
    defaults = {"id": "c", "model_name": "claude-x", "interface": "claude_tool"}
    model = ModelConfig.model_validate({"system_prompt": "Be brief.", **defaults, **config})
    messages = [Message.user("Go.")]
    run = AgentRun(model, settings or AgentConfig(), messages, Recorder(), Redactor(), None)
    run.tools = tools_of_run(TOOLS, [])
    run.temperature = ClaudeToolAgent(model).sent_temperature
    return request_for(run)


def middleware(**caching: Any) -> AgentMiddlewareConfig:
    return AgentMiddlewareConfig.model_validate({"prompt_caching": caching})


def test_the_last_tool_and_the_system_prompt_are_marked_for_the_cache() -> None:
    asked = request()

    assert [tool.get("cache_control") for tool in asked["tools"]] == [None, MARK]
    assert asked["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert asked["tools"][1]["input_schema"]["type"] == "object"


def test_the_mark_follows_the_settings() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    longer = request(agent_middleware=middleware(ttl="1h"))
    off = request(agent_middleware=middleware(enabled=False))
    unmarked = request(AgentConfig(extra={"cache_tools": False}))

    assert (longer["tools"][1]["cache_control"], longer["system"][0]["cache_control"]) == (
        hour,
        hour,
    )
    assert "cache_control" not in {**off["tools"][1], **off["system"][0]}
    assert "cache_control" not in unmarked["tools"][1]
    assert unmarked["system"][0]["cache_control"] == MARK


def test_no_system_prompt_is_no_system_prompt() -> None:
    assert "system" not in request(system_prompt=None)
    assert "system" not in request(system_prompt="  ")


def test_the_temperature_is_sent_where_it_is_taken() -> None:
    thinking = {"thinking": {"type": "adaptive"}}
    sent = {
        "by default": request(),
        "none": request(temperature=None),
        "not by default while thinking": request(extra_kwargs=thinking),
        "but when asked for": request(extra_kwargs=thinking, temperature=1.0),
        "not by default": request(model_name="claude-sonnet-5-5-20261001"),
        "or from the extras": request(extra_kwargs={"temperature": 0.7}),
    }

    found = {name: (one.get("extra_body") or {}).get("temperature") for name, one in sent.items()}
    assert found == {
        "by default": 0.1,
        "none": None,
        "not by default while thinking": None,
        "but when asked for": 1.0,
        "not by default": None,
        "or from the extras": 0.7,
    }


def test_extra_settings_win_and_unknown_ones_go_into_the_body() -> None:
    search = {"type": "web_search_20260209", "name": "web_search"}
    extra = {
        "max_tokens": 5,
        "betas": ["b"],
        "top_k": 3,
        "extra_body": {"new": True},
        "tools": [search],
    }

    asked = request(extra_kwargs=extra, temperature=None)

    assert (asked["max_tokens"], asked["betas"]) == (5, ["b"])
    assert asked["extra_body"] == {"top_k": 3, "new": True}
    assert [tool["name"] for tool in asked["tools"]] == ["one", "two", "web_search"]


def test_long_answers_are_streamed() -> None:
    assert request()["stream"] is False
    assert request(max_tokens=8193)["stream"] is True
    assert request(AgentConfig(stream=True))["stream"] is True
    assert request(max_tokens=8193, extra_kwargs={"stream": False})["stream"] is False


@pytest.mark.parametrize("name", ["messages", "max_iterations", "run_tools_eagerly"])
def test_what_the_run_decides_on_cannot_be_an_extra(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        request(extra_kwargs={name: 1})
