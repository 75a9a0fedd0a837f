"""Reading a policy, from a file or from Python values.

Here a key that is not known is an error in files too: a rule with a slip in it must not be taken
for a wider one.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from plait.client.config.document import load_text, parse_json, workspace_of
from plait.client.config.key_table import Key, KeyTable, read_table
from plait.client.config.policy import VERDICTS, Policy, PolicyRule, annotation_hint, signed_trait
from plait.client.config.problems import Location, Problems, did_you_mean
from plait.client.config.raw_value import UNSET, RawValue, Unset
from plait.client.config.value_types import one_of, read_bool, read_text, read_texts
from plait.client.config.variables import Variables

logger = logging.getLogger("plait.client.config")

PolicySource = Policy | Mapping[str, object] | str | os.PathLike[str]
"""What a policy can be read from: a value, or the path of a JSON or TOML file."""


def read_policy(source: PolicySource, *, environ: Mapping[str, str] | None = None) -> Policy:
    """Read a policy from a mapping, or from the JSON or TOML file at a path.

    Raises:
        ConfigError: Anything is wrong; `problems` lists all of it.
    """
    problems = Problems()
    known = os.environ if environ is None else environ
    variables = Variables(environ=known, folder=Path(), home=Path.home())
    policy = policy_from_raw(RawValue(source, Location(problems), variables))
    problems.raise_errors()
    for warning in problems.warnings:
        logger.warning("%s", warning)
    return cast("Policy", policy)


def policy_from_raw(raw: RawValue) -> Policy | Unset:
    """Read a policy where one may stand: its rules, or the path of a file."""
    if isinstance(raw.value, Policy):
        return raw.value
    if isinstance(raw.value, (str, os.PathLike)):
        return _from_file(raw)
    return _from_value(raw)


def _from_file(raw: RawValue) -> Policy | Unset:
    text = raw.text()
    if text is UNSET:
        return UNSET
    if not text.strip():
        return raw.reject("empty_value", "must not be empty")
    home = str(raw.variables.home)
    path = raw.variables.folder / (home + text[1:] if text.startswith("~/") else text)
    location = Location(raw.location.problems, file=str(path))
    value = _loaded(path, location)
    if value is None:
        return UNSET
    variables = replace(raw.variables, folder=workspace_of(path))
    policy = _from_value(RawValue(value, location, variables))
    return UNSET if policy is UNSET else replace(policy, source=str(path))


def _loaded(path: Path, location: Location) -> object:
    text = load_text(path, location)
    if text is None:
        return None
    if path.suffix.lower() != ".toml":
        document = parse_json(text, location, start=_START)
        for name in document.repeated_keys if document else ():
            location.error("duplicate_key", f'the key "{name}" stands twice in one object')
        return document.value if document else None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        location.error("toml_syntax", f"not valid TOML: {error}")
        return None


_START = '{"default": "ask", "rules": [{"tool": "…", "do": "allow"}]}'


def _from_value(raw: RawValue) -> Policy | Unset:
    if not raw.is_object("a policy", f"start with {_START}"):
        return UNSET
    before = len(raw.location.problems.errors)
    values = read_table(raw, _POLICY_KEYS)
    return UNSET if len(raw.location.problems.errors) > before else Policy(**values)


def _read_rules(raw: RawValue) -> tuple[PolicyRule, ...] | Unset:
    if not raw.is_list("a list of rules", 'write [{"tool": "…", "do": "allow"}]'):
        return UNSET
    rules = [_read_rule(item) for item in raw.items()]
    return tuple(rule for rule in rules if rule is not UNSET)


def _read_rule(raw: RawValue) -> PolicyRule | Unset:
    if isinstance(raw.value, PolicyRule):
        return raw.value
    if not raw.is_object("a rule", 'such as {"tool": "…", "do": "allow"}'):
        return UNSET
    before = len(raw.location.problems.errors)
    values = read_table(raw, _RULE_KEYS)
    keys = (_RULE_KEYS.find(spelling) for spelling, _ in raw.entries())
    written = {key.target for key in keys if key is not None}
    if len(raw.location.problems.errors) == before:
        if "do" not in written:
            raw.reject("missing_key", 'has no "do"', 'add "do": "allow", "ask" or "deny"')
        if written.isdisjoint(_CONDITIONS):
            hint = 'add "tool", "server", "annotation" or "when"; for every tool: "tool": "*"'
            raw.reject("missing_key", "names no tools", hint)
    return UNSET if len(raw.location.problems.errors) > before else PolicyRule(**values)


_CONDITIONS = ("tool", "server", "annotation", "when")


def _read_names(raw: RawValue) -> tuple[str, ...] | Unset:
    """Read one name or a list of them, none of which is empty."""
    if isinstance(raw.value, str):
        text = read_text(raw)
        return UNSET if text is UNSET else (text,)
    if not raw.is_list("a name, a glob, or a list of them"):
        return UNSET
    if not list(raw.items()):
        return raw.reject("empty_value", "must not be empty", "leave it out")
    texts = [read_text(item) for item in raw.items()]
    return tuple(text for text in texts if text is not UNSET)


def _read_servers(raw: RawValue) -> tuple[str, ...] | Unset:
    names = _read_names(raw)
    if names is not UNSET and any("/" in name for name in names):
        hint = 'write "tool": "server/tool"'
        return raw.reject("bad_name", 'the name of a server has no "/"', hint)
    return names


def _read_annotations(raw: RawValue) -> tuple[str, ...] | Unset:
    words = _read_names(raw)
    if words is UNSET:
        return UNSET
    unknown = [word for word in words if signed_trait(word) is None]
    for word in unknown:
        message = f"there is no annotation {word!r}"
        raw.reject("unknown_value", message, annotation_hint(word))
    return UNSET if unknown else words


def _read_when(raw: RawValue) -> dict[str, tuple[str, ...]] | Unset:
    if not raw.is_object("globs by argument", 'write {"path": "/etc/*"}'):
        return UNSET
    globs = {name: _read_globs(entry) for name, entry in raw.entries()}
    if not globs:
        return raw.reject("empty_value", "must not be empty", "leave it out")
    return {name: some for name, some in globs.items() if some is not UNSET}


def _read_globs(raw: RawValue) -> tuple[str, ...] | Unset:
    """Read globs; numbers, true and false are compared as JSON writes them."""
    if isinstance(raw.value, bool | int | float):
        return (str(raw.value).lower(),)
    if isinstance(raw.value, str):
        text = raw.text()
        return UNSET if text is UNSET else (text,)
    if raw.value in ([], ()):
        return raw.reject("empty_value", "must not be empty", "leave it out")
    return read_texts(raw)


class _StrictTable(KeyTable):
    """Keys of which an unknown one is an error wherever it stands."""

    def flag(self, spelling: str, entry: RawValue) -> None:
        """Refuse a key that has no meaning."""
        hint = did_you_mean(spelling, self.spellings)
        hint = hint or f"known are {', '.join(sorted(self.spellings))}"
        entry.reject("unknown_key", f"is not a key of a {self.noun}", hint)


_POLICY_KEYS = _StrictTable(
    (
        Key("default", one_of(*VERDICTS), "default", takes_null=True),
        Key("rules", _read_rules, "rules", takes_null=True),
        Key("hide_denied", read_bool, "hide_denied"),
    ),
    noun="policy",
    ignored=("$schema", "_comment"),
)

_RULE_KEYS = _StrictTable(
    (
        Key("tool", _read_names, "tool", ("tools",), takes_null=True),
        Key("server", _read_servers, "server", ("servers",), takes_null=True),
        Key("annotation", _read_annotations, "annotation", ("annotations",), takes_null=True),
        Key("when", _read_when, "when", takes_null=True),
        Key("do", one_of(*VERDICTS), "do", takes_null=True),
        Key("reason", read_text, "reason"),
    ),
    noun="rule",
    ignored=("_comment",),
)
