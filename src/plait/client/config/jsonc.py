"""JSON as editors write it: with comments, trailing commas and a byte order mark."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_PIECE = re.compile(r'"(?:\\.|[^"\\])*"?|[{}\[\],:]|\s+|[^\s{}\[\],:"]+')
_VALUE_FOLLOWS = re.compile(r'\s*:\s*["{\[\w-]')
_LONGEST_LINE = 80
"""The part of an invalid line that is shown."""

_REASONS = {
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing before this place",
    "Expecting ':' delimiter": "a colon is missing after the key",
    "Expecting value": "a value is missing here, or the double quotes of a string",
    "Unterminated string starting at": "this string has no closing double quote",
    "Invalid control character at": "this string has no closing double quote on its line",
    "Invalid \\": "a backslash in a string must be written twice",
    "Extra data": "there is something after the end of the object",
}


class JsonSyntaxError(ValueError):
    """The text is not JSON: where, why, and the line with its values hidden."""

    def __init__(self, line: int, column: int, reason: str, shown: str = "") -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line = line
        self.column = column
        self.reason = reason
        self.shown = shown
        """The line, with every string value replaced by `…`, because it may be a secret."""


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """The content of a JSON text."""

    value: object
    repeated_keys: tuple[str, ...] = ()
    """Keys that are repeated in one object, of which the last one counts."""


def parse_jsonc(text: str) -> JsonDocument:
    """Read JSON with comments and trailing commas.

    Raises:
        JsonSyntaxError: The text is not JSON.
    """
    repeated: list[str] = []

    def object_from(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names = [name for name, _ in pairs]
            repeated.extend(name for name in entries if names.count(name) > 1)
        return entries

    # Blanks keep the positions of errors.
    plain = _STRING_OR_COMMENT.sub(_blank_unless_string, text)
    plain = _STRING_OR_LAST_COMMA.sub(_blank_unless_string, plain)
    try:
        value = json.loads(plain, object_pairs_hook=object_from)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    except (RecursionError, ValueError):
        reason = "the objects are nested too deeply, or a number is too long"
        raise JsonSyntaxError(1, 1, reason) from None
    return JsonDocument(value, tuple(repeated))


def decode_text(data: bytes) -> str:
    """Decode a file in any encoding that JSON allows, without its byte order mark.

    Raises:
        UnicodeDecodeError: The encoding is another one.
    """
    return data.decode(json.detect_encoding(data)).removeprefix("\ufeff")


def _blank_unless_string(match: re.Match[str]) -> str:
    text = match[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _syntax_error(text: str, error: json.JSONDecodeError) -> JsonSyntaxError:
    lines = text.split("\n")
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    if error.pos >= len(text.rstrip()):
        reason = "the text ends before its brackets are closed"
    else:
        known = (reason for start, reason in _REASONS.items() if error.msg.startswith(start))
        reason = next(known, error.msg)
    return JsonSyntaxError(error.lineno, error.colno, reason, _hide_values(line))


def _hide_values(line: str) -> str:
    """Show the keys and brackets of a line; hide everything that could be a secret value."""
    line = line.strip()
    shown: list[str] = []
    before = "{"
    for piece in _PIECE.finditer(line):
        text = piece[0]
        is_key = before in "{," and _VALUE_FOLLOWS.match(line, piece.end()) is not None
        if text in "{}[],:" or text.isspace() or text in ("true", "false", "null"):
            shown.append(text)
        elif text.startswith('"'):
            shown.append(text if is_key else '"…"')
        else:
            shown.append("…")
        before = before if text.isspace() else text
    whole = re.sub(r'(?:"…"|…){2,}', "…", "".join(shown))
    return whole if len(whole) <= _LONGEST_LINE else f"{whole[:_LONGEST_LINE]}…"
