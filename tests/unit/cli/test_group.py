"""The command group: help, options and unknown commands."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from plait.cli import COMMANDS, GROUPS, main
from plait.cli.base import ExampleCommand

HEAVY = ("mcp", "mcp_types", "rich", "pydantic", "httpx2", "anyio")


def loaded_after(*arguments: str) -> set[str]:
    program = (
        "import sys\n"
        "from plait.cli import main\n"
        f"main({list(arguments)!r}, standalone_mode=False)\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    return set(eval(done.stderr.strip().splitlines()[-1]))


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("call", "--help")])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded_after(*arguments) == set()


def test_help_is_quick() -> None:
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "plait.cli", "--help"], capture_output=True, timeout=30, check=True
    )
    after = os.times()
    used = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )

    assert used < 0.4


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["trace", "show", "none"], 2)])
def test_a_reader_who_has_seen_enough_changes_no_exit_code(arguments: list[str], code: int) -> None:
    ours, closed = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "plait.cli", *arguments],
        stdout=closed,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(closed)

    assert done.returncode == code
    assert "Broken" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_command_itself_says(name: str) -> None:
    command = COMMANDS[name].load(name)

    assert command.name == name
    assert (command.help or "").splitlines()[0] == COMMANDS[name].help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_name_it_and_fit_80_columns(name: str) -> None:
    command = COMMANDS[name].load(name)
    assert isinstance(command, ExampleCommand)

    assert any(f"plait {name}" in line for line in command.examples)
    assert all(len(line) <= 78 for line in command.examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    options = [part for part in COMMANDS[name].load(name).params if isinstance(part, click.Option)]

    assert all(option.help for option in options)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_lists_every_command(flag: str) -> None:
    result = CliRunner().invoke(main, [flag])

    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.output for name in COMMANDS)


def test_a_command_that_does_not_exist_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(main, ["tols"])

    assert result.exit_code == 2
    assert "there is no command 'tols': did you mean 'tools'?" in result.stderr


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(main, ["--version"])

    assert result.exit_code == 0
    assert result.output.startswith("plait ")


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "plait", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("plait ")


def test_plait_alone_greets_with_what_is_here_and_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PLAIT_MODEL", "PLAIT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLAIT_MODELS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    empty = CliRunner().invoke(main)
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"time": {"command": "uvx"}}}')
    filled = CliRunner(env={"OPENAI_API_KEY": "sk-canary"}).invoke(main)

    assert (empty.exit_code, filled.exit_code) == (0, 0)
    assert "servers  no mcp.json\n  model    no key, and no local model\n" in empty.stdout
    assert "plait demo  " in empty.stdout
    assert "servers  mcp.json: 1 server (time)\n  model    the key OPENAI_API_KEY" in filled.stdout
    assert "canary" not in filled.stdout
    for heading, commands in GROUPS.items():
        assert f"\n  {heading.ljust(8)} {', '.join(commands)}\n" in filled.stdout


def test_options_of_every_command_are_listed_only_at_the_top_and_taken_everywhere(
    tmp_path: Path,
) -> None:
    top, below = (CliRunner().invoke(main, [*words, "--help"]) for words in ([], ["tools"]))
    named = CliRunner().invoke(main, ["tools", "--config", str(tmp_path / "none.json")])

    assert "--config PATH" in top.stdout
    assert "--config" not in below.stdout
    assert "the configuration named by --config does not exist" in named.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("call", "plait call needs SERVER\nhint: plait servers lists them, then: plait call SERV"),
        ("call shop", "call needs TOOL\nhint: plait tools shop lists them, then: plait call shop"),
        ("read shop", "plait read needs URI\nhint: plait resources shop lists them, then: plait "),
        ("run", 'plait run needs TASK\nhint: plait run "What is new in this folder?"\n'),
        ("trace show", "plait trace show needs FILE\nhint: plait trace show run.jsonl\n"),
        ("model fetch", "plait model fetch needs NAME\nhint: plait model fetch smollm2-135m\n"),
    ],
)
def test_a_missing_argument_is_named_with_a_call_that_works(words: str, said: str) -> None:
    result = CliRunner().invoke(main, words.split())

    assert result.exit_code == 2
    assert said in result.stderr


def test_the_help_of_a_group_cuts_no_sentence() -> None:
    for group in ("trust", "policy", "trace", "verify"):
        shown = CliRunner().invoke(main, [group, "--help"], env={"COLUMNS": "60"}).output
        assert "...\n" not in shown.partition("\n")[2]
        assert "\nCommands:\n" in shown
