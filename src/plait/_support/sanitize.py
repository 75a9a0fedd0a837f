"""Sanitizes text of servers: invisible characters, text direction and terminal controls.

Invisible characters are removed: zero-width characters, tags, runs of variation selectors. Active
ones are escaped: control characters, direction overrides, lone surrogates. Joiners, marks and
selectors are kept where scripts and emoji need them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_HALVES = r"\ud800-\udfff\ufffe\uffff"
_DIRECTIONS = r"\u202a-\u202e\u2066-\u2069"
_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINERS = r"\u200c\u200d"
_UNSEEN = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f"
    r"\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)

_SUSPECT = re.compile(f"[{_CONTROLS}{_HALVES}{_DIRECTIONS}{_SELECTORS}{_JOINERS}{_UNSEEN}]")
_ESCAPED = re.compile(r"\\[ubf]")
_ON_TERMINALS = re.compile(f"[{_CONTROLS}\r{_HALVES}{_DIRECTIONS}{_SELECTORS}{_JOINERS}{_UNSEEN}]")

_REGIONS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in region)
    for region in ("gbeng", "gbsct", "gbwls")
)
_FLAG = f"\U0001f3f4(?:{_REGIONS})\U000e007f"
"""The flags of England, Scotland and Wales: the only emoji that are written with tags."""

_PIECE = re.compile(
    f"(?P<flag>{_FLAG})"
    r"|(?P<terminal>\x1b\[[0-?]*[ -/]*[@-~])"
    f"|(?P<effect>[{_CONTROLS}{_HALVES}])"
    f"|(?P<direction>[{_DIRECTIONS}])"
    f"|(?P<unseen>[{_UNSEEN}]+)"
    f"|(?P<joiner>[{_JOINERS}]+)"
    f"|(?P<selector>[{_SELECTORS}]+)"
)

_OPENING = {
    **dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c"),
    **dict.fromkeys("\u2066\u2067\u2068", "\u2069"),
}
"""The closing character of each change of direction."""

_OVERRIDES = frozenset("\u202d\u202e")
_KEYCAPS = frozenset("0123456789#*")


def sanitize_text(text: str) -> str:
    """Return the text as it can be shown to a model; most texts are returned unchanged."""
    if _SUSPECT.search(text) is None:
        return text
    kept_directions = frozenset(_balanced(text))
    return _PIECE.sub(lambda found: _replacement(found, kept_directions), text)


def is_clean_json(value: object) -> bool:
    """Return quickly whether a JSON value surely needs no sanitizing; `False` means perhaps."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return False
    # JSON writes control characters as escapes.
    return _SUSPECT.search(text) is None and _ESCAPED.search(text) is None


def is_clean(text: str) -> bool:
    """Return whether sanitizing leaves a text unchanged."""
    return sanitize_text(text) == text


def escaped(text: str) -> str:
    """Escape all suspect characters as in JSON; nothing is removed."""
    return _SUSPECT.sub(lambda found: _escape(found[0]), text)


def sanitize_for_terminal(text: str) -> str:
    """Make any text safe for a terminal; joined emoji stay whole."""
    return _ON_TERMINALS.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    if re.match(f"[{_JOINERS}{_SELECTORS}]", character) and _belongs(found, character):
        return character
    return ascii(character)[1:-1]


def _replacement(found: re.Match[str], kept_directions: frozenset[int]) -> str:
    match found.lastgroup:
        case "flag":
            return found[0]
        case "effect":
            return _escape(found[0])
        case "direction":
            return found[0] if found.start() in kept_directions else _escape(found[0])
        case "joiner" | "selector":
            return found[0] if _belongs(found, found[0]) else ""
        case _:
            return ""


def _belongs(found: re.Match[str], characters: str) -> bool:
    """Return whether a joiner or selector is used as intended; runs of them hide text."""
    if len(characters) > 1:
        return False
    before = found.string[found.start() - 1 : found.start()]
    if not before or before.isspace():
        return False
    if characters in "\u200c\u200d":
        after = found.string[found.end() : found.end() + 1]
        is_base = re.match(f"[{_SELECTORS}]", before) or _SUSPECT.match(before) is None
        joins = bool(after) and not after.isascii() and _SUSPECT.match(after) is None
        return bool(is_base) and not before.isascii() and joins
    return _SUSPECT.match(before) is None and (not before.isascii() or before in _KEYCAPS)


def _balanced(text: str) -> Iterator[int]:
    """Yield the positions of direction marks that are balanced in a line and override nothing."""
    open_now: list[tuple[str, int]] = []
    for found in re.finditer(f"[{_DIRECTIONS}\n]", text):
        character = found[0]
        if character == "\n":
            open_now.clear()
        elif character in _OPENING:
            open_now.append((character, found.start()))
        elif open_now and _OPENING[open_now[-1][0]] == character:
            opened, start = open_now.pop()
            if opened not in _OVERRIDES:
                yield from (start, found.start())


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
