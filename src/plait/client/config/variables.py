"""Variables in the strings of a configuration: their syntax and their values.

`${NAME}`, `${NAME:-default}`, `${env:NAME}` and `${input:id}`; `$${` is a plain `${`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from plait._support.redact import looks_secret

if TYPE_CHECKING:
    from plait.client.config.raw_value import Location

Source = Literal["variable", "env", "input"]

_MARK = re.compile(r"\$\$\{|\$\{|\}")
_HEAD = re.compile(r"((?:(?!:-)[^}])*)(:-|\})")
_NAME = re.compile(r"[A-Za-z_]\w*|/", re.ASCII)
_DEEPEST = 8
"""Maximum nesting of defaults inside defaults."""


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
        value = self._look_up(reference)
        if reference.default is not None and not value:
            return self._join(reference.default, location)
        if value is None:
            message, suggestion = _unset(reference)
            location.error("unset_variable", message, suggestion)
        return value

    def _look_up(self, reference: Reference) -> str | None:
        if reference.source == "input":
            return self._input(reference.name)
        builtin = self._builtin(reference.name) if reference.source == "variable" else None
        if builtin is not None:
            return builtin
        value = self.environ.get(reference.name)
        if value and looks_secret(reference.name):
            self.secrets.add(value)
        return value

    def _builtin(self, name: str) -> str | None:
        values = {
            "workspaceFolder": str(self.folder.absolute()),
            "workspaceFolderBasename": self.folder.absolute().name,
            "userHome": str(self.home),
        }
        return os.sep if name in ("pathSeparator", "/") else values.get(name)

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


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder."""
    named = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(named) if named else Path.home()


def _unset(reference: Reference) -> tuple[str, str]:
    name = reference.name
    if reference.source == "input":
        variable = InputRequest(id=name).variable
        return f'the input "{name}" has no value', f"set {variable}, or run it on a terminal"
    written = f"env:{name}" if reference.source == "env" else name
    return f"the variable {name} is not set", f"set it, or add a default: ${{{written}:-…}}"


def parse_template(text: str) -> tuple[str | Reference, ...]:
    """Split a string into plain text and variables.

    Raises:
        TemplateError: A `${` is not closed, or what it encloses is not a variable.
    """
    parts, _ = _parse(text, 0, depth=0)
    return parts


def _parse(text: str, start: int, *, depth: int) -> tuple[tuple[str | Reference, ...], int]:
    """Read up to the end, or inside a default up to its closing brace; return parts and end."""
    parts: list[str | Reference] = []
    position = start
    while mark := _MARK.search(text, position):
        if mark[0] == "}" and depth == 0:
            parts.append(text[position : mark.end()])
            position = mark.end()
            continue
        parts.append(text[position : mark.start()])
        if mark[0] == "}":
            return _joined(parts), mark.end()
        if mark[0] == "$${":
            parts.append("${")
            position = mark.end()
        else:
            reference, position = _parse_reference(text, mark.end(), depth=depth)
            parts.append(reference)
    if depth:
        raise TemplateError("a `${` is not closed by `}`")
    parts.append(text[position:])
    return _joined(parts), len(text)


def _parse_reference(text: str, start: int, *, depth: int) -> tuple[Reference, int]:
    head = _HEAD.match(text, start)
    if head is None:
        raise TemplateError("a `${` is not closed by `}`")
    if depth >= _DEEPEST:
        raise TemplateError(f"defaults are nested more than {_DEEPEST} deep")
    source, name = _source_and_name(head[1], start)
    if head[2] == "}":
        return Reference(source, name), head.end()
    default, end = _parse(text, head.end(), depth=depth + 1)
    return Reference(source, name, default), end


def _source_and_name(head: str, start: int) -> tuple[Source, str]:
    prefix, colon, name = head.partition(":")
    if colon and name and "$" not in name and prefix in ("env", "input"):
        return prefix, name
    if not _NAME.fullmatch(head):
        raise TemplateError(f"the `${{…}}` at character {start - 1} does not name a variable")
    return "variable", head


def _joined(parts: list[str | Reference]) -> tuple[str | Reference, ...]:
    return tuple(part for part in parts if part != "")
