"""The command group: help, options and unknown commands."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from plait.cli import COMMANDS, main
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
