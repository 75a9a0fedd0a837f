"""Answers a client of `plait serve` on stdio before the server is imported.

Programs wait for the tools of all their servers when they start, and importing the server takes
most of a second. A server therefore stores its answers to what every client asks first, with a
digest of all that decides about them. The next process with the same command line sends these
answers, and leaves the conversation to the server when something else arrives or the client pauses.

Only small modules are imported here, because each delays the first answer.
"""

from __future__ import annotations

import json
import os
import re
import select
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from plait._support import mcp_types as types
from plait._support.folders import cache_folder
from plait._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAUSE_MILLISECONDS = 100
"""How long a client may take for its next request; while the server is imported, none is read."""
MAX_STORED_BYTES = 64_000_000
"""A larger file is not read: reading it would take longer than asking the servers."""
MAX_LINE_BYTES = 1_000_000
"""A longer line is left to the server, which has limits of its own."""

_FORMAT = "1"
_VARIABLES = frozenset({"HOME", "SUDO_UID", "XDG_CONFIG_HOME", "XDG_STATE_HOME"})
"""The environment variables that decide about the configuration and its approval."""
_REFERENCE = re.compile(rb"\$\{\s*(?:env:)?\s*(\w+)")
_OTHERS_MAY_WRITE = 0o022


class Conversation:
    """What a client has sent and was answered, until the server takes over."""

    def __init__(self, folder: Path) -> None:
        """Use the answers in this folder."""
        self.folder = folder
        self.answers: Mapping[str, bytes] = {}
        """The stored results, by method."""
        self._client: str | None = None
        self._unread: list[bytes] = []
        self._line = b""
        self.opening: tuple[str, dict[str, Any]] | None = None
        """The method and params of the first request that was answered."""
        self.sent: dict[str, bytes] = {}
        """The results that were sent, by method."""
        self.unsent = bytearray()
        """What the client has not read yet of its answers."""
        self.is_over = False
        """Whether the client has left, and has all its answers."""

    @property
    def _shook_hands(self) -> bool:
        return self.opening is not None and self.opening[0] == "initialize"

    @property
    def unread(self) -> bytes:
        """What arrived and is left to the server."""
        return b"\n".join([*self._unread, self._line])

    def hold(self, stdin: int, stdout: int) -> None:
        """Answer what is known, until something else arrives, or the client pauses or leaves.

        Raises:
            OSError: One of the two ends is closed; the server finds the same.
        """
        poller = select.poll()
        poller.register(stdin, select.POLLIN)
        blocks = os.get_blocking(stdout)
        os.set_blocking(stdout, False)  # a client may send much before it reads anything
        has_left, takes_more = False, True
        try:
            while takes_more or self.unsent:
                poller.register(stdout, select.POLLOUT if self.unsent else 0)
                ready = dict(poller.poll(PAUSE_MILLISECONDS))
                if not ready or (stdout in ready and not self.unsent):
                    return  # it pauses, or reads no more
                if stdout in ready:
                    del self.unsent[: os.write(stdout, self.unsent)]
                if stdin in ready:
                    data = os.read(stdin, MAX_LINE_BYTES)
                    has_left = not data
                    takes_more = not has_left and self.take(data)
                    if not takes_more:
                        poller.unregister(stdin)
            self.is_over = has_left and self.opening is not None and not self._line
        finally:
            os.set_blocking(stdout, blocks)

    def take(self, data: bytes) -> bool:
        """Answer what arrived; return whether nothing of it needs the server now."""
        *lines, self._line = (self._line + data).split(b"\n")
        for number, line in enumerate(lines):
            answer = self._answer(line)
            if answer is None:
                self._unread += lines[number:]
                return False
            if not answer:
                self._unread.append(line)
            self.unsent += answer
        return len(self._line) < MAX_LINE_BYTES

    def _answer(self, line: bytes) -> bytes | None:
        """Return the response to a line, nothing for a notification, `None` if it is not known."""
        try:
            message: Any = json.loads(line.decode())
        except (ValueError, RecursionError):
            return None
        match message:
            case {"method": str()} if "id" not in message:
                return b""
            case {"jsonrpc": "2.0", "id": int() | str() as request_id, "method": str(method)}:
                params: Any = message.get("params") or {}
            case _:
                return None
        if (
            isinstance(request_id, bool)
            or not _is_object(params)
            or not _is_object(params.get("_meta") or {})
            or (method != "initialize" and params.keys() - {"_meta"})
        ):
            return None
        declared = declaration(method, params)
        if self.opening is None:
            if declared is None:
                return None
            self._client, self.answers = declared, read_answers(self.folder, declared)
        elif method == "initialize" or not (self._shook_hands or declared == self._client):
            return None
        result = self.answers.get(method)
        if result is None:
            return None
        self.opening = self.opening or (method, params)
        self.sent[method] = result
        answered_id = json.dumps(request_id).encode()
        return b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (answered_id, result)


def converse(arguments: Sequence[str]) -> Conversation | None:
    """Begin with the client of a process with this command line, unless it is a person."""
    if os.name != "posix" or os.isatty(0):
        return None
    conversation = Conversation(answers_folder(arguments))
    if conversation.folder.is_dir():
        with suppress(OSError):
            conversation.hold(0, 1)
    return conversation


def declaration(method: str, params: Mapping[str, Any]) -> str | None:
    """Return what a request says of the abilities of its client, on which answers depend.

    In the handshake era only the first request does.
    """
    meta: dict[str, Any] = params.get("_meta") or {}
    if types.PROTOCOL_VERSION_META_KEY in meta:
        keys = types.PROTOCOL_VERSION_META_KEY, types.CLIENT_CAPABILITIES_META_KEY
        return json.dumps(["modern", *(meta.get(key) for key in keys)], sort_keys=True)
    if method == "initialize":
        abilities = params.get("protocolVersion"), params.get("capabilities")
        return json.dumps(["handshake", *abilities], sort_keys=True)
    return None


def answers_folder(arguments: Sequence[str]) -> Path:
    """Return the folder of the answers of servers with this command line."""
    # Programs start plait in the folder of a project, where it only looks for a configuration.
    # Of several ones the last counts; a short option may be another.
    is_named = (
        len(arguments) > 2
        and arguments[1] == "--config"
        and Path(arguments[2]).is_absolute()
        and not any(re.match(r"-(?!-)|--config", one) for one in arguments[3:])
    )
    environment = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name in _VARIABLES or name.startswith("PLAIT_")
    ]
    place = "" if is_named else str(Path.cwd())
    key = json.dumps([_FORMAT, __version__, place, [*arguments], environment])
    return cache_folder() / "serve" / "answers" / _digest(key.encode())[:32]


def answers_path(folder: Path, declared: str) -> Path:
    """Return the file of the answers to clients that declare this."""
    return folder / f"{_digest(declared.encode())[:32]}.txt"


def fingerprint(files: Sequence[str]) -> str:
    """Return a digest of files, whether they are there or not, and of the variables they name."""
    seen = sha256()
    for path in files:
        content, facts = b"", None
        with suppress(OSError), Path(path).open("rb") as file:
            found = os.fstat(file.fileno())
            content, facts = file.read(), [found.st_mode, found.st_uid]
        names = sorted({name.decode() for name in _REFERENCE.findall(content)})
        variables = [(name, os.environ.get(name)) for name in names]
        seen.update(json.dumps([path, facts, len(content), variables]).encode() + content)
    return seen.hexdigest()


def answers_text(files: Sequence[str], known: str, answers: Mapping[str, bytes]) -> str:
    """Return the content of a file of answers; `known` is the fingerprint of the files."""
    body = b"\n".join(b"%s %s" % (method.encode(), one) for method, one in answers.items())
    head = {"files": [*files], "fingerprint": known, "digest": _digest(body)}
    return f"{json.dumps(head)}\n{body.decode()}"


def read_answers(folder: Path, declared: str) -> dict[str, bytes]:
    """Return the answers to clients that declare this, if they are valid now."""
    try:
        first, _, body = read_own_file(answers_path(folder, declared)).partition(b"\n")
        head = json.loads(first)
        if head["digest"] != _digest(body) or head["fingerprint"] != fingerprint(head["files"]):
            return {}
        pairs = (line.partition(b" ") for line in body.split(b"\n"))
        return {method.decode(): answer for method, _, answer in pairs}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def read_own_file(path: Path) -> bytes:
    """Return the content of a file that only its owner can have written.

    Raises:
        OSError: It cannot be read, others may have written it, or it is too large.
    """
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        if os.name == "posix" and (
            facts.st_mode & _OTHERS_MAY_WRITE or facts.st_uid != os.getuid()
        ):
            raise PermissionError(f"{path} is writable by others, and is not used")
        if facts.st_size > MAX_STORED_BYTES:
            raise OSError(f"{path} is too large")
        return file.read()


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
