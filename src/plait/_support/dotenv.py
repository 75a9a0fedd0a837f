"""Parses `.env` files."""

from __future__ import annotations

import re

_BLANK = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_ASSIGNMENT = re.compile(
    r"""
    [ \t]* (?:export[ \t]+)? (?P<name>[A-Za-z_][\w.-]*) [ \t]* = [ \t]*
    (?:
        "(?P<double>(?:\\.|[^"\\])*)" [ \t]* (?:\#[^\n]*)?
      | '(?P<single>[^']*)' [ \t]* (?:\#[^\n]*)?
      | (?P<plain>(?!["'])[^\n]*?) (?:[ \t]+\#[^\n]*)? [ \t]*
    )
    (?:\n|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class DotenvError(ValueError):
    """A line of a `.env` file cannot be read; the text names the line without quoting it."""


def parse_dotenv(text: str) -> dict[str, str]:
    """Parse the variables of a `.env` file; nothing is expanded in values."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        if blank := _BLANK.match(text, position):
            position = blank.end()
        elif assignment := _ASSIGNMENT.match(text, position):
            value = assignment["plain"] if assignment["single"] is None else assignment["single"]
            if (quoted := assignment["double"]) is not None:
                value = re.sub(
                    r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), quoted, flags=re.S
                )
            values[assignment["name"]] = value
            position = assignment.end()
        else:
            line = text.count("\n", 0, position) + 1
            raise DotenvError(f"line {line} is not NAME=value")
    return values
