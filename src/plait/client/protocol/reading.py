"""Reads JSON-RPC messages: the envelope at once, the result where it is used.

Every bound on the content of one message is here: its size in memory, its values, its levels.
msgspec reads envelopes and small answers, and finds the entries of large containers. pydantic-core
decodes everything else: it takes `NaN`, which servers send, and refuses what is nested too deeply.
"""

from __future__ import annotations

import re
import secrets
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeGuard, cast

from msgspec import UNSET, MsgspecError, Raw, Struct, UnsetType
from msgspec.json import Decoder
from pydantic_core import from_json

from plait._support.threads import collection_paused
from plait.client.config.budgets import DEFAULT_LIMITS, IncomingLimits

RequestId = str | int
Kind = Literal["request", "notification", "response", "error"]

LARGE_BYTES: Final = 1024 * 1024
"""A message of this size is read in a thread, since reading it would stall the event loop."""
LONG_BYTES: Final = 64 * 1024
"""Decoding more than this may start the garbage collector several times, for nothing."""
NESTED_NOTE: Final = "the answer was nested too deeply, and was cut"
NO_JSON_RPC: Final = "it is not JSON-RPC"

MAX_LEVELS: Final = 200
"""What pydantic-core decodes at most; deeper JSON is cut, or refused."""
MAX_CUT_LEVELS: Final = 100
"""The levels that stay of JSON which is cut."""
MAX_CUT_BYTES: Final = 256 * 1024
"""Longer messages are not cut, because looking at every bracket takes time."""
MAX_PART_BYTES: Final = 128 * 1024
"""How much of a large message is searched, or decoded, at a time, except long texts."""
MAX_TEXT_PART_BYTES: Final = 1024 * 1024
"""How much of a long text is decoded at a time; smaller pieces take more memory."""
MAX_SPLIT_LEVELS: Final = 16
"""Large containers are split down to this level; each level is another pass over its bytes."""
MAX_ID_DIGITS: Final = 19
"""Digits in an id that could be one of our numbers."""

_SMALL_BYTES: Final = 2 * MAX_LEVELS
"""A message of this size cannot be nested too deeply."""
_QUICK_BYTES: Final = 16_000_000
_QUICK_NANOSECONDS: Final = 40_000_000
"""JSON that is surely decoded in this time is decoded at once."""
_VALUE_NANOSECONDS: Final = 140
_ESCAPE_NANOSECONDS: Final = 12
_VALUE_BYTES: Final = 100
"""The memory of a value, without its text."""
_SPARE_BYTES: Final = 64_000_000
"""How much more memory than its limit a message may take while it is decoded."""
_WIDE: Final = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", b"\\ud", b"\\uD")
"""What makes every character of a text take four bytes."""
_MAX_PIECE_TRIES: Final = 4
"""Three bytes of a character, or two escapes, may be missing at the end of a piece."""
_COLON: Final = re.compile(rb"[ \t\r\n]*:")
_MARK: Final = secrets.token_hex(16)
"""Stands for a long text; no server knows it."""
_CUT: Final = b'"(nested too deeply)"'
_BRACKETS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|([\[{]+|[\]}]+)', re.DOTALL)
"""A string, which may end with the body, or brackets: from a quote on there is always a match, so
that no part of a body is read twice."""


class LimitError(Exception):
    """A message is not decoded; the text names the limit."""


def too_much_memory(most_bytes: int) -> str:
    """Explain that a message is not decoded because of what would become of it."""
    return (
        "the server sent a message that takes several times its size in memory "
        f"(`message_bytes` in `limits` is {most_bytes:,})"
    )


def too_large(most_bytes: int) -> str:
    """Explain that a message is refused, and what would permit it."""
    return (
        f"the server sent a message of more than {most_bytes:,} bytes "
        "(raise `message_bytes` in `limits`)"
    )


def too_large_handshake(method: str) -> str:
    """Explain that the answer of a handshake is refused."""
    return f"the server answered {method} with more than {LARGE_BYTES:,} bytes"


def parse_json(body: bytes) -> Any:
    """Parse JSON; garbage collection waits, because many objects would start it for nothing."""
    if len(body) < LONG_BYTES:
        return from_json(body)
    with collection_paused():
        return from_json(body)


class _Envelope(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str | None = None
    method: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _SmallEnvelope(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str | None = None
    method: Raw | UnsetType = UNSET
    result: dict[str, Any] | None = None
    error: Raw | UnsetType = UNSET


_small_envelopes: Final = Decoder(_SmallEnvelope)
_envelopes: Final = Decoder(_Envelope)
_texts: Final = Decoder(str)
_raws: Final = Decoder(Raw)
_lists: Final = Decoder(list[Raw])
_objects: Final = Decoder(dict[str, Raw])


class ErrorDetail(Struct, frozen=True):
    """Why a request was refused."""

    code: int
    message: str
    data: Any = None


class Message(Struct, gc=False, eq=False):
    """One JSON-RPC message; the result of a response is decoded when it is needed."""

    id: RequestId | None = None
    """That of a response is a number if it is written as one."""
    method: str | None = None
    params: dict[str, Any] | None = None
    error: ErrorDetail | None = None
    result: dict[str, Any] | None = None
    """The result, if it is decoded; see `decoded_result`."""
    body: bytes = b""
    """The message as it arrived; empty if it was found in a line with something else."""
    raw: Raw | None = None
    """The result that is not decoded yet."""
    large: _LargeBody | None = None
    """What `raw` is a part of, in a large message."""
    note: str | None = None
    """What was changed in the message so that it could be read."""

    def __repr__(self) -> str:
        """Return what it is without what it holds, which may be a secret."""
        return f"Message({self.kind}, id={self.id!r}, method={self.method!r})"

    @property
    def kind(self) -> Kind:
        """Which of the four kinds of messages it is."""
        if self.error is not None:
            return "error"
        if self.method is None:
            return "response"
        return "notification" if self.id is None else "request"

    def decoded_result(self, limits: IncomingLimits = DEFAULT_LIMITS) -> dict[str, Any]:
        """Return the result; that of a message of `LARGE_BYTES` should be decoded in a thread.

        What is nested too deeply is cut, and `note` says so.

        Raises:
            ValueError: It cannot be decoded: it has a number of thousands of digits, say.
            LimitError: It has more values, or would take more memory, than `limits` permit.
        """
        if self.result is None and self.raw is not None:
            try:
                if self.large is None:
                    self.result = parse_json(bytes(self.raw))
                else:
                    self.result = self.large.decode(self.raw, limits)
            except ValueError:
                whole = _cut_and_read(self.body, limits)
                if whole is None or whole.result is None:
                    raise
                self.result, self.note = whole.result, whole.note
            self.raw = self.large = None
        return cast("dict[str, Any]", self.result)


def read(body: bytes, limits: IncomingLimits = DEFAULT_LIMITS, *, at_once: bool = False) -> Message:
    """Read one message in UTF-8; one of `LARGE_BYTES` should be read in a thread.

    `at_once` means that the result of a shorter one needs no reader of its own.

    Raises:
        ValueError: It is not JSON, or not JSON-RPC.
        LimitError: It has more values, or would take more memory, than `limits` permit.
    """
    if len(body) < (LARGE_BYTES if at_once else LONG_BYTES):
        # Finding the result costs more here than it could save.
        if len(body) <= _SMALL_BYTES:
            try:
                small = _small_envelopes.decode(body)
            except (MsgspecError, ValueError):
                return _read_whole(body, limits)
            is_plain = small.error is UNSET and small.method is UNSET
            if is_plain and small.result is not None and type(small.id) is int:
                return Message(small.id, None, None, None, small.result, body)
        return _read_whole(body, limits)
    large = None if _is_quick(body, limits) else _LargeBody(body)
    try:
        envelope = _envelopes.decode(body if large is None else large.skeleton)
    except (MsgspecError, ValueError, RecursionError):
        return _read_whole(body, limits, large)
    raw, request_id = envelope.result, coerced_id(envelope.id)
    is_plain = envelope.error is UNSET and envelope.method is UNSET
    if request_id is None or raw is UNSET or memoryview(raw)[0] != b"{"[0] or not is_plain:
        return _read_whole(body, limits, large)
    if not body.isascii():
        # msgspec does not look at the texts in what stays raw. All at once would hold the GIL.
        decoder = getincrementaldecoder("utf-8")()
        for start in range(0, len(body), MAX_TEXT_PART_BYTES):
            decoder.decode(body[start : start + MAX_TEXT_PART_BYTES])
        decoder.decode(b"", final=True)
    return Message(request_id, None, None, None, None, body, raw, large)


def _read_whole(body: bytes, limits: IncomingLimits, large: _LargeBody | None = None) -> Message:
    """Read a message that is not a plain response."""
    try:
        value = parse_json(body) if large is None else large.decode(large.skeleton, limits)
        message = message_from(value, body)
    except ValueError:
        message = _cut_and_read(body, limits)
    if message is None:
        raise ValueError(NO_JSON_RPC)
    return message


def _cut_and_read(body: bytes, limits: IncomingLimits) -> Message | None:
    """Read a message without its deepest parts; `None` if that does not help."""
    cut = cut_nesting(body)
    message = None if cut is body else message_from(decode(cut, limits), body)
    if message is not None:
        message.note = NESTED_NOTE
    return message


def message_from(value: object, body: bytes = b"") -> Message | None:
    """Return the message that a JSON value is; a result of null is an empty one.

    A value that could be several kinds of messages is the one with most fields.
    """
    if not _is_object(value) or value.get("jsonrpc") != "2.0":
        return None
    request_id = value.get("id")
    has_id = type(request_id) is int or type(request_id) is str
    may_be_error = "error" in value and (has_id or (request_id is None and "id" in value))
    if may_be_error and (error := _error_from(value["error"])) is not None:
        return Message(coerced_id(request_id), None, None, error, None, body)
    if "method" in value:
        method, params = value["method"], value.get("params")
        if type(method) is str and (params is None or _is_object(params)):
            return Message(request_id if has_id else None, method, params, None, None, body)
    if has_id and "result" in value:
        result = value["result"]
        if result is None or _is_object(result):
            return Message(coerced_id(request_id), None, None, None, result or {}, body)
    return None


def coerced_id(request_id: object) -> RequestId | None:
    """Convert the id "7" back to 7: some servers return numbers as strings."""
    if isinstance(request_id, int):
        return request_id
    if not isinstance(request_id, str):
        return None
    if request_id.isascii() and len(request_id) <= MAX_ID_DIGITS and request_id.isdecimal():
        return int(request_id)
    return request_id


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return type(value) is dict


def _error_from(value: object) -> ErrorDetail | None:
    if not _is_object(value) or type(value.get("message")) is not str:
        return None
    code = value.get("code")
    try:  # some servers write the code as a text
        number = int(cast("Any", code))
    except (TypeError, ValueError, OverflowError):
        return None
    if type(code) is float and code != number:
        return None
    return ErrorDetail(number, value["message"], value.get("data"))


def decode(body: bytes, limits: IncomingLimits = DEFAULT_LIMITS) -> Any:
    """Decode JSON of any size and shape.

    Raises:
        ValueError: It is not JSON, or is nested too deeply.
        LimitError: It has more values, or would take more memory, than `limits` permit.
    """
    if _is_quick(body, limits):
        return parse_json(body)
    large = _LargeBody(body)
    return large.decode(large.skeleton, limits)


def _is_quick(body: bytes, limits: IncomingLimits) -> bool:
    """Return whether JSON takes so little time and memory that it is decoded at once."""
    if len(body) < LARGE_BYTES:
        return True
    if len(body) > _QUICK_BYTES:
        return False
    values = body.count(b",") + _openings(body)  # texts may hold commas and brackets, too
    text = len(body) * (1 if body.isascii() else 3) + body.count(b"\\") * _ESCAPE_NANOSECONDS
    return values < limits.values and text + values * _VALUE_NANOSECONDS < _QUICK_NANOSECONDS


def _openings(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


class _LargeBody:
    """A large message, which is decoded in parts, so that no call holds the interpreter for long.

    A decoder in C holds the GIL from its first byte to its last. Long texts are taken out first,
    and decoded in pieces. What remains is decoded container by container, since finding the entries
    of a container takes a fraction of the time that decoding them does.
    """

    def __init__(self, body: bytes) -> None:
        self.values = 0
        """The commas and opening brackets outside of texts."""
        self.skeleton = body
        """The body with marks in place of its long texts."""
        self._body = body
        self._texts: dict[str, tuple[int, int]] = {}
        """Where the long texts are in the body, by their marks."""
        self._room = 0
        """How many bytes may still be made of the message."""
        self._most_bytes = 0
        self._take_texts_out()

    def _take_texts_out(self) -> None:
        kept: list[bytes] = []
        kept_until, text_start, in_text, is_long = 0, 0, False, False
        for start, part in _masked_parts(self._body):
            pieces = part.split(b'"')
            outside = b"".join(pieces[in_text::2])
            self.values += outside.count(b",") + _openings(outside)
            if len(pieces) == 1:  # without a quote: a text that fills the part is a long one
                is_long = in_text
                continue
            if is_long:
                text_end, is_long = start + len(pieces[0]), False
                if _COLON.match(self._body, text_end + 1):
                    raise ValueError("a name is too long")
                mark = f"{_MARK}{len(self._texts)}"
                self._texts[mark] = (text_start, text_end)
                kept += [self._body[kept_until:text_start], mark.encode()]
                kept_until = text_end
            in_text ^= len(pieces) % 2 == 0
            text_start = start + len(part) - len(pieces[-1])
        if kept:
            self.skeleton = b"".join([*kept, self._body[kept_until:]])

    def decode(self, part: Raw | bytes, limits: IncomingLimits) -> Any:
        """Decode a part of the skeleton, or the whole of it."""
        if self.values > limits.values:
            most = f"{limits.values:,} values (raise `values` in `limits`)"
            raise LimitError(f"the server sent a message of more than {most}")
        self._most_bytes = most = limits.message_bytes
        self._room = most + max(2 * most, _SPARE_BYTES) - len(self._body)
        self._take(self.values * _VALUE_BYTES)
        with collection_paused():
            try:
                value = self._decode(_raws.decode(part), 0)
            except (MsgspecError, RecursionError):
                value = self._decode_at_once(bytes(part))
            return self._with_texts(value) if self._texts else value

    def _decode(self, part: Raw, level: int) -> Any:
        view = memoryview(part)
        if view.nbytes > MAX_PART_BYTES and level < MAX_SPLIT_LEVELS:
            if view[0] == b"["[0]:
                return self._decode_all(_lists.decode(part), view.nbytes, level + 1)
            if view[0] == b"{"[0]:
                members = _objects.decode(part)
                values = self._decode_all(list(members.values()), view.nbytes, level + 1)
                return dict(zip(members, values, strict=True))
        return self._decode_at_once(bytes(part))

    def _decode_all(self, parts: list[Any], size: int, level: int) -> list[Any]:
        """Decode the entries of a container in place, small ones with their neighbours."""
        count = 1 + len(parts) * MAX_PART_BYTES // size
        for start in range(0, len(parts), count):
            group = slice(start, start + count)
            joined = b"[%b]" % b",".join(parts[group]) if count > 1 else b""
            if 0 < len(joined) <= 2 * MAX_PART_BYTES:
                parts[group] = self._decode_at_once(joined)
            else:
                del joined
                parts[group] = [self._decode(part, level) for part in parts[group]]
        return parts

    def _decode_at_once(self, part: bytes) -> Any:
        width = 1  # how many bytes each character of its texts may take
        if not part.isascii() or b"\\u" in part:
            width = 4 if any(sign in part for sign in _WIDE) else 2
        self._take(len(part) * width)
        return from_json(part)

    def _with_texts(self, value: object) -> object:
        """Put the long texts back in place of their marks."""
        root = [value]
        containers: list[Any] = [root]
        while containers:
            container = containers.pop()
            entries = container.items() if _is_object(container) else enumerate(container)
            for key, entry in cast("Iterable[tuple[Any, object]]", entries):
                if type(entry) is str:
                    if entry in self._texts:
                        container[key] = self._text(*self._texts[entry])
                elif type(entry) is dict or type(entry) is list:
                    containers.append(entry)
        return root[0]

    def _text(self, start: int, end: int) -> str:
        if self._is_plain(start, end):
            self._take(end - start)
            return str(memoryview(self._body)[start:end], "ascii")  # without another copy
        pieces: list[str] = []
        length, width = 0, 1
        while start < end:
            piece, start = self._text_piece(start, end)
            pieces.append(piece)
            length += len(piece)
            if not piece.isascii():
                widest = ord(max(piece))
                width = max(width, 1 if widest < 1 << 8 else 2 if widest < 1 << 16 else 4)
            self._take(sys.getsizeof(piece))
            if length * width > self._room:  # what all characters take once they are joined
                raise LimitError(too_much_memory(self._most_bytes))
        return "".join(pieces)

    def _text_piece(self, start: int, end: int) -> tuple[str, int]:
        """Decode the next piece of a text, and return where the one after it starts."""
        stop = min(start + MAX_TEXT_PART_BYTES, end)
        for _ in range(_MAX_PIECE_TRIES):
            try:
                return _texts.decode(b'"%b"' % self._body[start:stop]), stop
            except UnicodeDecodeError:
                stop -= 1  # it ends within a character
            except MsgspecError:
                # It ends within an escape, or a pair of surrogates.
                stop = self._body.rfind(b"\\", start, stop)
            if stop <= start:
                break
        raise ValueError("not a text")

    def _is_plain(self, start: int, end: int) -> bool:
        """Return whether a text is what its bytes are."""
        for at in range(start, end, MAX_TEXT_PART_BYTES):
            part = self._body[at : min(at + MAX_TEXT_PART_BYTES, end)]
            if not part.isascii() or b"\\" in part:
                return False
            try:
                _raws.decode(b'"%b"' % part)
            except MsgspecError:
                raise ValueError("not a text") from None
        return True

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise LimitError(too_much_memory(self._most_bytes))


def _masked_parts(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a body in which every quote begins or ends a text."""
    start = 0
    while start < len(body):
        end = start + MAX_PART_BYTES
        part = body[start:end]
        if b"\\" in part:
            if (len(part) - len(part.rstrip(b"\\"))) % 2:  # keep it with what it escapes
                part = body[start : end + 1]
            part = part.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        yield start, part
        start += len(part)


def cut_nesting(body: bytes) -> bytes:
    """Return JSON with what is nested too deeply replaced by a text; the same object if nothing is.

    Takes linear time, whatever the body holds.
    """
    if len(body) > MAX_CUT_BYTES:
        return body
    kept: list[bytes] = []
    level = end = 0
    for found in _BRACKETS.finditer(body):
        brackets: bytes | None = found[1]
        if brackets is None:
            continue  # a string
        start, count = found.start(), len(brackets)
        if brackets[0] in b"[{":
            if level <= MAX_CUT_LEVELS < level + count:
                kept += [body[end : start + MAX_CUT_LEVELS - level], _CUT]
            level += count
        else:
            if level - count <= MAX_CUT_LEVELS < level:
                end = start + level - MAX_CUT_LEVELS
            level -= count
    if not kept:
        return body
    return b"".join([*kept, body[end:]])
