"""Tool call policies: rules that allow, ask about or deny calls, and how they are read.

The first rule that matches a call decides, so an exception comes before the rule it narrows.
An unknown key is an error in files too: a rule with a typo must not match more than intended.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final, Literal, Protocol, get_args

from plait._support.suggestions import did_you_mean
from plait._support.threads import off_loop
from plait.client.config.argument_readings import matches_globs, unlisted_names, values_at
from plait.client.config.document import load_text, parse_json, workspace_of
from plait.client.config.raw_value import (
    Key,
    KeyTable,
    Location,
    Problems,
    RawValue,
    RejectedError,
    Variables,
    read_table,
)
from plait.client.config.value_types import one_of, read_bool, read_text, read_texts
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.config")

Verdict = Literal["allow", "ask", "deny"]
"""What happens to a call: it is sent, it needs approval, or it is refused."""

VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)

Trait = Literal["read_only", "destructive", "idempotent", "open_world"]
"""A property of a tool that its server can declare in annotations."""

TRAITS: Final[tuple[Trait, ...]] = get_args(Trait)
_NOT = re.compile(r"^(!\s*|not[\s_-]+)", re.IGNORECASE)
_RULE_EXAMPLE = '[{"tool": "…", "do": "allow"}]'
_EXAMPLE = f'{{"default": "ask", "rules": {_RULE_EXAMPLE}}}'
_MAX_NAMED_ARGUMENTS = 5
_MAX_NAME_CHARACTERS = 40
"""How much a reason quotes of what a model made up."""


class PolicyTool(Protocol):
    """What a policy needs to know about a tool."""

    @property
    def server(self) -> str:
        """The server's name in the configuration."""
        ...

    @property
    def wire_name(self) -> str:
        """The server's name for the tool."""
        ...

    @property
    def wire_schema(self) -> Mapping[str, Any]:
        """The listed schema of its arguments."""
        ...

    def has_trait(self, trait: Trait) -> bool:
        """Return whether a trait holds; missing hints count as the worst case."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """What to do with some calls; every condition that is set must match.

    Raises:
        ConfigError: The rule has no condition, or an invalid one.
    """

    do: Verdict
    tool: str | Sequence[str] | None = None
    """Names or globs, of which one must match; one with a slash means `server/tool`."""
    server: str | Sequence[str] | None = None
    """Names or globs of servers, of which one must match."""
    annotation: str | Sequence[str] | None = None
    """Such as `read-only` or `not destructive`; all of them must hold."""
    when: Mapping[str, str | Sequence[str]] | None = None
    """Globs for arguments, by name or by JSON pointer (`/filter/path`); all must match."""
    reason: str | None = None
    """Shown to the person who approves, or to the model whose call is refused."""

    def __post_init__(self) -> None:
        if self.do not in VERDICTS:
            raise ConfigError(f"policy: a rule says allow, ask or deny, not {self.do!r}")
        conditions = [self.tool, self.server, self.annotation, self.when]
        if all(condition is None for condition in conditions):
            raise ConfigError('policy: a rule has no condition (for every tool: tool="*")')
        conditions += (self.when or {}).values()
        if any(condition is not None and not condition for condition in conditions):
            # The rule would match more, or fewer, calls than intended.
            raise ConfigError("policy: a condition of a rule is empty; leave it out")
        for word in _as_sequence(self.annotation):
            if signed_trait(word) is None:
                raise ConfigError(
                    f"policy: {word!r} is not an annotation ({annotation_hint(word)})"
                )

    def matches_tool(self, tool: PolicyTool) -> bool:
        """Return whether the rule applies to a tool, regardless of arguments."""
        servers = _as_sequence(self.server)
        if servers and not any(_matches_glob(tool.server, pattern) for pattern in servers):
            return False
        tools = _as_sequence(self.tool)
        if tools and not any(_matches_name(tool, pattern) for pattern in tools):
            return False
        annotations = map(signed_trait, _as_sequence(self.annotation))
        return all(one is not None and tool.has_trait(one[0]) is one[1] for one in annotations)

    def matches_arguments(
        self, arguments: Mapping[str, Any], schema: Mapping[str, Any] | None = None
    ) -> bool:
        """Return whether the arguments of a call match the rule, as a server may read them."""
        strict = self.do == "allow"
        combine = all if strict else any
        return all(
            bool(values := values_at(arguments, path, schema or {}, strict=strict))
            and combine(matches_globs(one, _as_sequence(globs), strict=strict) for one in values)
            for path, globs in (self.when or {}).items()
        )

    def __str__(self) -> str:
        """Write the conditions in words."""
        texts = [
            f"{label} {' or '.join(_as_sequence(names))}"
            for label, names in (("server", self.server), ("tool", self.tool))
            if names
        ]
        if self.annotation:
            texts.append(" and ".join(_as_sequence(self.annotation)))
        for path, globs in (self.when or {}).items():
            texts.append(f"{path} is {' or '.join(_as_sequence(globs))}")
        return ", ".join(texts)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What a policy decides about a call."""

    verdict: Verdict
    reason: str
    """Which rule decided, and why it exists, in words."""
    rule: PolicyRule | None = None
    """The rule that decided; `None` is the policy's default."""
    number: int | None = None
    """The rule's position, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules, of which the first that matches a call decides."""

    rules: Sequence[PolicyRule] = ()
    default: Verdict = "ask"
    """The verdict for calls that match no rule."""
    hide_denied: bool = True
    """Whether tools that are denied with any arguments are left out of lists."""
    source: str | None = None
    """The file it was read from."""

    def __post_init__(self) -> None:
        if self.default not in VERDICTS:
            raise ConfigError(f"policy: the default is allow, ask or deny, not {self.default!r}")

    def decide(
        self, tool: PolicyTool, arguments: Mapping[str, Any] | None = None
    ) -> PolicyDecision:
        """Decide about a call by the arguments that the server would get.

        A call that would be allowed is asked about if it has an argument that the tool does not
        list, and that may be another name of one which an earlier rule is about.
        """
        values, passed = arguments or {}, list[PolicyRule]()
        decision = PolicyDecision(self.default, f"the default of {self.title}, as no rule fits")
        for number, rule in enumerate(self.rules, start=1):
            if not rule.matches_tool(tool):
                continue
            if not rule.when or rule.matches_arguments(values, tool.wire_schema):
                reason = f": {rule.reason}" if rule.reason else ""
                text = f"rule {number} of {self.title} ({rule}){reason}"
                decision = PolicyDecision(rule.do, text, rule, number)
                break
            if rule.do != "allow":
                passed.append(rule)
        if decision.verdict != "allow" or not passed:
            return decision
        ruled = (path for rule in passed for path in rule.when or ())
        unlisted = unlisted_names(values, tool.wire_schema, ruled)
        if not unlisted:
            return decision
        names = ", ".join(one[:_MAX_NAME_CHARACTERS] for one in unlisted[:_MAX_NAMED_ARGUMENTS])
        text = f"{decision.reason}, and the tool does not list: {names}"
        return replace(decision, verdict="ask", reason=text)

    @property
    def title(self) -> str:
        """What the policy is called in texts."""
        return PurePath(self.source).name if self.source else "the policy"

    def verdicts(self, tool: PolicyTool) -> frozenset[Verdict]:
        """Return the possible verdicts on calls of a tool, depending on their arguments."""
        found: set[Verdict] = set()
        doubtful = False
        for _, rule in self.reached(tool):
            verdict = rule.do if rule else self.default
            found.add(verdict)
            if verdict == "allow" and doubtful:
                found.add("ask")
            doubtful = doubtful or (rule is not None and bool(rule.when) and verdict != "allow")
        return frozenset(found)

    @property
    def uses_annotations(self) -> bool:
        """Whether what a server says of a tool decides about calls of it."""
        return any(rule.annotation for rule in self.rules)

    def hides(self, tool: PolicyTool) -> bool:
        """Return whether a tool is left out of lists, because every call of it is denied."""
        return self.hide_denied and all(verdict == "deny" for verdict in self.verdicts(tool))

    def idle_rules(self, tools: Iterable[PolicyTool]) -> list[tuple[int, str]]:
        """List the rules that decide about none of these tools: their numbers, and why."""
        listed = list(tools)
        reached = {number for tool in listed for number, _ in self.reached(tool)}
        return [
            (
                number,
                "rules before it decide about every tool that it names"
                if any(rule.matches_tool(tool) for tool in listed)
                else "it names no tool that there is",
            )
            for number, rule in enumerate(self.rules, start=1)
            if number not in reached
        ]

    def reached(self, tool: PolicyTool) -> Iterator[tuple[int | None, PolicyRule | None]]:
        """Yield the rules that may decide about a tool, with their numbers.

        `(None, None)` is the default; it comes last, if it may decide.
        """
        for number, rule in enumerate(self.rules, start=1):
            if rule.matches_tool(tool):
                yield number, rule
                if not rule.when:
                    return
        yield None, None


def trait_named(spelling: str) -> Trait | None:
    """Find the trait spelled `read_only`, `readOnly`, `read_only_hint` or `readOnlyHint`."""
    letters = re.sub(r"[\s_-]", "", spelling).lower().removesuffix("hint")
    return next((trait for trait in TRAITS if trait.replace("_", "") == letters), None)


def signed_trait(written: str) -> tuple[Trait, bool] | None:
    """Read an annotation and whether it must hold: `read-only`, `not read-only`, `!readOnly`."""
    name = written.removeprefix("@").strip()
    positive = _NOT.sub("", name)
    trait = trait_named(positive)
    return None if trait is None else (trait, positive == name)


def annotation_hint(written: str) -> str:
    """Suggest the annotation that was probably meant."""
    known = [trait.replace("_", "-") for trait in TRAITS]
    name = _NOT.sub("", written.removeprefix("@"))
    return did_you_mean(name, known) or f"known are {', '.join(known)}"


def _matches_name(tool: PolicyTool, pattern: str) -> bool:
    """Compare names; a slash in the tool's own name never counts as a server's."""
    server, slash, name = pattern.partition("/")
    if not slash:
        return _matches_glob(tool.wire_name, pattern)
    return _matches_glob(tool.server, server) and _matches_glob(tool.wire_name, name)


def _matches_glob(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _as_sequence(names: str | Sequence[str] | None) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names or ()


PolicySource = Policy | Mapping[str, object] | str | os.PathLike[str]
"""What a policy can be read from: a value, or the path of a JSON or TOML file."""


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
        return _policy_from_file(raw)
    return _policy_from_value(raw)


@off_loop
def _policy_from_file(raw: RawValue) -> Policy:
    path = raw.path(read_text(raw))
    location = Location(raw.location.problems, file=str(path))
    value: object = None
    text = load_text(path, location)
    if text is not None and path.suffix.lower() != ".toml":
        value = parse_json(text, location, start=_EXAMPLE, strict=True)
    elif text is not None:
        try:
            value = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            location.error("toml_syntax", f"not valid TOML: {error}")
    if value is None:
        raise RejectedError
    variables = replace(raw.variables, folder=workspace_of(path))
    return replace(_policy_from_value(RawValue(value, location, variables)), source=str(path))


def _policy_from_value(raw: RawValue) -> Policy:
    return Policy(**read_table(raw, _POLICY_KEYS, "a policy", f"start with {_EXAMPLE}", whole=True))


def _read_rule(raw: RawValue) -> PolicyRule:
    if isinstance(raw.value, PolicyRule):
        return raw.value
    hint = 'such as {"tool": "…", "do": "allow"}'
    values = read_table(raw, _RULE_KEYS, "a rule", hint, whole=True)
    if "do" not in values:
        raw.location.error("missing_key", 'has no "do"', 'add "do": "allow", "ask" or "deny"')
    if values.keys().isdisjoint(("tool", "server", "annotation", "when")):
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
        raw.reject("bad_name", 'the name of a server has no "/"', 'write "tool": "server/tool"')
    return names


def _read_annotations(raw: RawValue) -> tuple[str, ...]:
    words = _read_names(raw)
    for word in words:
        if signed_trait(word) is None:
            message = f"there is no annotation {word!r}"
            raw.location.error("unknown_value", message, annotation_hint(word))
    return words


def _read_when(raw: RawValue) -> dict[str, tuple[str, ...]]:
    def read_globs(raw: RawValue) -> tuple[str, ...]:
        # Numbers, true and false are compared as JSON writes them.
        if isinstance(raw.value, bool | int | float):
            return (str(raw.value).lower(),)
        if isinstance(raw.value, str):
            return (raw.text(),)
        if raw.value in ([], ()):
            raw.reject("empty_value", "must not be empty", "leave it out")
        return read_texts(raw)

    if not raw.entries("globs by argument", 'write {"path": "/etc/*"}'):
        raw.reject("empty_value", "must not be empty", "leave it out")
    return raw.read_entries(read_globs, "globs by argument")


_POLICY_KEYS = KeyTable(
    (
        Key("default", one_of(*VERDICTS), takes_null=True),
        Key(
            "rules",
            lambda raw: raw.read_items(_read_rule, "a list of rules", f"write {_RULE_EXAMPLE}"),
            takes_null=True,
        ),
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
