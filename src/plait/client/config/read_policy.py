"""Reading a policy from a file or from Python values.

An unknown key is an error in files too: a rule with a typo must not match more than intended.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from plait.client.config.document import load_text, parse_json, workspace_of
from plait.client.config.key_table import Key, KeyTable, read_valid_table
from plait.client.config.policy import VERDICTS, Policy, PolicyRule, annotation_hint, signed_trait
from plait.client.config.raw_value import Location, Problems, RawValue, RejectedError
from plait.client.config.value_types import one_of, read_bool, read_text, read_texts
from plait.client.config.variables import Variables

logger = logging.getLogger("plait.client.config")

PolicySource = Policy | Mapping[str, object] | str | os.PathLike[str]
"""What a policy can be read from: a value, or the path of a JSON or TOML file."""

_EXAMPLE = '{"default": "ask", "rules": [{"tool": "…", "do": "allow"}]}'
_CONDITIONS = ("tool", "server", "annotation", "when")


def read_policy(source: PolicySource, *, environ: Mapping[str, str] | None = None) -> Policy:
    """Read a policy from a mapping, or from the JSON or TOML file at a path.

    Raises:
        ConfigError: Anything is wrong; `problems` lists all of it.
    """
    problems = Problems()
    policy = Policy()
    with suppress(RejectedError):
        policy = policy_from_raw(RawValue(source, Location(problems), Variables.of(environ)))
    problems.finish(logger)
    return policy


def policy_from_raw(raw: RawValue) -> Policy:
    """Read a policy from a value: its rules, or the path of a file."""
    if isinstance(raw.value, Policy):
        return raw.value
    if isinstance(raw.value, (str, os.PathLike)):
        return _from_file(raw)
    return _from_value(raw)


def _from_file(raw: RawValue) -> Policy:
    path = raw.path(read_text(raw))
    location = Location(raw.location.problems, file=str(path))
    value = _load(path, location)
    if value is None:
        raise RejectedError
    variables = replace(raw.variables, folder=workspace_of(path))
    return replace(_from_value(RawValue(value, location, variables)), source=str(path))


def _load(path: Path, location: Location) -> object:
    text = load_text(path, location)
    if text is None:
        return None
    if path.suffix.lower() != ".toml":
        return parse_json(text, location, start=_EXAMPLE, strict=True)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        location.error("toml_syntax", f"not valid TOML: {error}")
        return None


def _from_value(raw: RawValue) -> Policy:
    return Policy(**read_valid_table(raw, _POLICY_KEYS, "a policy", f"start with {_EXAMPLE}"))


def _read_rules(raw: RawValue) -> tuple[PolicyRule, ...]:
    return raw.read_items(_read_rule, "a list of rules", 'write [{"tool": "…", "do": "allow"}]')


def _read_rule(raw: RawValue) -> PolicyRule:
    if isinstance(raw.value, PolicyRule):
        return raw.value
    hint = 'such as {"tool": "…", "do": "allow"}'
    values = read_valid_table(raw, _RULE_KEYS, "a rule", hint)
    if "do" not in values:
        raw.location.error("missing_key", 'has no "do"', 'add "do": "allow", "ask" or "deny"')
    if values.keys().isdisjoint(_CONDITIONS):
        hint = 'add "tool", "server", "annotation" or "when"; for every tool: "tool": "*"'
        raw.reject("missing_key", "names no tools", hint)
    if "do" not in values:
        raise RejectedError
    return PolicyRule(**values)


def _read_names(raw: RawValue) -> tuple[str, ...]:
    """Read one name or a list of them, none of which is empty."""
    if isinstance(raw.value, str):
        return (read_text(raw),)
    expected = "a name, a glob, or a list of them"
    if not raw.items(expected):
        raw.reject("empty_value", "must not be empty", "leave it out")
    return raw.read_items(read_text, expected)


def _read_servers(raw: RawValue) -> tuple[str, ...]:
    names = _read_names(raw)
    if any("/" in name for name in names):
        hint = 'write "tool": "server/tool"'
        raw.reject("bad_name", 'the name of a server has no "/"', hint)
    return names


def _read_annotations(raw: RawValue) -> tuple[str, ...]:
    words = _read_names(raw)
    for word in words:
        if signed_trait(word) is None:
            message = f"there is no annotation {word!r}"
            raw.location.error("unknown_value", message, annotation_hint(word))
    return words


def _read_when(raw: RawValue) -> dict[str, tuple[str, ...]]:
    if not raw.entries("globs by argument", 'write {"path": "/etc/*"}'):
        raw.reject("empty_value", "must not be empty", "leave it out")
    return raw.read_entries(_read_globs, "globs by argument")


def _read_globs(raw: RawValue) -> tuple[str, ...]:
    """Read globs; numbers, true and false are compared as JSON writes them."""
    if isinstance(raw.value, bool | int | float):
        return (str(raw.value).lower(),)
    if isinstance(raw.value, str):
        return (raw.text(),)
    if raw.value in ([], ()):
        raw.reject("empty_value", "must not be empty", "leave it out")
    return read_texts(raw)


_POLICY_KEYS = KeyTable(
    (
        Key("default", one_of(*VERDICTS), takes_null=True),
        Key("rules", _read_rules, takes_null=True),
        Key("hide_denied", read_bool),
    ),
    noun="policy",
    ignored=("$schema", "_comment"),
    strict=True,
)

_RULE_KEYS = KeyTable(
    (
        Key("tool", _read_names, aliases=("tools",), takes_null=True),
        Key("server", _read_servers, aliases=("servers",), takes_null=True),
        Key("annotation", _read_annotations, aliases=("annotations",), takes_null=True),
        Key("when", _read_when, takes_null=True),
        Key("do", one_of(*VERDICTS), takes_null=True),
        Key("reason", read_text),
    ),
    noun="rule",
    ignored=("_comment",),
    strict=True,
)
