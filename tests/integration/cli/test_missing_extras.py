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


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a program that trusts its folder and has a key."""
    return {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "OPENAI_API_KEY": "sk-not-a-key",
        "PLAIT_TRUST": "1",
    }


def run_without(missing: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without some packages."""
    return subprocess.run(
        [sys.executable, "-c", HIDE, missing, *command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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

    done = run_without(missing, command, tmp_path)

    assert done.returncode == 4, done.stderr
    assert done.stderr.count("pip install") == 1
    assert f"pip install 'plait[{extra}]'" in done.stderr
    assert not (tmp_path / ".cursor").exists()


def test_the_demo_servers_come_with_the_line_that_installs_what_else_they_need(
    tmp_path: Path,
) -> None:
    done = run_without(f"{LANGCHAIN},starlette", ["init", "--demo"], tmp_path)

    steps = done.stdout.partition("Next:\n")[2].splitlines()
    assert [step.split("--")[0].strip() for step in steps] == [
        "plait servers",
        "plait tools",
        "pip install 'plait[models,viewer]'",
        'plait run "Buy tea"',
        "plait chat",
        "plait view",
    ]


def test_a_suite_says_what_its_cases_lack(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["hello"]))
    (tmp_path / "suite.json").write_text(
        json.dumps(
            {
                "defaults": {"model": "scripted:script.json"},
                "cases": [
                    {"name": name, "question": "hi", "checks": [{"contains": "hello"}]}
                    for name in ("first", "second")
                ],
            }
        )
    )

    done = run_without(LANGCHAIN, ["verify", "suite.json"], tmp_path)

    assert done.returncode == 13, done.stderr
    assert done.stderr.count("pip install 'plait[models]'") == 1
    assert "first (and 1 more)" in done.stderr


def test_the_viewer_shows_traces_without_the_packages_of_the_reasoning_server(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HIDE, "sqlalchemy", "view"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as viewer:
        assert viewer.stdout is not None
        address = viewer.stdout.readline()
        viewer.terminate()

    assert address.startswith("http://127.0.0.1:")


def test_a_suite_is_not_run_on_another_engine_than_it_names(tmp_path: Path) -> None:
    case = {"name": "first", "question": "hi", "checks": [{"contains": "hello"}]}
    suite = {"defaults": {"model": "claude-haiku-5-5", "engine": "claude_tool"}, "cases": [case]}
    (tmp_path / "suite.json").write_text(json.dumps(suite))

    done = run_without("anthropic", ["verify", "suite.json"], tmp_path)

    assert done.returncode == 13, done.stderr
    assert "claude_tool cannot be used: anthropic is not installed" in done.stderr
    assert "pip install 'plait[anthropic]'" in done.stderr
