"""Configuration values as written: their places, problems, variables and keys.

Variables in strings are `${NAME}`, `${NAME:-default}`, `${env:NAME}` and `${input:id}`; `$${` is a
plain `${`.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeVar, cast

from plait._support.redact import looks_secret
from plait._support.suggestions import did_you_mean, is_camel_case
from plait._support.unset import UNSET, Unset
from plait.errors import ConfigError, Problem

T = TypeVar("T")

Unit = Literal["seconds", "milliseconds"]

Source = Literal["variable", "env", "input"]

_PLAIN_STEP = re.compile(r"[\w$@-]+")
_MARK = re.compile(r"\$\$\{|\$\{(?:(?P<head>(?:(?!:-)[^}])*)(?P<end>:-|\}))?|\}")
_NAME = re.compile(r"[A-Za-z_]\w*|/", re.ASCII)
_MAX_NESTED_DEFAULTS = 8
"""A default inside defaults; more is a mistake, and would end in Python's own limit."""


class Problems:
    """The problems found while reading, in order."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def finish(self, logger: logging.Logger) -> None:
        """Log the warnings, or raise one error that lists all errors."""
        if self.errors:
            raise ConfigError.from_problems(self.errors)
        for warning in self.warnings:
            logger.warning("%s", warning)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a configuration, at which problems are recorded."""

    problems: Problems = field(repr=False)
    file: str | None = None
    path: str = ""

    def at(self, step: str | int) -> Location:
        """Return the location of a key or a list index inside this one."""
        if isinstance(step, int):
            return replace(self, path=f"{self.path}[{step}]")
        if not _PLAIN_STEP.fullmatch(step):
            return replace(self, path=f"{self.path}[{json.dumps(step, ensure_ascii=False)}]")
        return replace(self, path=f"{self.path}.{step}" if self.path else step)

    def error(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Record a problem that makes the configuration invalid."""
        self._record(self.problems.errors, code, message, suggestion)

    def warn(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Record something suspicious that can still be read."""
        self._record(self.problems.warnings, code, message, suggestion)

    def flag(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Warn in a file, which other programs may share; record an error in Python values."""
        (self.error if self.file is None else self.warn)(code, message, suggestion)

    def _record(self, recorded: list[Problem], code: str, message: str, hint: str | None) -> None:
        problem = Problem(
            file=self.file, path=self.path, code=code, message=message, suggestion=hint
        )
        # Two checks may report the same value, such as a URL.
        if problem not in recorded:
            recorded.append(problem)


class TemplateError(ValueError):
    """A `${` that starts no variable; the message does not quote the string."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable in a string."""

    source: Source
    """`env` and `input` are prefixes; without one, the name decides."""
    name: str
    default: tuple[str | Reference, ...] | None = None
    """The text after `:-`, used if the variable is unset or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """A value to prompt for, as in VS Code's `inputs`."""

    id: str
    description: str | None = None
    password: bool = False
    """Whether the input is hidden while it is typed."""
    default: str | None = None
    options: tuple[str, ...] = ()
    """The values to choose from; empty means free text."""

    @property
    def variable(self) -> str:
        """The environment variable that replaces the prompt."""
        return "PLAIT_INPUT_" + re.sub(r"[^A-Za-z0-9]", "_", self.id).upper()


Ask = Callable[[InputRequest], str]
"""Prompts a person for an input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The values that strings of one configuration may refer to."""

    environ: Mapping[str, str]
    folder: Path
    """`${workspaceFolder}`, to which relative paths also refer."""
    home: Path
    inputs: Mapping[str, InputRequest] = field(default_factory=dict[str, InputRequest])
    ask: Ask | None = None
    answers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Inputs entered so far, by ID."""
    secrets: set[str] = field(default_factory=set[str], repr=False)
    """Values that came from variables whose name looks secret."""
    templates: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """The strings that variables were replaced in, by what they became."""

    @classmethod
    def of(
        cls,
        environ: Mapping[str, str] | None,
        folder: Path = Path(),
        inputs: Mapping[str, InputRequest] | None = None,
        ask: Ask | None = None,
    ) -> Self:
        """Use these environment variables, by default those of the process."""
        known = os.environ if environ is None else environ
        home = home_of(known)
        return cls(environ=known, folder=folder, home=home, inputs=inputs or {}, ask=ask)

    def expand(self, text: str, location: Location) -> str | None:
        """Replace the variables of a string once; values are not expanded again.

        Returns `None` after recording problems at the location.
        """
        try:
            parts = parse_template(text)
        except TemplateError as error:
            hint = "write ${NAME}, ${env:NAME} or ${input:id}; a plain `${` is `$${`"
            location.error("bad_variable", str(error), hint)
            return None
        expanded = self._join(parts, location)
        if expanded is not None and expanded != text:
            self.templates[expanded] = text
        return expanded

    def _join(self, parts: tuple[str | Reference, ...], location: Location) -> str | None:
        values = [part if isinstance(part, str) else self._value(part, location) for part in parts]
        known = [value for value in values if value is not None]
        return "".join(known) if len(known) == len(values) else None

    def _value(self, reference: Reference, location: Location) -> str | None:
        name = reference.name
        if reference.source == "input":
            value = self._input(name)
        elif reference.source == "variable" and name in _BUILTINS:
            value = _BUILTINS[name](self)
        else:
            value = self.environ.get(name)
            if value and looks_secret(name):
                self.secrets.add(value)
        if reference.default is not None and not value:
            return self._join(reference.default, location)
        if value is None and reference.source == "input":
            hint = f"set {InputRequest(id=name).variable}, or run it on a terminal"
            location.error("unset_variable", f'the input "{name}" has no value', hint)
        elif value is None:
            written = f"env:{name}" if reference.source == "env" else name
            hint = f"set it, or add a default: ${{{written}:-…}}"
            location.error("unset_variable", f"the variable {name} is not set", hint)
        return value

    def _input(self, name: str) -> str | None:
        request = self.inputs.get(name) or InputRequest(id=name, password=looks_secret(name))
        value = self.environ.get(request.variable)
        if value is None and self.ask is not None:
            if name not in self.answers:
                self.answers[name] = self.ask(request)
            value = self.answers[name]
        if value is None:
            value = request.default
        if value and (request.password or looks_secret(name)):
            self.secrets.add(value)
        return value


_BUILTINS: dict[str, Callable[[Variables], str]] = {
    "workspaceFolder": lambda variables: str(variables.folder.absolute()),
    "workspaceFolderBasename": lambda variables: variables.folder.absolute().name,
    "userHome": lambda variables: str(variables.home),
    "pathSeparator": lambda _: os.sep,
    "/": lambda _: os.sep,
}


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder."""
    named = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(named) if named else Path.home()


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for what plait keeps of a user."""
    known = os.environ if environ is None else environ
    return Path(known.get("XDG_STATE_HOME") or home_of(known) / ".local" / "state") / "plait"


def parse_template(text: str) -> tuple[str | Reference, ...]:
    """Split a string into plain text and variables.

    Raises:
        TemplateError: A `${` is not closed, or what it encloses is not a variable.
    """
    parts: list[str | Reference] = []
    outer: list[tuple[Source, str, list[str | Reference]]] = []
    """The variables whose defaults are being read, each with the parts before it."""
    position = 0
    for mark in _MARK.finditer(text):
        parts.append(text[position : mark.start()])
        position = mark.end()
        if mark[0] == "$${":
            parts.append("${")
        elif mark[0] == "}" and outer:
            source, name, before = outer.pop()
            default = tuple(part for part in parts if part != "")
            parts = [*before, Reference(source, name, default)]
        elif mark[0] == "}":
            parts.append("}")
        elif mark["end"] is None:
            raise TemplateError("a `${` is not closed by `}`")
        else:
            source = "variable"
            prefix, colon, name = mark["head"].partition(":")
            if colon and name and "$" not in name and prefix in ("env", "input"):
                source = prefix
            elif _NAME.fullmatch(mark["head"]):
                name = mark["head"]
            else:
                where = mark.start() + 1
                raise TemplateError(f"the `${{…}}` at character {where} does not name a variable")
            if mark["end"] == "}":
                parts.append(Reference(source, name))
            elif len(outer) >= _MAX_NESTED_DEFAULTS:
                raise TemplateError(f"defaults are nested more than {_MAX_NESTED_DEFAULTS} deep")
            else:
                outer.append((source, name, parts))
                parts = []
    if outer:
        raise TemplateError("a `${` is not closed by `}`")
    return tuple(part for part in (*parts, text[position:]) if part != "")


class RejectedError(Exception):
    """A value cannot be used, and the reason has been recorded."""


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value from a configuration, its location, and how to read it."""

    value: object
    location: Location
    variables: Variables
    unit: Unit = "seconds"
    """The unit of a bare number if it is a duration."""

    def child(self, step: str | int, value: object) -> RawValue:
        """Return a value inside this one."""
        return replace(self, value=value, location=self.location.at(step))

    def reject(self, code: str, message: str, suggestion: str | None = None) -> NoReturn:
        """Record why the value cannot be used, and raise `RejectedError`."""
        self.location.error(code, message, suggestion)
        raise RejectedError

    def reject_type(self, expected: str, suggestion: str | None = None) -> NoReturn:
        """Record that the value has the wrong type, without quoting it."""
        self.reject("wrong_type", f"expected {expected}, found {describe(self.value)}", suggestion)

    def text(self, expected: str = "a string", suggestion: str | None = None) -> str:
        """Read a string or a path object, with its variables replaced."""
        value = self.value
        if isinstance(value, os.PathLike):
            value = os.fspath(cast("os.PathLike[str]", value))
        if not isinstance(value, str):
            self.reject_type(expected, suggestion)
        expanded = self._expand(value)
        if "\0" in expanded:
            self.reject("bad_value", "contains a NUL character, which no program accepts")
        return expanded

    def scalar(self) -> object:
        """Read the value; a string with variables may expand to a number or a boolean."""
        if not isinstance(self.value, str) or "${" not in self.value:
            return self.value
        expanded = self._expand(self.value)
        try:
            return json.loads(expanded)
        except (ValueError, RecursionError):
            return expanded

    def _expand(self, text: str) -> str:
        expanded = self.variables.expand(text, self.location)
        if expanded is None:
            raise RejectedError
        return expanded

    def path(self, text: str) -> Path:
        """Resolve a path against the configuration's folder; `~` is the user's home."""
        path = Path(text)
        if path.parts[:1] == ("~",):
            path = self.variables.home.joinpath(*path.parts[1:])
        return self.variables.folder / path

    def entries(
        self, expected: str = "an object", suggestion: str | None = None
    ) -> list[tuple[str, RawValue]]:
        """Return the keys and values of an object; an error is recorded for each invalid key."""
        entries = as_mapping(self.value)
        if entries is None:
            self.reject_type(expected, suggestion)
        for key in entries:
            if not isinstance(key, str):
                self.location.error("wrong_type", f"keys are strings, found {describe(key)}")
        return [
            (key, self.child(key, value)) for key, value in entries.items() if isinstance(key, str)
        ]

    def items(self, expected: str = "a list", suggestion: str | None = None) -> list[RawValue]:
        """Return the values of a list."""
        items = as_list(self.value)
        if items is None:
            self.reject_type(expected, suggestion)
        return [self.child(index, value) for index, value in enumerate(items)]

    def read_entries(self, read: Callable[[RawValue], T | Unset], expected: str) -> dict[str, T]:
        """Read each value of an object, leaving out rejected and unset ones."""
        values: dict[str, T] = {}
        for key, entry in self.entries(expected):
            with suppress(RejectedError):
                value = read(entry)
                if value is not UNSET:
                    values[key] = value
        return values

    def read_items(
        self, read: Callable[[RawValue], T], expected: str, suggestion: str | None = None
    ) -> tuple[T, ...]:
        """Read each value of a list, leaving out rejected ones."""
        values: list[T] = []
        for item in self.items(expected, suggestion):
            with suppress(RejectedError):
                values.append(read(item))
        return tuple(values)


Reader = Callable[[RawValue], object]
"""Checks a value and returns what to store; `UNSET` keeps the default."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key: its name, its reader, and the field that takes the value."""

    name: str
    """In snake_case; camelCase is accepted too."""
    read: Reader
    field: str = ""
    """The field that takes the value, by default the name; `timeouts.x` is one of `timeouts`."""
    aliases: tuple[str, ...] = ()
    unit: Unit | None = None
    """The unit of a number; without one, the spelling decides (see `unit_of`)."""
    takes_null: bool = False
    """Whether null means something other than the default."""

    @property
    def target(self) -> str:
        """The field that takes the value."""
        return self.field or self.name

    @property
    def spellings(self) -> frozenset[str]:
        """All spellings of the key."""
        names = (self.name, *self.aliases)
        return frozenset(names) | {camel_case(name) for name in names}


def keys_with(read: Reader, *names: str) -> Iterable[Key]:
    """Create keys with the same reader."""
    return (Key(name, read) for name in names)


class KeyTable:
    """The keys that an object may have."""

    def __init__(
        self,
        keys: Iterable[Key],
        *,
        noun: str,
        ignored: Iterable[str] = (),
        misplaced: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        """Index the keys by spelling.

        `noun` names the object in messages, `ignored` keys belong to other programs, and
        `misplaced` keys are known but have no meaning here, each with the reason. If `strict`, an
        unknown key is an error in files too.
        """
        self.by_spelling = {spelling: key for key in keys for spelling in key.spellings}
        self.noun = noun
        self.ignored = frozenset(ignored)
        self.misplaced = misplaced or {}
        self.strict = strict

    @property
    def spellings(self) -> frozenset[str]:
        """All spellings of all keys."""
        return frozenset(self.by_spelling)


def read_table(
    raw: RawValue,
    table: KeyTable,
    expected: str = "an object",
    suggestion: str | None = None,
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Read the values of an object by target field, leaving out rejected ones.

    A value that is not an object is rejected with `expected` and `suggestion`; with `whole`, so is
    an object of which one value is rejected.
    """
    known = len(raw.location.problems.errors)
    values: dict[str, Any] = {}
    written: dict[str, str] = {}
    for spelling, entry in raw.entries(expected, suggestion):
        key = table.by_spelling.get(spelling)
        if spelling in table.ignored:
            continue
        if key is None and spelling in table.misplaced:
            if entry.value:
                entry.location.flag("misplaced_key", table.misplaced[spelling], "remove it")
        elif key is None:
            message, hint = (
                f"is not a key of a {table.noun}",
                did_you_mean(spelling, table.by_spelling),
            )
            if table.strict:
                hint = hint or f"known are {', '.join(sorted(table.by_spelling))}"
                entry.location.error("unknown_key", message, hint)
            else:
                entry.location.flag("unknown_key", message, hint)
        elif key.target in written:
            message = f'sets the same as "{written[key.target]}"'
            entry.location.error("duplicate_key", message, "keep one of them")
        elif entry.value is not None or key.takes_null:
            written[key.target] = spelling
            with suppress(RejectedError):
                value = key.read(replace(entry, unit=key.unit or unit_of(spelling)))
                if value is not UNSET:
                    values[key.target] = value
    if whole and len(raw.location.problems.errors) > known:
        raise RejectedError
    return values


def unit_of(spelling: str) -> Unit:
    """Return the unit of a bare number: milliseconds under camelCase keys, else seconds."""
    return "milliseconds" if is_camel_case(spelling) else "seconds"


def camel_case(name: str) -> str:
    """Spell a snake_case name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def as_mapping(value: object) -> Mapping[object, object] | None:
    """Return the value if it is an object with keys."""
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> Sequence[object] | None:
    """Return the value if it is a list, a tuple or a set."""
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[object]", value), key=str)
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def describe(value: object) -> str:
    """Name the type of a value in words that fit JSON and Python, without showing the value."""
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return "a number"
        case str():
            return "a string" if value else "an empty string"
        case timedelta():
            return "a timedelta"
        case Mapping():
            return "an object"
        case list() | tuple() | set() | frozenset():
            return "a list"
        case type():
            return f"the class {value.__name__}"
        case _:
            return f"a {type(value).__name__} object"
