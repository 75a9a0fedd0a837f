"""What a policy decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.tool import Tool
from plait.client.config.argument_readings import matches_globs, value_at
from plait.client.config.policy import VERDICTS, Policy, PolicyRule
from plait.errors import ConfigError


def tool(name: str = "files/read", **hints: bool) -> Tool:
    server, _, wire_name = name.partition("/")
    return Tool(server=server, wire_name=wire_name, name=wire_name, annotations=hints)


def verdict(rules: list[PolicyRule], one: Tool, **arguments: Any) -> str:
    return Policy(rules=rules, default="ask").decide(one, arguments).verdict


def test_the_first_rule_that_fits_decides() -> None:
    policy = Policy(
        rules=[
            PolicyRule("allow", tool="files/read"),
            PolicyRule("deny", server="files", reason="it is mine"),
        ],
        source="/home/ann/policy.json",
    )

    first = policy.decide(tool("files/read"))
    second = policy.decide(tool("files/write"))
    neither = policy.decide(tool("bank/pay"))

    assert (first.verdict, first.number, first.rule) == ("allow", 1, policy.rules[0])
    assert (second.verdict, second.number) == ("deny", 2)
    assert second.reason == "rule 2 of policy.json (server files): it is mine"
    assert (neither.verdict, neither.number, neither.rule) == ("ask", None, None)
    assert neither.reason == "the default of policy.json, as no rule fits"


FITTING = ("read", "re*", "files/read", "files/*", "*/read")


@pytest.mark.parametrize("pattern", [*FITTING, "f*", "files", "bank/read", "READ"])
def test_a_pattern_means_names_or_with_a_slash_server_and_name(pattern: str) -> None:
    fits = verdict([PolicyRule("deny", tool=pattern)], tool()) == "deny"

    assert fits is (pattern in FITTING)


def test_a_tool_cannot_pass_for_one_of_another_server_by_its_name() -> None:
    poser = Tool(server="evil", wire_name="files/read", name="files_read")

    assert verdict([PolicyRule("allow", tool="files/*")], poser) == "ask"
    assert verdict([PolicyRule("deny", tool="evil/files/read")], poser) == "deny"


@pytest.mark.parametrize("trait", ["not read-only", "destructive", "not idempotent", "open-world"])
def test_hints_that_were_not_given_count_for_the_worst(trait: str) -> None:
    opposite = trait.removeprefix("not ") if trait.startswith("not ") else f"not {trait}"

    assert verdict([PolicyRule("deny", annotation=trait)], tool()) == "deny"
    assert verdict([PolicyRule("deny", annotation=opposite)], tool()) == "ask"


@pytest.mark.parametrize("spelling", ["read-only", "readOnlyHint", "@read_only", "Read Only"])
def test_annotations_may_be_spelled_as_elsewhere(spelling: str) -> None:
    rules = [PolicyRule("allow", annotation=spelling)]

    assert verdict(rules, tool(read_only_hint=True)) == "allow"
    assert verdict(rules, tool(read_only_hint=False)) == "ask"


def test_everything_that_a_rule_names_must_fit() -> None:
    rule = PolicyRule(
        "allow",
        server=["files", "docs"],
        tool="read*",
        annotation=["read-only", "not open-world"],
        when={"path": "/tmp/*"},
    )
    closed = {"read_only_hint": True, "open_world_hint": False}

    assert verdict([rule], tool("docs/read_all", **closed), path="/tmp/a") == "allow"
    assert verdict([rule], tool("bank/read_all", **closed), path="/tmp/a") == "ask"
    assert verdict([rule], tool("docs/write", **closed), path="/tmp/a") == "ask"
    assert verdict([rule], tool("docs/read_all", read_only_hint=True), path="/tmp/a") == "ask"
    assert verdict([rule], tool("docs/read_all", **closed), path="/etc/a") == "ask"
    assert verdict([rule], tool("docs/read_all", **closed)) == "ask"


@pytest.mark.parametrize(
    "path",
    ["/etc/x", "//etc/x", "/tmp/../etc/x", "/etc/./x", "\\etc\\x", "/tmp//..//etc//x"],
)
def test_what_forbids_a_path_is_not_got_around_by_spelling_it(path: str) -> None:
    rules = [PolicyRule("deny", tool="*", when={"path": "/etc/*"})]

    assert verdict(rules, tool(), path=path) == "deny"
    assert verdict(rules, tool(), path=["/tmp/a", path]) == "deny"


@pytest.mark.parametrize("path", ["/tmp/../etc/x", "/tmp/a/../../etc/x", ["/tmp/a", "/etc/x"], []])
def test_what_allows_a_path_does_not_allow_a_way_out_of_it(path: Any) -> None:
    rules = [PolicyRule("allow", tool="*", when={"path": "/tmp/*"})]

    assert verdict(rules, tool(), path="/tmp/a") == "allow"
    assert verdict(rules, tool(), path=["/tmp/a", "/tmp/b"]) == "allow"
    assert verdict(rules, tool(), path=path) == "ask"


def test_addresses_are_compared_as_they_stand() -> None:
    rules = [PolicyRule("allow", tool="*", when={"url": "https://example.com/*"})]

    assert verdict(rules, tool(), url="https://example.com/a//b") == "allow"
    assert verdict(rules, tool(), url="https://example.com.evil.com/a") == "ask"


@pytest.mark.parametrize(
    ("value", "glob", "fits"),
    [
        (5, "5", True),
        (True, "true", True),
        (None, "null", True),
        ("5", "5", True),
        ({}, "*", False),
    ],
)
def test_values_are_compared_as_json_writes_them(value: Any, glob: str, fits: bool) -> None:
    assert matches_globs(value, [glob], strict=True) is fits
    assert matches_globs(value, [glob], strict=False) is fits


def test_a_pointer_leads_into_arguments() -> None:
    arguments = {"a": {"b": [{"c/d": 1}]}, "/x": 2, "e": 3}

    assert value_at(arguments, "/a/b/0/c~1d") == 1
    assert value_at(arguments, "e") == 3
    for nowhere in ("/a/b/1", "/a/b/x", "/e/f", "f", "/"):
        assert not matches_globs(value_at(arguments, nowhere), ["*"], strict=False)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"anyOf": [{"type": "string"}, {"type": "array"}, {"type": "object"}]},
        "filter": {"$ref": "#/$defs/Filter"},
        "force": {"type": "boolean", "default": False},
        "mode": {"type": "string", "default": "delete"},
        "count": {"type": "integer"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Filter"}},
        "option": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}]},
        "box": {"type": "object", "properties": {"path": {"type": "string"}}},
        "level": {"allOf": [{"$ref": "#/$defs/Level"}]},
    },
    "$defs": {
        "Filter": {"properties": {"path": {"type": "string", "default": "/etc/hosts"}}},
        "Level": {"type": "string", "default": "root"},
    },
}

DENIED = [
    PolicyRule("deny", tool="*", when={"path": "/etc/*"}),
    PolicyRule("deny", tool="*", when={"/filter/path": "/etc/*"}),
    PolicyRule("deny", tool="*", when={"force": "true"}),
    PolicyRule("deny", tool="*", when={"mode": "delete"}),
    PolicyRule("deny", tool="*", when={"count": "1000"}),
    PolicyRule("deny", tool="*", when={"/parts/path": "/etc/*"}),
    PolicyRule("deny", tool="*", when={"/parts/0/path": "/proc/*"}),
    PolicyRule("deny", tool="*", when={"/option/path": "/etc/*"}),
    PolicyRule("deny", tool="*", when={"/box/path": "/etc/*"}),
    PolicyRule("deny", tool="*", when={"level": "root"}),
    PolicyRule("allow", tool="*"),
]

SAFE: dict[str, Any] = {
    "mode": "read",
    "filter": {"path": "/data"},
    "parts": [{"path": "/data"}],
    "option": {"path": "/data"},
    "level": "user",
}


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            {"path": path}
            for path in (
                *('["/etc/passwd"]', ' ["/data/a", "/etc/passwd"] ', '{"path": "/etc/passwd"}'),
                *({"name": "/etc/passwd"}, [{"name": ["/etc/passwd"]}], '"/etc/passwd"'),
                *(json.dumps(json.dumps(["/etc/passwd"])), "[" * 100_000, " /etc/passwd"),
                '{"a": "/etc/passwd", "a": "/data/x"}',
                '{"a": "/data/x", "a": "/etc/passwd"}',
                *("%2fetc%2fpasswd", "%252fetc%252fpasswd", " %2fetc%2fpasswd"),
                *("%EF%BC%8Fetc%EF%BC%8Fpasswd", "\uff0fetc\uff0fpasswd", "file:///etc/passwd"),
                *("FILE://localhost/etc/passwd", "file:/etc/passwd", "file:%2f%2f%2fetc/passwd"),
            )
        ),
        *({"Path": "/etc/passwd"}, {"PATH": '["/etc/passwd"]'}),
        *(
            {"box": box}
            for box in (
                *(json.dumps(json.dumps({"path": "/etc/passwd"})), ['{"path": "/etc/passwd"}']),
                *([[{"path": "/etc/passwd"}]], [{"PATH": "/etc/passwd"}], "[" * 100_000),
            )
        ),
        *({"filter": '{"path": "/etc/passwd"}'}, {"filter": [{"path": "/etc/passwd"}]}),
        *({"filter": {}}, {"filter": {"path": None}}, {"option": {}}, {"level": None}),
        {"filter": {"Path": "/etc/passwd", "path": "/data"}},
        {"parts": [{"path": "/data"}, {}]},
        {"parts": {"path": "/proc/1/environ"}},
        *({"force": force} for force in (True, 1, 1.0, "1.0", "yes", ' "yes"', "True")),
        {"mode": None, "Mode": "delete"},
        *({"count": count} for count in (1000.0, "1000", "1e3", "+1000", "01000", "1_000")),
        *({"count": count} for count in ("0x3e8", "1000.", "\uff11\uff10\uff10\uff10")),
    ],
    ids=lambda arguments: repr(arguments)[:40],
)
def test_what_denies_an_argument_holds_for_every_way_to_read_it(arguments: dict[str, Any]) -> None:
    one = replace(tool(), wire_schema=SCHEMA)

    assert verdict(DENIED, one, **{**SAFE, **arguments}) == "deny"
    assert verdict(DENIED, one, **SAFE, path="/data/a", count=1, force=False) == "allow"


def test_an_argument_that_is_left_out_counts_as_its_default() -> None:
    one = replace(tool(), wire_schema=SCHEMA)
    rules = [PolicyRule("allow", tool="*", when={"mode": "delete"})]

    assert verdict(DENIED, one, filter={"path": "/data"}) == "deny"
    assert verdict(rules, one) == "allow"
    assert verdict(rules, tool()) == "ask"


@pytest.mark.parametrize(
    "path",
    [
        *('["/data/a", "/etc/x"]', '{"path": "/data/a"}'),
        {"path": "/data/a"},
        *("/data/%2e%2e/etc/x", "/data/%252e%252e/etc/x", "/data/%EF%BC%8E%EF%BC%8E/etc/x"),
        "/data/\uff0e\uff0e/etc/x",
        "[" * 100_000,
    ],
    ids=lambda path: repr(path)[:40],
)
def test_what_allows_an_argument_must_hold_for_every_way_to_read_it(path: Any) -> None:
    rules = [PolicyRule("allow", tool="*", when={"path": ["/data/*", "[[]*", "{*"]})]

    assert verdict(rules, tool(), path=path) == "ask"
    assert verdict(rules, tool(), path="/data/a") == "allow"
    assert verdict(rules, tool(), path="/data/a", PATH="/etc/x") == "ask"
    assert verdict(rules, tool(), PATH="/data/a") == "ask"
    anything = [PolicyRule("allow", tool="*", when={"path": "*"})]
    assert verdict(anything, tool(), path='{"a": 1}') == "allow"


def test_an_argument_that_is_not_listed_may_be_another_name_of_one_that_a_rule_is_about() -> None:
    one = replace(tool(), wire_schema=SCHEMA)
    policy = Policy(rules=DENIED, source="policy.json")

    decision = policy.decide(one, {**SAFE, "p": "/etc/passwd"})

    assert (decision.verdict, decision.number) == ("ask", len(DENIED))
    assert decision.reason.endswith("and the tool does not list: p")
    assert "ask" in policy.verdicts(one)
    assert verdict([PolicyRule("allow", tool="*")], one, p="/etc/passwd") == "allow"


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter": {"path": "/data", "p": "/etc/passwd"}},
        {"parts": [{"path": "/data"}, {"path": "/data", "p": "/etc/passwd"}]},
        {"option": '{"path": "/data", "p": "/etc/passwd"}'},
    ],
    ids=str,
)
def test_so_may_a_name_inside_an_object_that_a_rule_leads_into(arguments: dict[str, Any]) -> None:
    one = replace(tool(), wire_schema=SCHEMA)
    headers = [
        PolicyRule("deny", tool="*", when={"/headers/Cookie": "*"}),
        PolicyRule("allow", tool="*"),
    ]
    any_names = replace(tool(), wire_schema={"properties": {"headers": {"type": "object"}}})

    assert verdict(DENIED, one, **{**SAFE, **arguments}) == "ask"
    assert verdict(headers, any_names, headers={"Accept": "text/plain"}) == "allow"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc./\\*[", max_size=12),
    lambda inner: st.lists(inner, max_size=3),
)


@given(values, st.lists(st.text("abc./*", max_size=6), min_size=1, max_size=2))
def test_what_is_fit_to_be_allowed_is_also_fit_to_be_forbidden(
    value: Any, globs: list[str]
) -> None:
    if matches_globs(value, globs, strict=True):
        assert matches_globs(value, globs, strict=False)


def test_tools_are_hidden_only_if_no_arguments_could_help() -> None:
    sometimes = PolicyRule("allow", tool="write", when={"path": "/tmp/*"})
    always = [PolicyRule("deny", tool="write", when={"path": "/x"}), PolicyRule("deny", server="*")]

    assert Policy(rules=always).hides(tool("files/write"))
    assert not Policy(rules=[sometimes, *always]).hides(tool("files/write"))
    assert Policy(rules=[sometimes, *always]).verdicts(tool("files/write")) == {"allow", "deny"}
    assert not Policy(rules=always, hide_denied=False).hides(tool("files/write"))
    assert Policy(default="deny").hides(tool())


def test_rules_that_decide_nothing_are_found() -> None:
    policy = Policy(
        rules=[
            PolicyRule("allow", tool="read", when={"path": "x"}),
            *(PolicyRule("deny", server="files"), PolicyRule("ask", tool="read")),
            PolicyRule("ask", tool="raed"),
        ]
    )

    assert policy.idle_rules([tool("files/read"), tool("files/write")]) == [
        (3, "rules before it decide about every tool that it names"),
        (4, "it names no tool that there is"),
    ]


@given(
    st.lists(
        st.builds(
            PolicyRule,
            st.sampled_from(VERDICTS),
            tool=st.sampled_from(["*", "read", "files/*", "x"]),
            annotation=st.sampled_from([None, "read-only", "not destructive"]),
            when=st.sampled_from([None, {"path": "/tmp/*"}]),
        ),
        max_size=5,
    ),
    st.sampled_from(VERDICTS),
    st.booleans(),
    st.sampled_from(["/tmp/a", "/etc/a"]),
)
def test_every_decision_is_one_of_the_verdicts_that_a_tool_may_get(
    rules: list[PolicyRule], default: Any, read_only: bool, path: str
) -> None:
    policy = Policy(rules=rules, default=default)
    one = tool(read_only_hint=read_only)
    decision = policy.decide(one, {"path": path})

    assert decision.verdict in policy.verdicts(one)
    assert (decision.number, decision.rule) in list(policy.reached(one))
    assert not policy.hides(one) or decision.verdict == "deny"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"do": "refuse", "tool": "*"}, "allow, ask or deny"),
        ({"do": "deny"}, "has no condition"),
        ({"do": "allow", "server": "files", "tool": []}, "is empty"),
        ({"do": "allow", "when": {}}, "is empty"),
        ({"do": "deny", "when": {"path": []}}, "is empty"),
        ({"do": "allow", "annotation": "safe"}, "known are read-only"),
        ({"do": "allow", "annotation": "not read-olny"}, 'did you mean "read-only"'),
    ],
)
def test_rules_that_make_no_sense_cannot_be_made(arguments: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PolicyRule(**arguments)


def test_the_default_is_one_of_the_three() -> None:
    bad: Any = "maybe"
    with pytest.raises(ConfigError, match="the default is allow, ask or deny"):
        Policy(default=bad)


@pytest.mark.parametrize("path", ["/proc/self/root/etc/passwd", "\u2215etc\u2215passwd"])
def test_a_rule_on_paths_is_no_sandbox_and_the_reference_says_so(path: str) -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "policy.md"
    rule = PolicyRule("deny", when={"path": "/etc/*"})

    assert verdict([rule], tool(), path="/etc/passwd") == "deny"
    assert verdict([rule], tool(), path=path) == "ask"
    assert "A rule on paths is no sandbox" in page.read_text("utf-8")
