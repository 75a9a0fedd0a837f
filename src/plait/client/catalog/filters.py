"""Which tools are offered: those in `include`, without `exclude`, if `tool_filter` agrees."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from plait._support.suggestions import nearest
from plait.client.catalog.tool import Tool
from plait.client.config.policy import Trait, annotation_hint, signed_trait, trait_named
from plait.client.config.raw_value import as_list, describe
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.catalog")

Matches = Callable[[Tool], bool]
"""Returns whether a tool matches."""

ToolPattern = str | re.Pattern[str] | Mapping[str, bool] | Matches
"""One way to name tools.

A string is a wire name or a glob, `server/tool` to be specific, `re:` and a regular expression,
or `@read_only`, `@destructive`, `@idempotent`, `@open_world`, each also as `@!…` or `@not …`.
A pattern with a slash is compared with `server/tool` too, one without only with the wire name.
A mapping maps traits to booleans, all of which must hold. A function gets the tool.
"""

_REGEX = "re:"
_TRAIT = "@"
_GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Decides which tools are offered; the patterns are compiled once.

    Raises:
        ConfigError: A pattern is invalid.
    """

    include: tuple[ToolPattern, ...] | None = None
    """Tools to offer; `None` is every tool, an empty tuple none."""
    exclude: tuple[ToolPattern, ...] = ()
    predicate: Matches | None = None
    """Called last; a tool for which it fails is not offered."""
    _stages: list[tuple[str, str, Matches]] = field(init=False, repr=False, compare=False)
    """The settings, each with the reason to give if a tool does not pass its test."""
    _reported: set[str] = field(default_factory=set[str], init=False, repr=False, compare=False)
    """The tools for which a failing function was logged."""

    def __post_init__(self) -> None:
        stages: list[tuple[str, str, Matches]] = []
        if self.include is not None:
            stages.append(("include", "not in include", _any_of(self.include, "include")))
        excluded = _any_of(self.exclude, "exclude")
        stages.append(("exclude", "in exclude", lambda tool: not excluded(tool)))
        if self.predicate is not None:
            test = _function(self.predicate, "tool_filter")
            stages.append(("tool_filter", "refused by tool_filter", test))
        object.__setattr__(self, "_stages", stages)

    @classmethod
    def of(cls, include: Any = None, exclude: Any = (), tool_filter: Any = None) -> Self:
        """Create a filter from a user's settings: one pattern, a list of them, or `None`."""
        return cls(
            None if include is None else patterns_in(include, "include"),
            patterns_in(exclude, "exclude"),
            tool_filter,
        )

    @property
    def is_open(self) -> bool:
        """Whether every tool is offered."""
        return self.include is None and not self.exclude and self.predicate is None

    def offers(self, tool: Tool) -> bool:
        """Return whether the tool is offered."""
        return self.refusal(tool) is None

    def refusal(self, tool: Tool) -> str | None:
        """Return why the tool is not offered, or `None` if it is."""
        for setting, reason, passes in self._stages:
            try:
                if not passes(tool):
                    return reason
            except Exception:  # boundary: the functions belong to the user
                if tool.full_name not in self._reported:
                    self._reported.add(tool.full_name)
                    name = tool.full_name
                    logger.warning("%s is not offered: %s failed", name, setting, exc_info=True)
                return f"{setting} failed"
        return None

    def unknown_names(self, tools: Iterable[Tool]) -> list[tuple[str, str | None]]:
        """List the names in `include` that none of the tools has, each with the nearest one.

        Globs may match nothing, and `server/tool` is skipped if no tool is of that server; so pass
        the tools of all servers that share the filter.
        """
        listed = list(tools)
        servers = {tool.server for tool in listed}
        wire_names = {tool.wire_name for tool in listed}
        known = wire_names | {tool.full_name for tool in listed}
        unknown: dict[str, str | None] = {}
        for name in self.include or ():
            if not isinstance(name, str) or name in known:
                continue
            if name.startswith((_REGEX, _TRAIT)) or _GLOB_CHARACTERS & set(name):
                continue
            server = next((one for one in sorted(servers) if name.startswith(f"{one}/")), None)
            if server is not None:
                own = {tool.wire_name for tool in listed if tool.server == server}
                meant = nearest(name.removeprefix(f"{server}/"), sorted(own))
                unknown[name] = meant and f"{server}/{meant}"
            elif "/" not in name:
                unknown[name] = nearest(name, sorted(wire_names))
        return list(unknown.items())


def patterns_in(patterns: Any, setting: str) -> tuple[ToolPattern, ...]:
    """Return the patterns of a setting: one, a list of them, or `None`."""
    listed = () if patterns is None else as_list(patterns)
    if listed is not None:
        return cast("tuple[ToolPattern, ...]", tuple(listed))
    if isinstance(patterns, (str, re.Pattern, Mapping)) or callable(patterns):
        return (cast("ToolPattern", patterns),)
    raise ConfigError(f"{setting}: expected a list of patterns, found {describe(patterns)}")


def _any_of(patterns: Iterable[ToolPattern], setting: str) -> Matches:
    tests = [_compiled(pattern, setting) for pattern in patterns]
    return lambda tool: any(test(tool) for test in tests)


def _compiled(pattern: object, setting: str) -> Matches:
    matches: Matches
    if isinstance(pattern, str) and pattern.startswith(_REGEX):
        try:
            matches = _compiled(re.compile(pattern.removeprefix(_REGEX)), setting)
        except re.error as error:
            reason = f'is not a regular expression: {error} (without "re:" it is a name or a glob)'
            raise ConfigError(f"{setting}: {_quoted(pattern)} {reason}") from error
    elif isinstance(pattern, str) and pattern.startswith(_TRAIT):
        if (signed := signed_trait(pattern)) is None:
            hint = f"for a tool of that name, write {_quoted(f'[@]{pattern[1:]}')}"
            raise _no_annotation(pattern, setting, f"; {hint}")
        trait, holds = signed
        matches = lambda tool: tool.has_trait(trait) is holds  # noqa: E731
    elif isinstance(pattern, str):
        return lambda tool: tool.is_called(pattern)
    elif isinstance(pattern, re.Pattern) and isinstance(cast("Any", pattern).pattern, str):
        regex = cast("re.Pattern[str]", pattern)
        specific = "/" in regex.pattern
        return lambda tool: bool(
            regex.search(tool.wire_name) or (specific and regex.search(tool.full_name))
        )
    elif isinstance(pattern, Mapping):
        return _traits(cast("Mapping[object, object]", pattern), setting)
    else:
        return _function(cast("object", pattern), setting)
    # A tool of exactly this name always matches.
    return lambda tool: pattern == tool.wire_name or matches(tool)


def _traits(required_traits: Mapping[object, object], setting: str) -> Matches:
    if not required_traits:
        raise ConfigError(f'{setting}: {{}} means nothing (for every tool, write "*")')
    traits: dict[Trait, bool] = {}
    for key, value in required_traits.items():
        if (trait := trait_named(str(key))) is None:
            raise _no_annotation(str(key), setting)
        if not isinstance(value, bool):
            raise ConfigError(f"{setting}: {trait} is true or false, found {describe(value)}")
        if traits.setdefault(trait, value) is not value:
            raise ConfigError(f"{setting}: {trait} is both true and false")
    return lambda tool: all(tool.has_trait(trait) is value for trait, value in traits.items())


def _no_annotation(written: str, setting: str, more: str = "") -> ConfigError:
    text = f"{_quoted(written)} is not an annotation ({annotation_hint(written)}{more})"
    return ConfigError(f"{setting}: {text}")


def _function(function: object, setting: str) -> Matches:
    if not callable(function):
        expected = "a name, a glob, a regular expression, annotations or a function"
        if setting == "tool_filter":
            expected = "a function that gets the tool"
        raise ConfigError(f"{setting}: expected {expected}, found {describe(function)}")
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{setting}: the function must answer at once (write def, not async def)")

    def matches(tool: Tool) -> bool:
        answer = function(tool)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise TypeError("the function is async, but a filter must answer at once")
        return bool(answer)

    return matches


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
