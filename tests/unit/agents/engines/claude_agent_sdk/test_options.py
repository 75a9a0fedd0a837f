"""How the command line is started: its options, its environment, and the servers it connects to."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from plait import AgentConfig, ConfigError, Message, ModelConfig, StaticTool, Toolbox
from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun, tools_of_run
from plait.agents.engines.claude_agent_sdk.agent import (
    Bridge,
    Turns,
    cli_config,
    environment_for,
    needs_login,
    options_for,
)
from plait.agents.engines.claude_agent_sdk.tools import cli_tools
from plait.client.config.read import read_config
from plait.traces.recorder import Recorder

FOLDER = Path("/run/of/one")
ISOLATED = {"CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE"}


def model(**settings: Any) -> ModelConfig:
    return ModelConfig(id="m", model_name="claude", interface="claude_agent_sdk", **settings)


def options(
    folder: Path,
    config: AgentConfig | None = None,
    toolbox: Toolbox | None = None,
    *,
    bridged: bool = True,
    **settings: Any,
) -> ClaudeAgentOptions:
    messages = [Message.user("Q")]
    config = config or AgentConfig()
    run = AgentRun(model(**settings), config, messages, Recorder(), Redactor(), toolbox)
    run.tools = tools_of_run([StaticTool("twice")], [])
    tools = cli_tools(run.tools.values())
    bridge = Bridge(run, tools, Turns(run, tools))
    return options_for(run, folder, tools, bridge, bridged=bridged, stderr=print)


def test_only_the_tools_of_the_run_may_be_used(tmp_path: Path) -> None:
    made = options(tmp_path, AgentConfig(max_turns=3), system_prompt="Be kind.")

    assert (made.tools, made.setting_sources, made.strict_mcp_config) == ([], [], True)
    assert (made.allowed_tools, made.can_use_tool) == (["mcp__plait__twice"], None)
    assert (made.permission_mode, made.max_turns, made.model) == (None, 3, "claude")
    assert isinstance(made.mcp_servers, dict)
    assert list(made.mcp_servers) == ["plait"]
    prompt = made.system_prompt
    assert isinstance(prompt, dict)
    file = Path(prompt.get("path", ""))
    assert (file.read_text(), file.stat().st_mode & 0o077) == ("Be kind.", 0)


def test_further_options_are_taken_but_for_those_of_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {
        "effort": "low",
        "permission_mode": "bypassPermissions",
        "allowed_tools": ["Bash"],
        "tools": ["Bash"],
        "max_turns": 99,
        "disallowed_tools": ["mcp__x"],
        "env": {"CLAUDE_CODE_EXTRA_BODY": "{}"},
        "extra_args": {"dangerously-skip-permissions": None, "debug-file": "x"},
    }
    with caplog.at_level(logging.WARNING):
        made = options(tmp_path, AgentConfig(workspace_path=tmp_path), extra_kwargs=extra)

    assert (made.effort, made.cwd) == ("low", tmp_path)
    assert (made.permission_mode, made.tools, made.max_turns) == (None, [], 25)
    assert made.allowed_tools == ["mcp__plait__twice"]
    assert made.disallowed_tools == ["Skill", "mcp__x"]
    assert made.extra_args == {"no-session-persistence": None, "debug-file": "x"}
    assert made.env["CLAUDE_CODE_EXTRA_BODY"] == "{}"
    assert made.env["DISABLE_TELEMETRY"] == "1"
    for name in ("permission_mode", "dangerously-skip-permissions"):
        assert name in caplog.text
    with pytest.raises(ConfigError, match="temprature"):
        options(tmp_path, extra_kwargs={"temprature": 1})


def test_servers_that_are_passed_on_are_in_a_file_of_the_run(tmp_path: Path) -> None:
    server = {"url": "https://mcp.example/mcp", "headers": {"X-Key": "canary"}}
    made = options(tmp_path, toolbox=Toolbox({"servers": {"web site": server}}), bridged=False)

    file = Path(made.extra_args["mcp-config"] or "")
    assert json.loads(file.read_text()) == {"mcpServers": {"web_site": {"type": "http", **server}}}
    assert file.stat().st_mode & 0o077 == 0
    assert "canary" not in repr(made)
    # The command line makes these calls: each of them is checked before.
    assert (made.allowed_tools, made.can_use_tool is None) == ([], False)


def passed_on(server: Any) -> dict[str, Any]:
    config = read_config({"servers": {"one": server}}).servers["one"]
    return cli_config("one", config, {"HOME": "/home/ann", "LANG": "C", "KEY": "k"})


SSE = {"type": "sse", "url": "https://a.example/sse"}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (
            {"command": "srv", "args": ["-x"], "env": {"A": "1"}},
            {"args": ["-x"], "env": {"HOME": "/home/ann", "A": "1"}},
        ),
        (
            {"command": "srv", "inherit_env": ["LANG", "NO"]},
            {"env": {"HOME": "/home/ann", "LANG": "C"}},
        ),
        (
            {"command": "srv", "inherit_env": True},
            {"env": {"HOME": "/home/ann", "LANG": "C", "KEY": "k"}},
        ),
        (SSE, SSE),
    ],
    ids=["the home of the person", "what it inherits", "everything", "the transport of a URL"],
)
def test_a_server_keeps_its_settings(server: Any, expected: dict[str, Any]) -> None:
    program = {"type": "stdio", "command": "srv", "args": []} if "command" in server else {}
    assert passed_on(server) == {**program, **expected}


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"url": "wss://a.example"}, "websocket"),
        ({"command": "srv", "cwd": "/"}, "cwd"),
        ({"command": "srv", "env": lambda run: {"A": str(run)}}, "env is a function"),
        ({"url": "https://a", "headers": lambda run: {"A": str(run)}}, "headers are a function"),
        ({"url": "https://a.example", "auth": "oauth"}, "auth"),
    ],
)
def test_what_the_command_line_cannot_use_is_refused(server: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=f"one: .*{why}"):
        passed_on(server)


KEY = {"anthropic_api_key": "key"}
OTHER = {"ANTHROPIC_AUTH_TOKEN": "other", "CLAUDE_CODE_USE_VERTEX": "1"}


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        (
            {"max_tokens": 7, "max_retries": 0, "request_timeout": 1.5},
            {},
            {
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "7",
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "API_TIMEOUT_MS": "1500",
            },
        ),
        (
            KEY,
            OTHER,
            {
                "ANTHROPIC_API_KEY": "key",
                "ANTHROPIC_AUTH_TOKEN": "",
                "CLAUDE_CODE_OAUTH_TOKEN": "",
                "CLAUDE_CODE_USE_VERTEX": "",
                "ANTHROPIC_BASE_URL": None,
            },
        ),
        ({"anthropic_base_url": "http://127.0.0.1:1"}, {}, {"ANTHROPIC_API_KEY": "none"}),
        ({"anthropic_base_url": "https://llm.example"}, {}, {"ANTHROPIC_API_KEY": None}),
    ],
    ids=["limits", "a key is the only one", "this machine needs no key", "others need one"],
)
def test_the_settings_of_a_model_are_variables(
    settings: dict[str, Any], environ: dict[str, str], expected: dict[str, str | None]
) -> None:
    made = environment_for(model(**settings), FOLDER, environ)

    assert {name: made.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("settings", "environ", "isolated"),
    [
        (KEY, {}, ISOLATED),
        ({"anthropic_base_url": "https://llm.example"}, {}, ISOLATED),
        ({}, {"ANTHROPIC_API_KEY": "k"}, ISOLATED),
        ({}, {"ANTHROPIC_AUTH_TOKEN": "k"}, ISOLATED),
        ({}, {"CLAUDE_CODE_OAUTH_TOKEN": "k"}, ISOLATED),
        ({}, {"CLAUDE_CODE_USE_BEDROCK": "1"}, {"CLAUDE_CONFIG_DIR"}),
        ({}, {}, set[str]()),
        ({}, {"ANTHROPIC_BASE_URL": "https://llm.example"}, set[str]()),
    ],
)
def test_folders_of_the_person_are_used_only_where_their_login_is_needed(
    settings: dict[str, Any], environ: dict[str, str], isolated: set[str]
) -> None:
    made = environment_for(model(**settings), FOLDER, environ)

    assert {name for name in ISOLATED if name in made} == isolated
    assert all(made[name].startswith(str(FOLDER)) for name in isolated)
    assert needs_login(model(**settings), environ) is not bool(isolated)
