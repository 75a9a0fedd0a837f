"""What a run from the command line makes of a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plait.agents.choose_model import ModelChoice
from plait.agents.config import AgentConfig, ModelConfig
from plait.cli.run_agent import RESULT_TOKENS, RunPlan, client_config
from plait.client.config.policy import Policy
from plait.client.config.read import ClientConfig, read_config, read_options
from plait.client.options import CLIENT_OPTIONS, lockfile_path
from plait.traces import Message

MODEL = ModelChoice(config=ModelConfig(id="m", model_name="m"), reason="requested")


def plan(file: Path, text: dict[str, Any], **wishes: Any) -> RunPlan:
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}, **text}))
    config = read_config(file)
    return RunPlan(
        messages=[Message.user("Go")], choice=MODEL, config=config, settings=AgentConfig(), **wishes
    )


def run_config(file: Path, text: dict[str, Any], **overrides: Any) -> ClientConfig:
    config = client_config(plan(file, text, **overrides))
    assert config is not None
    return config


def result_budget(file: Path, text: dict[str, Any], **overrides: Any) -> Any:
    return run_config(file, text, **overrides).options["result_budget"]


def test_the_options_of_the_file_reach_the_toolbox_as_they_were_read(tmp_path: Path) -> None:
    given = {
        "include": ["read_*"],
        "exclude": ["a/read_secret"],
        "toolTimeouts": {"read_*": 2500},
        "defaultToolTimeout": 5000,
        "policy": {"default": "ask"},
        "defer": "auto",
        "call_budget": 7,
        "result_budget": {"default": "200kB", "tools": {"photo": False}},
        "tool_overrides": {"read_file": {"description": "Reads."}},
        "on_connection_error": "ignore",
        "profile": "openai",
    }

    config = run_config(tmp_path / "mcp.json", given)

    options = config.options
    assert config.default_tool_timeout == 5.0
    assert options["tool_timeouts"] == {"read_*": 2.5}
    assert "profile" not in options
    own = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
    assert read_options(own) == own
    assert isinstance(options["policy"], Policy)


def test_results_are_bounded_where_nothing_else_is_said(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"

    assert result_budget(file, {}).default.tokens == RESULT_TOKENS
    assert result_budget(file, {}, result_budget=False).default.tokens is None
    assert result_budget(file, {"result_budget": 500}).default.tokens == 500
    assert result_budget(file, {"result_budget": 500}, result_budget=600).default.tokens == 600


def test_the_lockfile_lies_beside_the_configuration_wherever_the_run_is(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()

    config = run_config(folder / "mcp.json", {"lock": "block"})

    assert lockfile_path(config.options, config.source).parent == folder


def test_another_policy_takes_the_place_of_the_files(tmp_path: Path) -> None:
    other = Policy(default="allow")

    config = run_config(tmp_path / "mcp.json", {"policy": {"default": "ask"}}, policy=other)

    assert config.options["policy"] is other
