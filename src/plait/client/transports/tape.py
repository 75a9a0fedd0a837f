"""Tapes: MCP traffic recorded as JSON lines, and finding the recorded answer to a request."""

from __future__ import annotations

import difflib
import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast, get_args

from plait._support.exception_groups import one_line
from plait._support.files import make_private, write_private
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.transports")

TapeMode = Literal["once", "none", "all", "new_episodes"]
"""When to record: if there is no tape yet, never, always anew, or what is not on the tape."""

FaultKind = Literal["error", "cut", "hang"]
"""What happens instead of the recorded answer: an error, the end of the connection, or nothing."""

NOT_RECORDED = -32089
"""The code of our own error response to a request that is not on the tape."""
TAPE_VERSION = 1
HANDSHAKE = frozenset({"initialize", "server/discover"})
"""Requests that open a session; their parameters differ between versions of the client."""
_COUNTED = frozenset({"tools/call"})
"""Requests whose answers are played once each; others change nothing and may be repeated."""
MAX_DIFFERENCES = 4
MAX_VALUE_CHARS = 80
"""How much an error tells of how a request differs from the recorded ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeFault:
    """A fault laid over a tape: it happens to calls that match, instead of their answer."""

    kind: FaultKind
    match: str = "*"
    """A tool, or `server/tool`; globs are allowed."""
    times: int | None = 1
    """How many calls it happens to; `None` is all of them."""


@dataclass(slots=True)
class Recorded:
    """One request with its answer, and what was exchanged in between."""

    server: str
    method: str
    params: Any
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Notifications and requests of the server, and the client's answers, in their order."""
    result: Any = None
    error: dict[str, Any] | None = None
    answered: bool = True
    """Whether there is an answer; a subscription has none while it is open."""
    seconds: float | None = None
    after: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Notifications that arrived after the answer, outside any request."""

    @property
    def key(self) -> str:
        """What a request must have in common with the recorded one."""
        return request_key(self.server, self.method, self.params)

    def to_line(self) -> dict[str, Any]:
        """Return the line of the tape."""
        line: dict[str, Any] = {"server": self.server, "method": self.method}
        if self.params:
            line["params"] = self.params
        if self.steps:
            line["steps"] = self.steps
        if self.error is not None:
            line["error"] = self.error
        elif self.answered:
            line["result"] = self.result
        if self.seconds is not None:
            line["seconds"] = self.seconds
        return line


def request_key(server: str, method: str, params: Any) -> str:
    """Return what identifies a request: neither ids, nor `_meta`, nor the order of keys."""
    compared = None if method in HANDSHAKE else (params or None)
    return json.dumps([server, method, compared], sort_keys=True, ensure_ascii=False)


def comparable(params: Mapping[str, Any] | None, redact: Callable[[str], str]) -> Any:
    """Return parameters without `_meta` and secrets."""
    plain = {name: value for name, value in (params or {}).items() if name != "_meta"}
    return redacted(plain, redact)


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value with every text redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(item, redact) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {redact(name): redacted(item, redact) for name, item in pairs}
    return value


class Tape:
    """A file of recorded MCP traffic, for tests that run without their servers.

    `mode` says when to record: `once` if there is no file yet, `none` never, `all` always anew,
    `new_episodes` what is not on the tape. `faults` happen to calls that are played.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: TapeMode = "once",
        faults: Sequence[TapeFault] = (),
    ) -> None:
        if mode not in get_args(TapeMode):
            raise ConfigError(f"a tape has no mode {mode!r}: use {', '.join(get_args(TapeMode))}")
        self.path = Path(path)
        self.mode: TapeMode = mode
        exists = self.path.exists()
        if mode == "none" and not exists:
            raise ConfigError(f'there is no tape {self.path}: record it first, with mode "once"')
        self.plays = exists and mode != "all"
        """Whether recorded answers are played."""
        self.records = mode in {"all", "new_episodes"} or not exists
        """Whether requests are sent to servers and recorded."""
        self._fresh = not self.plays
        self._has_failed = False
        self._faults = [[fault, fault.times] for fault in faults]
        self._recorded: dict[str, list[Recorded]] = defaultdict(list)
        self._played: dict[str, int] = defaultdict(int)
        if self.plays:
            for one in read_tape(self.path):
                self._recorded[one.key].append(one)

    def __repr__(self) -> str:
        return f"Tape({str(self.path)!r}, mode={self.mode!r})"

    def servers(self) -> tuple[str, ...]:
        """Return the names of the recorded servers."""
        return tuple(dict.fromkeys(one.server for one in self._all()))

    def find(self, server: str, method: str, params: Any) -> Recorded | None:
        """Return the recorded request to play for this one, and count it as played."""
        key = request_key(server, method, params)
        recorded = self._recorded.get(key)
        if not recorded:
            return None
        played = self._played[key]
        if played >= len(recorded) and method in _COUNTED:
            return None
        self._played[key] += 1
        return recorded[min(played, len(recorded) - 1)]

    def fault_for(self, server: str, method: str, params: Mapping[str, Any] | None) -> str | None:
        """Return the fault that happens to a call, if any, and count it."""
        if not self._faults or method != "tools/call":
            return None
        tool = str((params or {}).get("name"))
        for entry in self._faults:
            fault, left = cast("tuple[TapeFault, int | None]", tuple(entry))
            named = f"{server}/{tool}" if "/" in fault.match else tool
            if left != 0 and fnmatchcase(named, fault.match):
                entry[1] = None if left is None else left - 1
                return fault.kind
        return None

    def explain_miss(self, server: str, method: str, params: Any) -> str:
        """Say why a request is not played: the nearest recorded one, and what differs."""
        target = cast("dict[str, Any]", params if isinstance(params, dict) else {})
        name: object = target.get("name") or target.get("uri")
        what = f"{server}: {method}"
        if isinstance(name, str):
            what += f" {one_line(name, MAX_VALUE_CHARS)}"
        if recorded := self._recorded.get(request_key(server, method, params)):
            times = len(recorded)
            return f"{what} was recorded {times} time{'s' * (times > 1)} only, in {self.path}"
        if server not in self.servers():
            return f"{self.path} has no server {server!r}: {', '.join(self.servers())}"
        others = [one for one in self._all() if (one.server, one.method) == (server, method)]
        if not others:
            return f"{what} is not recorded in {self.path}, and no other {method} of {server} is"
        wanted = request_key(server, method, params)
        nearest = max(
            others,
            key=lambda one: difflib.SequenceMatcher(None, wanted, one.key, autojunk=False).ratio(),
        )
        found = list(_differences(nearest.params, params))
        return f"{what} is not recorded in {self.path}; the nearest differs: " + "; ".join(
            [*found[:MAX_DIFFERENCES], *(["…"] if len(found) > MAX_DIFFERENCES else [])]
        )

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line; a tape that is recorded anew begins with the first.

        If that fails, the recording ends there, with a warning: calls do not depend on it.
        """
        if self._has_failed:
            return
        try:
            if self._fresh:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_private(self.path, _line_of({"tape": TAPE_VERSION}))
                self._fresh = False
            with self.path.open("a", encoding="utf-8") as file:
                make_private(file.fileno())
                file.write(_line_of(line))
        except OSError as error:
            self._has_failed = True
            logger.warning("the tape %s cannot be written: %s", self.path, error.strerror)

    def discard(self) -> None:
        """Remove what was recorded anew, for example because the test has failed."""
        if not self.plays and self.records:
            self.path.unlink(missing_ok=True)
            self._fresh = True

    def _all(self) -> Iterator[Recorded]:
        for recorded in self._recorded.values():
            yield from recorded


def tape_from(record: object, replay: object) -> Tape | None:
    """Return the tape of a client: `record` is a path to record to, `replay` one to play.

    Either may be a `Tape`, which has a mode of its own.
    """
    if record is not None and replay is not None:
        raise ConfigError('use record or replay, not both; Tape(path, mode="new_episodes") does')
    source = replay if record is None else record
    if source is None or isinstance(source, Tape):
        return source
    if not isinstance(source, str | os.PathLike):
        raise ConfigError("record and replay take the path of a tape, or a Tape")
    path = cast("str | os.PathLike[str]", source)
    return Tape(path, mode="none" if record is None else "all")


def _line_of(line: Mapping[str, Any]) -> str:
    text = json.dumps(line, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode() + "\n"


def read_tape(path: str | os.PathLike[str]) -> list[Recorded]:
    """Read the requests of a tape, in their order.

    Raises:
        ConfigError: It is not a tape.
    """
    path = Path(path)
    # Not `splitlines`: texts contain what it takes for the end of a line, such as U+2028.
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    recorded: list[Recorded] = []
    last: dict[str, Recorded] = {}
    for number, text in enumerate(lines, start=1):
        try:
            line = cast("dict[str, Any]", json.loads(text))
            if number == 1:
                if line.get("tape") != TAPE_VERSION:
                    wanted = f"a tape of version {TAPE_VERSION}"
                    raise ConfigError(f"{path} is not {wanted}; record it again")
                continue
            if "notification" in line:
                if (earlier := last.get(line["server"])) is not None:
                    earlier.after.append(line["notification"])
                continue
            one = last[line["server"]] = Recorded(
                server=line["server"],
                method=line["method"],
                params=line.get("params"),
                steps=line.get("steps", []),
                result=line.get("result"),
                error=line.get("error"),
                answered="result" in line or "error" in line,
                seconds=line.get("seconds"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            if number == len(lines) and number > 1:
                break  # the recording was cut off here
            raise ConfigError(f"{path}:{number} is not a line of a tape") from None
        recorded.append(one)
    return recorded


def _differences(recorded: Any, sent: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(sent, dict):
        old, new = cast("dict[str, Any]", recorded), cast("dict[str, Any]", sent)
        for name in dict.fromkeys([*old, *new]):
            place = f"{path}.{name}" if path else name
            if name not in old:
                yield f"{place} is new ({_quoted_value(new[name])})"
            elif name not in new:
                yield f"{place} is missing (recorded: {_quoted_value(old[name])})"
            else:
                yield from _differences(old[name], new[name], place)
    elif recorded != sent:
        yield f"{path or 'params'} is {_quoted_value(sent)} (recorded: {_quoted_value(recorded)})"


def _quoted_value(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), MAX_VALUE_CHARS)
