"""Reading policies from files and from Python."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.client.config.policy import Policy, PolicyRule, read_policy
from plait.client.config.read import read_config, read_options
from plait.errors import ConfigError

JSON = """
{
  // what no rule names
  "default": "deny",
  "rules": [
    {"tool": ["files/read_*", "list"], "do": "allow"},
    {"server": "bank", "annotation": "destructive", "do": "ask", "reason": "it moves money"},
    {"tool": "write", "when": {"path": "${workspaceFolder}/*", "/opt/force": true}, "do": "ask"},
  ],
}
"""

TOML = """
default = "deny"

[[rules]]
tool = ["files/read_*", "list"]
do = "allow"

[[rules]]
server = "bank"
annotation = "destructive"
do = "ask"
reason = "it moves money"

[[rules]]
tool = "write"
when = { path = "${workspaceFolder}/*", "/opt/force" = true }
do = "ask"
"""


def expected(folder: Path) -> Policy:
    return Policy(
        default="deny",
        rules=(
            PolicyRule("allow", tool=("files/read_*", "list")),
            PolicyRule(
                "ask", server=("bank",), annotation=("destructive",), reason="it moves money"
            ),
            PolicyRule(
                "ask", tool=("write",), when={"path": (f"{folder}/*",), "/opt/force": ("true",)}
            ),
        ),
    )


@pytest.mark.parametrize(("name", "text"), [("policy.json", JSON), ("policy.toml", TOML)])
def test_a_policy_is_read_from_json_or_toml(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)

    policy = read_policy(path)

    assert policy.source == str(path)
    assert (policy.default, policy.rules) == ("deny", expected(tmp_path.resolve()).rules)


def test_a_configuration_names_a_file_beside_it_or_holds_the_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(JSON)
    servers = {"mcpServers": {"one": {"command": "one"}}}
    named, inline = tmp_path / "named.json", tmp_path / "inline.json"
    named.write_text(json.dumps({**servers, "policy": "policy.json"}))
    inline.write_text(json.dumps({**servers, "policy": {"default": "allow"}}))

    found: Any = read_config(named).options["policy"]

    assert found.rules == expected(tmp_path.resolve()).rules
    assert read_config(inline).options["policy"] == Policy(default="allow")


def test_python_may_give_a_policy_rules_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text('{"default": "allow"}')
    rule = PolicyRule("deny", tool="pay")
    policy = Policy(rules=[rule])

    assert read_options({"policy": policy})["policy"] is policy
    assert read_options({"policy": {"rules": [rule]}})["policy"].rules == (rule,)
    assert read_options({"policy": path})["policy"].default == "allow"


def test_the_examples_in_json_and_toml_say_the_same() -> None:
    examples = Path(__file__).parents[4] / "docs" / "examples" / "langchain"
    in_json, in_toml = read_policy(examples / "policy.json"), read_policy(examples / "policy.toml")

    assert len(in_json.rules) == 3
    assert (in_json.rules, in_json.default) == (in_toml.rules, in_toml.default)


def test_every_key_is_in_the_reference() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "policy.md").read_text()

    for key in (*(one.name for one in fields(PolicyRule)), "rules", "default", "hide_denied"):
        assert f"| `{key}` |" in page


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(
        """
{
  "defualt": "ask",
  "default": "perhaps",
  "rules": [
    {"tool": "a", "do": "allwo"},
    {"tool": "a"},
    {"do": "deny"},
    {"tol": "a", "do": "deny"},
    {"tool": null, "server": "a", "do": "allow"},
    {"server": "a/b", "do": "deny"},
    {"annotation": ["read-only", "safe"], "do": "allow"},
    {"tool": [], "server": "a", "do": "allow"},
    {"tool": " ", "do": "allow"},
    {"tool": "a", "when": {}, "do": "deny"},
    {"tool": "a", "when": {"path": {"x": 1}, "to": []}, "do": "deny"},
    "deny"
  ]
}
"""
    )

    with pytest.raises(ConfigError) as raised:
        read_policy(path)

    assert {problem.file for problem in raised.value.problems} == {str(path)}
    assert [
        (problem.path, problem.code, problem.suggestion) for problem in raised.value.problems
    ] == snapshot(
        [
            ("defualt", "unknown_key", 'did you mean "default"?'),
            ("default", "unknown_value", None),
            ("rules[0].do", "unknown_value", 'did you mean "allow"?'),
            ("rules[1]", "missing_key", 'add "do": "allow", "ask" or "deny"'),
            (
                "rules[2]",
                "missing_key",
                'add "tool", "server", "annotation" or "when"; for every tool: "tool": "*"',
            ),
            ("rules[3].tol", "unknown_key", 'did you mean "tool"?'),
            ("rules[4].tool", "wrong_type", None),
            ("rules[5].server", "bad_name", 'write "tool": "server/tool"'),
            (
                "rules[6].annotation",
                "unknown_value",
                "known are read-only, destructive, idempotent, open-world",
            ),
            ("rules[7].tool", "empty_value", "leave it out"),
            ("rules[8].tool", "empty_value", None),
            ("rules[9].when", "empty_value", "leave it out"),
            ("rules[10].when.path", "wrong_type", None),
            ("rules[10].when.to", "empty_value", "leave it out"),
            ("rules[11]", "wrong_type", 'such as {"tool": "…", "do": "allow"}'),
        ]
    )


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("policy.json", "", "empty_file"),
        ("policy.json", "{", "json_syntax"),
        ("policy.json", "[]", "wrong_type"),
        ("policy.json", "null", "wrong_type"),
        ("policy.json", '{"rules": [], "rules": []}', "duplicate_key"),
        ("policy.json", '{"rules": null}', "wrong_type"),
        ("policy.toml", "rules = [", "toml_syntax"),
        (
            "policy.json",
            '{"rules": [{"tool": "${NOT_SET_AT_ALL}", "do": "deny"}]}',
            "unset_variable",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_no_policy(
    name: str, text: str, code: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)

    with pytest.raises(ConfigError) as raised:
        read_policy(path, environ={})

    assert [problem.code for problem in raised.value.problems] == [code]
    assert (raised.value.problems[0].file or "").startswith(str(path))


@pytest.mark.parametrize("source", ["", "missing.json", 5])
def test_what_is_no_policy_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError):
        read_options({"policy": source})
