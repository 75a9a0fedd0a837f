"""Which tool calls are allowed, asked about or denied: rules as data, and what they decide.

The first rule that fits a call decides. So exceptions stand before what they are exceptions of,
and a rule can be narrower than the one after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final, Literal, Protocol

from plait.client.config.policy_conditions import argument_fits, value_at
from plait.client.config.problems import did_you_mean
from plait.client.config.tool_hints import TRAITS, Trait, trait_named
from plait.errors import ConfigError

Verdict = Literal["allow", "ask", "deny"]
"""What becomes of a call: it is made, a person is asked first, or it is refused."""

VERDICTS: Final[tuple[Verdict, ...]] = ("allow", "ask", "deny")

_ONLY_DENIED: Final[frozenset[Verdict]] = frozenset({"deny"})

_NOT = re.compile(r"^(!\s*|not[\s_-]+)", re.IGNORECASE)


class ToolFacts(Protocol):
    """What a policy looks at in a tool."""

    @property
    def server(self) -> str:
        """The server's name in the configuration."""
        ...

    @property
    def wire_name(self) -> str:
        """What the server calls the tool."""
        ...

    def has_trait(self, trait: Trait) -> bool:
        """Say whether a trait holds; hints that were not given count for the worst."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """What to do with some calls; everything that is given must fit.

    Raises:
        ConfigError: The rule names nothing, or something that there cannot be.
    """

    do: Verdict

    tool: str | Sequence[str] | None = None
    """Names or globs, of which one must fit; one with a slash means `server/tool`."""

    server: str | Sequence[str] | None = None
    """Names or globs of servers, of which one must fit."""

    annotation: str | Sequence[str] | None = None
    """Such as `read-only` or `not destructive`; all of them must hold."""

    when: Mapping[str, str | Sequence[str]] | None = None
    """Globs for arguments, by name or by JSON pointer (`/filter/path`); all must fit."""

    reason: str | None = None
    """Why, for whoever is asked or refused."""

    def __post_init__(self) -> None:
        if self.do not in VERDICTS:
            raise ConfigError(f"policy: a rule says allow, ask or deny, not {self.do!r}")
        given = [self.tool, self.server, self.annotation, self.when]
        if all(one is None for one in given):
            raise ConfigError('policy: a rule names nothing (for every tool: tool="*")')
        globs = list((self.when or {}).values())
        if any(one is not None and not one for one in [*given, *globs]):
            # The rule would be about more, or less, than was meant.
            raise ConfigError("policy: a condition of a rule is empty; leave it out")
        for word in _several(self.annotation):
            if signed_trait(word) is None:
                raise ConfigError(
                    f"policy: {word!r} is not an annotation ({annotation_hint(word)})"
                )

    def names(self, tool: ToolFacts) -> bool:
        """Say whether the rule is about a tool, whatever its arguments."""
        servers, tools = _several(self.server), _several(self.tool)
        return (
            (not servers or any(_is_like(tool.server, one) for one in servers))
            and (not tools or any(_is_called(tool, one) for one in tools))
            and all(_has(tool, one) for one in _several(self.annotation))
        )

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        """Say whether the arguments are those that the rule is about."""
        return all(
            argument_fits(value_at(arguments, path), _several(globs), strict=self.do == "allow")
            for path, globs in (self.when or {}).items()
        )

    def __str__(self) -> str:
        """Write the conditions in words."""
        said = [
            f"{label} {' or '.join(_several(given))}"
            for label, given in (("server", self.server), ("tool", self.tool))
            if given
        ]
        said += [" and ".join(_several(self.annotation))] if self.annotation else []
        said += [
            f"{path} is {' or '.join(_several(one))}" for path, one in (self.when or {}).items()
        ]
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What a policy decides about a call."""

    verdict: Verdict

    reason: str
    """Which rule decided, and why it is there, in words."""

    rule: PolicyRule | None = None
    """The rule that decided; `None` is the policy's default."""

    number: int | None = None
    """Which rule it is, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules, of which the first that fits a call decides."""

    rules: Sequence[PolicyRule] = ()

    default: Verdict = "ask"
    """What becomes of calls that no rule is about."""

    hide_denied: bool = True
    """Whether tools that are denied whatever their arguments are left out of lists."""

    source: str | None = None
    """The file it was read from."""

    def __post_init__(self) -> None:
        if self.default not in VERDICTS:
            raise ConfigError(f"policy: the default is allow, ask or deny, not {self.default!r}")

    def decide(self, tool: ToolFacts, arguments: Mapping[str, Any] | None = None) -> PolicyDecision:
        """Decide about a call; its arguments are those that the server would get."""
        for number, rule in enumerate(self.rules, start=1):
            if rule.names(tool) and rule.fits(arguments or {}):
                why = f": {rule.reason}" if rule.reason else ""
                text = f"rule {number} of {self.title} ({rule}){why}"
                return PolicyDecision(rule.do, text, rule, number)
        return PolicyDecision(self.default, f"the default of {self.title}, as no rule fits")

    @property
    def title(self) -> str:
        """What the policy is called in texts."""
        return PurePath(self.source).name if self.source else "the policy"

    def verdicts(self, tool: ToolFacts) -> frozenset[Verdict]:
        """Say what may become of calls of a tool, depending on their arguments."""
        return frozenset(rule.do if rule else self.default for _, rule in self.reached(tool))

    def hides(self, tool: ToolFacts) -> bool:
        """Say whether a tool is left out of lists, because every call of it is denied."""
        return self.hide_denied and self.verdicts(tool) == _ONLY_DENIED

    def idle_rules(self, tools: Iterable[ToolFacts]) -> list[tuple[int, str]]:
        """List the rules that decide about none of these tools: their numbers, and why."""
        listed = list(tools)
        reached = {number for tool in listed for number, _ in self.reached(tool)}
        return [
            (
                number,
                "rules before it decide about every tool that it names"
                if any(rule.names(tool) for tool in listed)
                else "it names no tool that there is",
            )
            for number, rule in enumerate(self.rules, start=1)
            if number not in reached
        ]

    def reached(self, tool: ToolFacts) -> Iterator[tuple[int | None, PolicyRule | None]]:
        """Yield the rules that may decide about a tool, with their numbers.

        `None` stands for the default, which comes last, if it may decide.
        """
        for number, rule in enumerate(self.rules, start=1):
            if rule.names(tool):
                yield number, rule
                if not rule.when:
                    return
        yield None, None


def signed_trait(written: str) -> tuple[Trait, bool] | None:
    """Read an annotation and whether it must hold: `read-only`, `not read-only`, `!readOnly`."""
    name = written.removeprefix("@").strip()
    positive = _NOT.sub("", name)
    trait = trait_named(positive)
    return None if trait is None else (trait, positive == name)


def annotation_hint(written: str) -> str:
    """Say which annotation was probably meant."""
    known = [trait.replace("_", "-") for trait in TRAITS]
    return did_you_mean(_NOT.sub("", written), known) or f"known are {', '.join(known)}"


def _has(tool: ToolFacts, written: str) -> bool:
    found = signed_trait(written)
    return found is not None and tool.has_trait(found[0]) is found[1]


def _is_called(tool: ToolFacts, pattern: str) -> bool:
    """Compare names; a tool whose own name has a slash cannot pass for one of another server."""
    server, slash, name = pattern.partition("/")
    if not slash:
        return _is_like(tool.wire_name, pattern)
    return _is_like(tool.server, server) and _is_like(tool.wire_name, name)


def _is_like(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _several(given: str | Sequence[str] | None) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given or ()
