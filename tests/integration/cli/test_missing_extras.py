"""Without an extra, a command says the one line that installs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HIDE = """
import sys
from importlib.machinery import PathFinder

missing = set(sys.argv.pop(1).split(","))
find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name.partition(".")[0] in missing else find_spec(name, path, target)
)
from plait.cli import main

main(prog_name="plait")
"""
"""Runs the program as if some packages were not installed."""

LANGCHAIN = "langchain,langchain_core,langgraph,langchain_openai,langchain_anthropic"


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [
        (LANGCHAIN, ["run", "hi", "--model", "scripted:script.json"], "models"),
        (LANGCHAIN, ["run", "hi", "--model", "openai:gpt-5"], "models"),
        ("anthropic", ["run", "hi", "--engine", "claude_tool"], "anthropic"),
        ("claude_agent_sdk", ["run", "hi", "--engine", "claude_agent_sdk"], "claude"),
        ("sqlalchemy", ["reasoning", "serve"], "reasoning"),
        ("sqlalchemy", ["reasoning", "sessions"], "reasoning"),
        ("sqlalchemy", ["reasoning", "install", "cursor"], "reasoning"),
    ],
)
def test_a_command_says_what_to_install(
    missing: str, command: list[str], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["hello"]))
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "true"}}}')

    done = subprocess.run(
        [sys.executable, "-c", HIDE, missing, *command],
        cwd=tmp_path,
        env={
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "OPENAI_API_KEY": "sk-not-a-key",
            "PLAIT_TRUST": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 4, done.stderr
    assert done.stderr.count("pip install") == 1
    assert f"pip install 'plait[{extra}]'" in done.stderr
    assert not (tmp_path / ".cursor").exists()
