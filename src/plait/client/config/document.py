"""Finding and loading the source of a configuration: a file, or a Python value."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from plait._support.threads import off_loop
from plait.client.config.raw_value import Location, Problems, as_mapping, describe
from plait.client.config.urls import public_url, url_fault

_EDITOR_FOLDERS = frozenset({".vscode", ".cursor"})
"""Folders in a workspace in which editors keep their files."""

# What is not closed matches too: to fail there and start again later would take quadratic time.
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"?|,(?=\s*[}\]])')
_WHOLE_COMMENT = re.compile(r"/\*.*\*/", re.DOTALL)
_PIECE = re.compile(r'"(?:\\.|[^"\\])*"?|[{}\[\],:]|\s+|[^\s{}\[\],:"]+')
_VALUE_FOLLOWS = re.compile(r'\s*:\s*["{\[\w-]')
_MAX_LINE_CHARACTERS = 80
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


@dataclass(frozen=True, slots=True)
class Document:
    """A loaded configuration that is not checked yet."""

    value: object
    location: Location
    folder: Path
    """The value of `${workspaceFolder}`."""


def load_document(source: object, problems: Problems, base: Path | None = None) -> Document | None:
    """Load a file by its path, or wrap a Python value; problems are recorded."""
    location = Location(problems)
    if not isinstance(source, (str, os.PathLike)):
        return Document(source, location, base or Path())
    text = os.fspath(cast("str | os.PathLike[str]", source))
    if text.lstrip().startswith("{"):
        hint = "a string is the path of a file; pass the object itself"
        location.error("wrong_type", "expected a path, found JSON text", hint)
    elif url_fault(text) is None:
        hint = f'write {{"name": {{"url": "{public_url(text)}"}}}}'
        location.error("wrong_type", "expected a path, found a URL", hint)
    elif not text.strip() or "\0" in text:
        location.error("wrong_type", "expected a path, found a string that cannot be one")
    else:
        return _load_path(text, problems, base)
    return None


@off_loop
def _load_path(text: str, problems: Problems, base: Path | None) -> Document | None:
    path = user_path(text)
    location = Location(problems, file=str(path))
    value = _load_file(path, location)
    return None if value is None else Document(value, location, base or workspace_of(path))


def user_path(text: str) -> Path:
    """Return a path, with `~` replaced by the user's home, but not `~name`."""
    path = Path(text)
    return path.expanduser() if path.parts[:1] == ("~",) else path


def workspace_of(path: Path) -> Path:
    """Return the workspace folder of a configuration file."""
    folder = path.resolve().parent
    return folder.parent if folder.name in _EDITOR_FOLDERS else folder


def read_json_file(path: Path, location: Location) -> dict[str, object] | None:
    """Read a JSON file that holds an object; problems are recorded."""
    value = _load_file(path, location)
    entries = as_mapping(value)
    if value is not None and entries is None:
        location.error("wrong_type", f"expected an object, found {describe(value)}")
    return None if entries is None else {str(key): entry for key, entry in entries.items()}


def _load_file(path: Path, location: Location) -> object:
    text = load_text(path, location)
    if text is None:
        return None
    return parse_json(text, location, start='{"mcpServers": {"name": {"command": …}}}')


def load_text(path: Path, location: Location) -> str | None:
    """Read a file as text; problems are recorded."""
    try:
        return decode_text(path.read_bytes())
    except FileNotFoundError:
        folder = path.parent
        hint = None if folder.is_dir() else f"there is no folder {folder} either"
        if hint is None:
            names = [one.name for one in folder.iterdir() if one.suffix in (".json", ".jsonc")]
            close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
            near = close or sorted(names)[:3]
            hint = f"there is {', '.join(near)}" if near else None
        location.error("file_missing", "there is no such file", hint)
    except IsADirectoryError:
        inside = [path / name for name in ("mcp.json", ".mcp.json") if (path / name).is_file()]
        hint = f"did you mean {inside[0]}?" if inside else None
        location.error("file_unreadable", "is a folder, not a file", hint)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        location.error("file_unreadable", f"cannot be read: {reason}")
    except UnicodeDecodeError:
        location.error("file_unreadable", "is not text in UTF-8", "save it as UTF-8")
    return None


def parse_json(text: str, location: Location, *, start: str, strict: bool = False) -> object:
    """Parse JSON that is not empty; problems are recorded, and `start` is an example.

    If `strict`, a repeated key is an error.
    """
    if not text.strip():
        location.error("empty_file", "the file is empty", f"start with {start}")
        return None
    try:
        document = parse_jsonc(text)
    except JsonSyntaxError as error:
        at = Location(location.problems, file=f"{location.file}:{error.line}:{error.column}")
        shown = f": {error.shown}" if error.shown else ""
        at.error("json_syntax", f"not valid JSON, {error.reason}{shown}")
        return None
    if document.value is None:
        location.error("wrong_type", "expected an object, found null")
    for name in document.repeated_keys:
        repeated = f'the key "{name}" is repeated in one object'
        if strict:
            location.error("duplicate_key", repeated)
        else:
            location.warn("duplicate_key", f"{repeated}; the last counts")
    return document.value


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
    """Read JSON with comments and trailing commas."""
    repeated: list[str] = []

    def object_from(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            times = Counter(name for name, _ in pairs)
            repeated.extend(name for name in entries if times[name] > 1)
        return entries

    def blank_unless_string(match: re.Match[str]) -> str:
        found = match[0]
        is_open = found.startswith("/*") and not _WHOLE_COMMENT.fullmatch(found)
        return found if found.startswith('"') or is_open else re.sub(r"[^\n]", " ", found)

    # Blanks keep the positions of errors.
    plain = _STRING_OR_COMMENT.sub(blank_unless_string, text)
    plain = _STRING_OR_LAST_COMMA.sub(blank_unless_string, plain)
    try:
        value = json.loads(plain, object_pairs_hook=object_from)
    except json.JSONDecodeError as error:
        lines = text.split("\n")
        line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
        known = (reason for start, reason in _REASONS.items() if error.msg.startswith(start))
        reason = next(known, error.msg)
        if error.pos >= len(text.rstrip()):
            reason = "the text ends before its brackets are closed"
        raise JsonSyntaxError(error.lineno, error.colno, reason, _hide_values(line)) from None
    except (RecursionError, ValueError):
        reason = "the objects are nested too deeply, or a number is too long"
        raise JsonSyntaxError(1, 1, reason) from None
    return JsonDocument(value, tuple(repeated))


def decode_text(data: bytes) -> str:
    """Decode a file in any encoding that JSON allows, without its byte order mark."""
    return data.decode(json.detect_encoding(data)).removeprefix("\ufeff")


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
    return whole if len(whole) <= _MAX_LINE_CHARACTERS else f"{whole[:_MAX_LINE_CHARACTERS]}…"
