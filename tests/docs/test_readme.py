"""What the pages tell a reader to type exists."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
import tomllib
from pathlib import Path

import click
import pytest

from plait.cli import COMMANDS, main
from plait.testing import AnthropicServer, Call, Say
from tests.docs.pages import EXAMPLES, ROOT, pages
from tests.docs.programs import run

CODE = re.compile(r"^```(?:shell|console)\n(.*?)^```$|`([^`\n]+)`", re.DOTALL | re.MULTILINE)


def typed_lines() -> set[str]:
    """Return the lines of shell blocks, and the code between backticks, of every page."""
    return {
        line.removeprefix("$ ").partition(" #")[0].partition(" |")[0].strip()
        for page in pages()
        for found in CODE.finditer(page.read_text())
        for line in (found[1] or found[2]).splitlines()
    }


def lines_of(program: str) -> list[list[str]]:
    """Return the lines that run a program, as words."""
    words = [line.split() for line in typed_lines()]
    return sorted(line for line in words if line[:1] == [program] and len(line) > 1)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_readme_opens_with_what_it_is_and_the_two_commands() -> None:
    opening = (ROOT / "README.md").read_text().partition("\n## ")[0]

    assert opening.startswith("# plait\n\nplait ")
    assert "\nmake demo " in opening
    assert "\nmake test " in opening


def test_readme_shows_an_agent_in_six_lines_that_run_as_they_are(tmp_path: Path) -> None:
    opening = (ROOT / "README.md").read_text().partition("\n## ")[0]
    lines = opening.partition("```python\n")[2].partition("```")[0].splitlines()
    program = EXAMPLES / "langchain" / "six_lines.py"
    shutil.copy(EXAMPLES / "tutorial" / "mcp.json", tmp_path)
    script = [Say(calls=(Call("add_numbers", {"a": 20, "b": 22}),)), Say("It is 42.")]
    with AnthropicServer(script) as api:
        done = run(
            [sys.executable, str(program)],
            tmp_path,
            Path(sys.executable).parent,
            ANTHROPIC_BASE_URL=api.url,
            ANTHROPIC_API_KEY="key",
            PLAIT_TRUST="1",
        )

    assert len([line for line in lines if line]) == 6
    assert (done.stdout, done.returncode) == ("It is 42.\n", 0), done.stderr
    assert "42" in str(api.bodies[1]["messages"][-1])  # what the tool returned


def test_the_readme_of_a_package_index_has_no_link_that_leads_nowhere() -> None:
    index_readme = runpy.run_path(str(ROOT / "scripts" / "index_readme.py"))["index_readme"]
    readme = (ROOT / "README.md").read_text()
    code = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    links = re.compile(r"\]\(([^)\s]+)\)")

    plain = index_readme(readme)
    linked = index_readme(readme, "https://files.example/plait/")

    assert {link for link in links.findall(plain) if not link.startswith("https://")} == set()
    assert "![" not in plain
    assert "Why plait has all figures" in plain
    assert code.findall(plain) == code.findall(readme) == code.findall(linked)
    there = "https://files.example/plait/docs/why-plait.md#speed"
    assert there in links.findall(linked)
    assert {link for link in links.findall(linked) if not link.startswith("https://")} == set()
    assert len(links.findall(linked)) == len(links.findall(readme))


def test_every_make_target_that_is_named_exists() -> None:
    named = {line[1] for line in lines_of("make")}

    assert {"demo", "test", "setup"} <= named
    assert named <= make_targets()


def test_every_make_target_is_explained_by_make_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)

    assert phony
    assert make_targets() == set(phony[1].split())


def test_readme_shows_the_first_steps_in_the_shell() -> None:
    readme = (ROOT / "README.md").read_text()

    assert all(f"\nplait {command}" in readme for command in ("init", "tools", "call"))


def test_the_container_installs_what_there_is() -> None:
    dockerfile = (EXAMPLES / "docker" / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    servers = (ROOT / "scripts" / "node-servers.txt").read_text().split()

    assert set(re.findall(r"plait\[(\w+)\]", dockerfile)) <= set(extras)
    assert set(re.findall(r"@modelcontextprotocol/\S+", dockerfile)) <= set(servers)


@pytest.mark.parametrize("line", lines_of("plait"), ids=" ".join)
def test_every_command_that_is_named_exists_with_its_options(line: list[str]) -> None:
    options = [word.partition("=")[0] for word in line[1:] if re.match(r"--?[a-z]", word)]
    known = {option for parameter in main.params for option in parameter.opts} | {"-vv"}
    if not line[1].startswith("-"):
        assert line[1] in COMMANDS
        command = main.get_command(click.Context(main), line[1])
        if isinstance(command, click.Group) and len(line) > 2:
            named = command.get_command(click.Context(command), line[2])
            # `plait verify SUITE` runs a suite.
            group = command if command.invoke_without_command else None
            command = named or command.get_command(click.Context(command), "run") or group
        assert command is not None
        known |= {option for parameter in command.params for option in parameter.opts}

    assert set(options) <= known | {"--help", "-h"}
