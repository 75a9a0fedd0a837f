"""The syntax of variables in strings: `${NAME}`, `${NAME:-default}`, and `$${` for a plain `${`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Source = Literal["variable", "env", "input"]

_MARK = re.compile(r"\$\$\{|\$\{|\}")
_HEAD = re.compile(r"((?:(?!:-)[^}])*)(:-|\})")
_NAME = re.compile(r"[A-Za-z_]\w*|/", re.ASCII)

_DEEPEST = 8
"""Defaults inside defaults; deeper ones are a slip, or an attack on the stack."""


class TemplateError(ValueError):
    """A `${` that starts no variable; the text never quotes the string, which may be secret."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable in a string."""

    source: Source
    """`env` and `input` are written as a prefix; without one the name decides."""

    name: str

    default: tuple[str | Reference, ...] | None = None
    """What stands behind `:-`, to be used when the variable is unset or empty."""


def parse_template(text: str) -> tuple[str | Reference, ...]:
    """Split a string into plain text and variables.

    Raises:
        TemplateError: A `${` is not closed, or what it encloses is not a variable.
    """
    parts, _ = _parse(text, 0, depth=0)
    return parts


def escape_template(text: str) -> str:
    """Write a string so that it is read back as it is, without variables."""
    return text.replace("${", "$${")


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
    if colon and name and "$" not in name:
        if prefix == "env":
            return "env", name
        if prefix == "input":
            return "input", name
    if not _NAME.fullmatch(head):
        raise TemplateError(f"the `${{…}}` at character {start - 1} does not name a variable")
    return "variable", head


def _joined(parts: list[str | Reference]) -> tuple[str | Reference, ...]:
    return tuple(part for part in parts if part != "")
