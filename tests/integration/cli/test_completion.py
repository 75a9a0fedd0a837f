"""Real shells complete commands, servers and tools with the script that is printed for them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Plait

INSTALLED = Path(sys.executable).parent

BASH = """
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_plait_completion plait
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

ZSH = """
compdef() {{ :; }}
_describe() {{ print -rl -- "${{(P@)argv[-1]}}"; }}
compadd() {{ print -rl -- "${{(P@)argv[-1]}}"; }}
source {script}
words=({words})
CURRENT=$#words
_plait_completion
"""
"""Zsh completes only on a terminal; these functions print what it would offer."""


def script_of(plait: Plait, shell: str) -> Path:
    """Write the script of a shell into the folder."""
    printed = plait("completion", shell)
    assert printed.returncode == 0, printed.stderr
    path = plait.folder / f"completion.{shell}"
    path.write_text(printed.stdout)
    return path


def run(plait: Plait, *command: str, programs: Path | None = None) -> list[str]:
    """Run a shell; its `plait` starts at once, unless it is in `programs`."""
    path = f"{programs or plait.programs()}:{plait.environment['PATH']}"
    done = subprocess.run(
        command,
        cwd=plait.folder,
        env={**plait.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.stdout.split("\n")[:-1]


def in_bash(plait: Plait, *words: str, programs: Path | None = None) -> list[str]:
    """Return what bash offers for the last of the words."""
    script = script_of(plait, "bash")
    quoted = " ".join(map(shlex.quote, ("plait", *words)))
    line = f"source {script}\n{BASH.format(words=quoted)}"
    return run(plait, "bash", "-c", line, programs=programs)


def test_bash_completes_commands_servers_and_tools(with_shop: Plait) -> None:
    assert in_bash(with_shop, "ca") == ["call"]
    assert in_bash(with_shop, "tools", "sh", programs=INSTALLED) == ["shop"]
    assert in_bash(with_shop, "call", "--wire", "shop", "s") == ["search", "slow"]


def test_the_tools_are_remembered_for_the_next_completion(with_shop: Plait) -> None:
    assert in_bash(with_shop, "call", "shop", "pa") == ["pay"]

    (kept,) = (with_shop.folder / "home" / ".cache" / "plait" / "completion").iterdir()
    kept.write_text("parcel\npay\n")

    assert in_bash(with_shop, "call", "shop", "pa") == ["parcel", "pay"]


def test_without_a_configuration_nothing_is_offered_and_nothing_printed(plait: Plait) -> None:
    assert in_bash(plait, "call", "") == [""]
    plait.configure(broken={"command": "no-such-program"})
    assert in_bash(plait, "call", "broken", "") == [""]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_servers_and_tools(with_shop: Plait) -> None:
    script = script_of(with_shop, "fish")

    def complete(line: str) -> list[str]:
        return run(with_shop, "fish", "-c", f"source {script}; complete -C {shlex.quote(line)}")

    assert sorted(complete("plait call shop s")) == ["search", "slow"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_servers_and_tools(with_shop: Plait) -> None:
    script = script_of(with_shop, "zsh")

    def complete(*words: str) -> list[str]:
        quoted = " ".join(map(shlex.quote, ("plait", *words)))
        return run(with_shop, "zsh", "-f", "-c", ZSH.format(script=script, words=quoted))

    assert complete("call", "shop", "s") == ["search", "slow"]


def test_an_unknown_shell_is_refused(plait: Plait) -> None:
    done = plait("completion", "tcsh")

    assert done.returncode == 2
    assert "'tcsh' is not one of" in done.stderr


def test_a_folder_that_is_not_approved_offers_nothing_and_starts_nothing(plait: Plait) -> None:
    marker = plait.folder / "started"
    plait.configure(evil={"command": "/usr/bin/touch", "args": [str(marker)]})

    script = script_of(plait, "bash")
    quoted = " ".join(map(shlex.quote, ("plait", "call", "evil", "")))
    untrusted = f"unset PLAIT_TRUST; source {script}\n{BASH.format(words=quoted)}"

    assert run(plait, "bash", "-c", untrusted) == [""]
    assert not marker.exists()
