"""Policies on the command line: asked on a terminal, checked, explained and examined."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.cli.exits import Exit
from tests.integration.policy.conftest import Guarded
from tests.terminal import on_terminal

pytestmark = pytest.mark.timeout(90)


def plait(guarded: Guarded, command: str, *arguments: str) -> Result:
    config = str(guarded.write())
    return CliRunner().invoke(main, [*command.split(), "-qc", config, *arguments])


@pytest.mark.parametrize(("typed", "code"), [("what\ny\n", Exit.OK), ("\n", Exit.CONFIG)])
def test_whoever_sits_at_the_terminal_is_asked(guarded: Guarded, typed: str, code: Exit) -> None:
    config = str(guarded.write())

    ended, output = on_terminal(
        *("call", "-qc", config, "files", "touch", "path=a\x1b[2J"),
        environment={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        typed=typed,
    )

    assert "files/touch needs your approval: the default of policy.json" in output
    assert 'path: "a\\u001b[2J"' in output
    assert "[y]es, [N]o, [a]lways" in output
    assert ended == code
    assert len(guarded.ledger()) == (1 if code == Exit.OK else 0)


def test_check_shows_what_becomes_of_every_tool(guarded: Guarded) -> None:
    done = plait(guarded, "policy check")

    assert done.exit_code == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["policy.json:", "5", "rules,", "else", "ask"]
    assert ["allow", "files/read", "rule", "5"] in rows
    writing = "deny or allow or ask files/write rule 1, rule 2, the default"
    assert writing.split() in rows
    assert ["deny", "bank/pay", "rule", "3"] in rows
    assert done.stderr == ""


def test_check_and_doctor_name_rules_that_decide_nothing(guarded: Guarded) -> None:
    policy: Any = {"rules": [{"tool": "*", "do": "ask"}, {"server": "bnak", "do": "deny"}]}
    (guarded.folder / "policy.json").write_text(json.dumps(policy))

    shown = plait(guarded, "policy check")
    told = json.loads(plait(guarded, "policy check", "--json").stdout)
    findings = json.loads(plait(guarded, "doctor", "--json").stdout)["findings"]

    assert shown.exit_code == 0
    assert "rule 2 (server bnak): it names no tool that there is" in shown.stderr
    (idle,) = told["idle_rules"]
    assert idle["rule"] == 2
    assert {tuple(one["verdicts"]) for one in told["tools"]} == {("ask",)}
    (found,) = [one for one in findings if one["code"] == "policy_rule"]
    assert (found["level"], found["server"]) == ("warn", None)
    assert "rule 2 of policy.json (server bnak)" in found["message"]


def test_check_reads_a_policy_that_is_not_in_use_yet(guarded: Guarded) -> None:
    other = guarded.folder / "other.toml"
    other.write_text('default = "deny"\n')

    done = plait(guarded, "policy check", str(other))

    assert done.stdout.startswith("other.toml: 0 rules, else deny\n")
    assert "deny  files/read" in done.stdout


def test_a_policy_that_is_wrong_is_a_wrong_configuration(guarded: Guarded) -> None:
    (guarded.folder / "policy.json").write_text('{"rules": [{"tol": "a", "do": "deny"}]}')

    for command in ("policy check", "tools", "doctor"):
        done = plait(guarded, command)
        assert done.exit_code == Exit.CONFIG
        assert "rules[0].tol" in done.output
        assert 'did you mean "tool"?' in done.output


def test_explain_names_the_rule_that_decides(guarded: Guarded) -> None:
    pay = plait(guarded, "policy explain", "bank/pay")
    write = plait(guarded, "policy explain", "files/write")
    there = plait(guarded, "policy explain", "files/write", "path=/etc/passwd")
    told = json.loads(plait(guarded, "policy explain", "files/read", "--json").stdout)

    reason = "rule 3 of policy.json (server bank, not read-only): it moves money"
    assert pay.stdout == f"deny: bank/pay, by {reason}\n"
    assert write.stdout.splitlines() == [
        "ask: files/write, by the default of policy.json, as no rule fits",
        "  depending on arguments, deny: rule 1 (tool files/write, path is /etc/*)",
        "  depending on arguments, allow: rule 2 (tool files/write, path is /tmp/*)",
    ]
    assert there.stdout.startswith("deny: files/write, by rule 1 of policy.json")
    assert (told["verdict"], told["rule"]) == ("allow", 5)
    assert guarded.ledger() == []


@pytest.mark.parametrize(
    ("tool", "code"),
    [("pay", Exit.USAGE), ("bank/nothing", Exit.PROTOCOL), ("bnak/pay", Exit.CONFIG)],
)
def test_explain_says_what_is_not_there(guarded: Guarded, tool: str, code: Exit) -> None:
    assert plait(guarded, "policy explain", tool).exit_code == code


def test_without_a_policy_there_is_nothing_to_check(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"one": {"command": "one"}}}')

    done = CliRunner().invoke(main, ["policy", "check", "-c", str(path)])

    assert done.exit_code == Exit.CONFIG
    assert "has no policy" in done.stderr
