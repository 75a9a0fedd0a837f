"""Sanitizes text of servers: invisible characters, text direction and terminal controls.

Invisible characters are removed: zero-width characters, tags, rows of marks of direction, variation
selectors on characters without variants. Active ones are escaped: control characters, direction
overrides, lone surrogates. Joiners, marks and selectors are kept where scripts and emoji need them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

V = TypeVar("V")

_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_HALVES = r"\ud800-\udfff\ufffe\uffff"
_DIRECTIONS = r"\u202a-\u202e\u2066-\u2069"
_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINERS = r"\u200c\u200d"
_MARKS = r"\u200e\u200f"
"""Marks of direction; a single one has a use, a row of them can spell anything."""
_UNSEEN = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f"
    r"\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)

_SUSPECT = re.compile(f"[{_CONTROLS}{_HALVES}{_DIRECTIONS}{_SELECTORS}{_JOINERS}{_UNSEEN}]")
_SUSPECT_OR_ROW = re.compile(f"{_SUSPECT.pattern}|[{_MARKS}]{{2,}}")
_SUSPECT_OR_MARK = re.compile(f"{_SUSPECT.pattern}|[{_MARKS}]")
_VISIBLE = re.compile(f"[^{_DIRECTIONS}{_SELECTORS}{_JOINERS}{_UNSEEN}{_MARKS}\n]")
_ASCII_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r"))
_PLAIN_ASCII = bytes(set(range(128)) - set(_ASCII_CONTROLS))
_SUSPECT_BYTES = {
    first: re.compile(b"%b(?=%b)" % (first, rest))
    for first, rest in {
        b"\xc2": rb"[\x80-\x9f\xad]",
        b"\xcd": rb"\x8f",
        b"\xe1": rb"\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f]",
        b"\xe2": (
            rb"\x80[\x8b-\x8d\xaa-\xae]|\x81[\xa0-\xaf]"
            rb"|\x80[\x8e\x8f]\xe2\x80[\x8e\x8f]"  # a row of marks
        ),
        b"\xe3": rb"\x85\xa4",
        b"\xed": rb"[\xa0-\xbf]",
        b"\xef": rb"\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb0-\xbb\xbe\xbf]",
        b"\xf0": rb"\x9b\xb2[\xa0-\xa3]|\x9d\x85[\xb3-\xba]",
        b"\xf3": rb"\xa0",
    }.items()
}
"""Those of them that are not ASCII, in UTF-8, by their first byte.

One pattern for all of them would take ten times as long: a search for one byte is very fast.
"""
_SHORT_ESCAPES = re.compile(rb"\\[bf]")
_ESCAPES = re.compile(rb"\\u[0-9a-fA-F]{4}")
_ACTIVE_MARKDOWN = re.compile(r"[\\`<&\[\]!]")
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
    f"|(?P<marks>[{_MARKS}]{{2,}})"
)

_OPENING = {
    **dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c"),
    **dict.fromkeys("\u2066\u2067\u2068", "\u2069"),
}
"""The closing character of each change of direction."""

_OVERRIDES = frozenset("\u202d\u202e")
_KEYCAPS = frozenset("0123456789#*")
MAX_PASSES = 8
"""What is taken out can bring together what was apart; texts that go on so lose all of it."""
_STRIPPED = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    f"|[{_CONTROLS}{_HALVES}{_DIRECTIONS}{_SELECTORS}{_JOINERS}{_UNSEEN}{_MARKS}]+"
)
_STYLES = frozenset("\ufe0e\ufe0f")
"""Emoji as text, and as picture."""
_STYLED = frozenset({"So", "Sm", "Po", "Pd"})
"""The categories of emoji; one more is the letter U+2139."""
_VARIED = frozenset("\ufe00\ufe01\ufe02")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WITH_VARIANTS = re.compile("[\u1000-\u109f\ua840-\ua877\uaa60-\uaa7f]")
"""Letters of Myanmar and Phags-pa."""


@dataclass(slots=True)
class Care:
    """How much of the texts of one result is sanitized with care: seconds would be too long."""

    inspect_chars: int = 2_000
    """How many characters are looked at one by one; of a text with more, none is kept."""
    scan_chars: int = 200_000
    """How many characters of such texts are searched at all; no model reads more of them."""


def sanitize_text(text: str, care: Care | None = None) -> str:
    """Return the text as it can be shown to a model; most texts are returned unchanged.

    `care` is that of all texts which are sanitized together.
    """
    if not may_need_sanitizing(text):
        return text
    care = care or Care()
    found = sum(1 for _ in islice(_SUSPECT_OR_ROW.finditer(text), care.inspect_chars + 1))
    care.inspect_chars -= min(found, care.inspect_chars)
    if found and not care.inspect_chars:
        return _without_suspects(text, care)
    for _ in range(MAX_PASSES):
        if _SUSPECT_OR_ROW.search(text) is None:
            return text
        kept_directions = frozenset(_balanced(text))
        replaced = partial(_replacement, kept_directions=kept_directions)
        before, text = text, _PIECE.sub(replaced, text)
        if text == before:
            return text
    return _SUSPECT_OR_ROW.sub("", text)


def _without_suspects(text: str, care: Care) -> str:
    """Remove every suspect character, and say what is not even searched."""
    kept = _STRIPPED.sub("", text[: care.scan_chars])
    left_out = len(text) - care.scan_chars
    care.scan_chars = max(0, -left_out)
    if left_out <= 0:
        return kept
    note = f"[{left_out:,} characters are left out: too many are invisible or control characters]"
    return f"{kept}\n{note}" if kept else note


def may_need_sanitizing(text: str) -> bool:
    """Return false, fast, for a text that is surely clean; true means perhaps."""
    data = text.encode("utf-8", "surrogatepass")
    if not text.isascii():
        data = data.translate(None, _PLAIN_ASCII)
        if _has_suspect_bytes(data):
            return True
    return len(data.translate(None, _ASCII_CONTROLS)) != len(data)


def _has_suspect_bytes(data: bytes) -> bool:
    return any(first in data and pattern.search(data) for first, pattern in _SUSPECT_BYTES.items())


def is_clean_json(value: object) -> bool:
    """Return quickly whether a JSON value surely needs no sanitizing; `False` means perhaps."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return is_clean_body(text.encode("utf-8", "surrogatepass"))


def is_clean_body(body: bytes) -> bool:
    """Return quickly whether the texts of valid JSON in UTF-8 surely need no sanitizing."""
    if b"\x7f" in body or (not body.isascii() and _has_suspect_bytes(body)):
        return False
    if b"\\" not in body:
        return True
    if _SHORT_ESCAPES.search(body):
        return False
    escapes = b"".join(_ESCAPES.findall(body))
    return _SUSPECT_OR_MARK.search(json.loads(b'"%b"' % escapes)) is None


def escaped(text: str) -> str:
    """Escape all suspect characters as in JSON; nothing is removed."""
    return _SUSPECT_OR_ROW.sub(lambda found: "".join(map(_escape, found[0])), text)


def escaped_for_markdown(text: str) -> str:
    """Escape what would be an image, a link, HTML or code; the text itself is shown."""
    return _ACTIVE_MARKDOWN.sub(r"\\\g<0>", escaped(text))


def sanitize_for_terminal(text: str) -> str:
    """Make any text safe for a terminal; joined emoji stay whole."""
    return _ON_TERMINALS.sub(_terminal_form, text)


def _terminal_form(found: re.Match[str]) -> str:
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
    return _takes_selector(before, characters)


def _takes_selector(base: str, selector: str) -> bool:
    """Return whether Unicode has variants of a character; on any other, selectors hide text."""
    if selector in _STYLES:
        is_styled = not base.isascii() and unicodedata.category(base) in _STYLED
        return is_styled or base in _KEYCAPS or base == "\u2139"
    if selector in _VARIED:
        is_symbol = not base.isascii() and unicodedata.category(base) in {"Sm", "Po"}
        return is_symbol or bool(_HAN.match(base) or _WITH_VARIANTS.match(base))
    return selector >= "\U000e0100" and _HAN.match(base) is not None


def _balanced(text: str) -> Iterator[int]:
    """Yield the positions of direction marks that are balanced in a line and override nothing.

    A pair with nothing to see in it is not among them.
    """
    open_now: list[tuple[str, int, int]] = []
    filled, end = 0, 0
    for found in re.finditer(f"[{_DIRECTIONS}\n]", text):
        character = found[0]
        filled += _VISIBLE.search(text, end, found.start()) is not None
        end = found.end()
        if character == "\n":
            open_now.clear()
        elif character in _OPENING:
            open_now.append((character, found.start(), filled))
        elif open_now and _OPENING[open_now[-1][0]] == character:
            opened, start, filled_before = open_now.pop()
            if opened not in _OVERRIDES and filled > filled_before:
                yield from (start, found.start())


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def well_formed(text: str) -> str:
    """Return a text that can be encoded: surrogate pairs are joined, lone ones replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_data(value: V) -> V:
    """Return JSON data in which every text can be encoded."""
    return with_texts(value, well_formed)


def with_texts(value: V, change: Callable[[str], str]) -> V:
    """Return JSON data in which a function has replaced every text, also those of keys."""

    def changed(value: Any) -> Any:
        match value:
            case str():
                return change(value)
            case Mapping():
                items = cast("Mapping[Any, Any]", value).items()
                return {changed(key): changed(inner) for key, inner in items}
            case list() | tuple():
                return [changed(inner) for inner in cast("list[Any]", value)]
            case _:
                return value

    return cast("V", changed(value))
