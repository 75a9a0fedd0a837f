"""How the command line is started."""

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
from plait.agents.engines.claude_agent_sdk.agent import cli_config, options_for
from plait.agents.engines.claude_agent_sdk.tools import cli_tools
from plait.agents.engines.claude_agent_sdk.turns import Bridge, Turns
from plait.client.config.read import read_config
from plait.traces.recorder import Recorder


def options(
    folder: Path,
    config: AgentConfig | None = None,
    toolbox: Toolbox | None = None,
    *,
    bridged: bool = True,
    **facts: Any,
) -> ClaudeAgentOptions:
    model = ModelConfig(id="m", model_name="claude", interface="claude_agent_sdk", **facts)
    ask = [Message.user("Q")]
    run = AgentRun(model, config or AgentConfig(), ask, Recorder(), Redactor(), toolbox)
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
    assert Path(prompt.get("path", "")).read_text() == "Be kind."
    assert Path(prompt.get("path", "")).stat().st_mode & 0o077 == 0


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
    assert "permission_mode" in caplog.text
    assert "dangerously-skip-permissions" in caplog.text


def test_an_option_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="temprature"):
        options(tmp_path, extra_kwargs={"temprature": 1})


def test_servers_that_are_passed_on_are_in_a_file_of_the_run(tmp_path: Path) -> None:
    servers = {"web site": {"url": "https://mcp.example/mcp", "headers": {"X-Key": "canary"}}}
    made = options(tmp_path, toolbox=Toolbox({"servers": servers}), bridged=False)

    file = Path(made.extra_args["mcp-config"] or "")
    assert json.loads(file.read_text()) == {
        "mcpServers": {
            "web_site": {
                "type": "http",
                "url": "https://mcp.example/mcp",
                "headers": {"X-Key": "canary"},
            }
        }
    }
    assert file.stat().st_mode & 0o077 == 0
    assert "canary" not in repr(made)
    # The command line makes these calls: each of them is checked before.
    assert (made.allowed_tools, made.can_use_tool is None) == ([], False)


def passed_on(server: Any) -> dict[str, Any]:
    config = read_config({"servers": {"one": server}}).servers["one"]
    return cli_config("one", config, {"HOME": "/home/ann", "LANG": "C", "KEY": "k"})


def test_a_program_gets_the_home_of_the_person_and_what_it_inherits() -> None:
    assert passed_on({"command": "srv", "args": ["-x"], "env": {"A": "1"}}) == {
        "type": "stdio",
        "command": "srv",
        "args": ["-x"],
        "env": {"HOME": "/home/ann", "A": "1"},
    }
    assert passed_on({"command": "srv", "inherit_env": ["LANG", "NO"]})["env"] == {
        "HOME": "/home/ann",
        "LANG": "C",
    }
    assert passed_on({"command": "srv", "inherit_env": True})["env"]["KEY"] == "k"


def test_urls_keep_their_transport() -> None:
    assert passed_on({"type": "sse", "url": "https://a.example/sse"}) == {
        "type": "sse",
        "url": "https://a.example/sse",
    }


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"url": "wss://a.example"}, "websocket"),
        ({"command": "srv", "cwd": "/"}, "cwd"),
        ({"command": "srv", "env": lambda run: {"A": str(run)}}, "env is a function"),
        (
            {"url": "https://a.example", "headers": lambda run: {"A": str(run)}},
            "headers are a function",
        ),
        ({"url": "https://a.example", "auth": "oauth"}, "auth"),
    ],
)
def test_what_the_command_line_cannot_use_is_refused(server: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=f"one: .*{why}"):
        passed_on(server)
