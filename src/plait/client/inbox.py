"""Asks the person at an open viewer: approvals, and the questions of servers, of any process.

A viewer listens on a socket in a folder that only its user can enter. A process that needs an
answer connects, sends its question as one line of JSON, and reads the answer as another line. So
nothing is polled, a question ends with the process that asked it, and without a viewer the answer
is `None` at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from plait._support.exception_groups import one_line
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.config.raw_value import state_folder
from plait.traces.codec import Cleaner
from plait.traces.messages.message import Message, Role

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

    from plait.client.calls.approval import Approval, ApprovalRequest
    from plait.client.protocol.session import OnElicitation

MAX_LINE_BYTES: Final = 4_000_000
"""A question or an answer; the arguments of a call are smaller."""
MAX_SOCKET_PATH_BYTES: Final = 100
"""Systems take about 104; a longer folder is replaced by one among the temporary files."""
MAX_SOURCE_CHARACTERS: Final = 100
"""A page shows what asks in one line or two."""
CONNECT_SECONDS: Final = 5.0
"""A viewer on this machine that takes longer hangs."""

SESSION_TEXT: Final = "for this session, in the viewer"


def inbox_folder() -> Path | None:
    """Return the folder of the sockets of viewers; `None` where there are no such sockets."""
    if not hasattr(asyncio, "open_unix_connection"):  # Windows
        return None
    folder = state_folder() / "inbox"
    if len(os.fsencode(folder)) > MAX_SOCKET_PATH_BYTES - len("/4194304.sock"):
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir(), f"plait-{os.getuid()}-{digest}")
    return folder


def is_private(folder: Path) -> bool:
    """Return whether only this user can enter a folder, which is no link.

    Raises:
        OSError: There is none.
    """
    found = folder.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and stat.S_IMODE(found.st_mode) & 0o077 == 0
    )


def viewer_sockets() -> list[Path]:
    """Return the sockets of viewers that may be open, the newest first."""
    try:
        folder = inbox_folder()
        found = list(folder.glob("*.sock")) if folder and is_private(folder) else []
        return sorted(found, key=lambda path: path.lstat().st_mtime, reverse=True)
    except OSError:  # no viewer was ever open, or one has just ended
        return []


def question_line(messages: Sequence[Message]) -> str:
    """Return the last thing that a user said, in one short line."""
    said = [message.text for message in messages if message.role is Role.USER]
    return one_line(said[-1], MAX_SOURCE_CHARACTERS) if said else "an agent"


class Inbox:
    """Asks viewers for one run, conversation or client, and remembers "for this session"."""

    def __init__(self, source: str, secrets: Iterable[str] = ()) -> None:
        """Take what asks, as the viewer names it, and the secrets that it must not show."""
        self.source = source
        self._redact = Redactor(secrets)
        self._cleaner = Cleaner(self._redact)
        self._approved: set[str] = set()

    def remembered(self, request: ApprovalRequest) -> Approval | None:
        """Return the approval of a tool that was given for the session."""
        from plait.client.calls.approval import Approval  # noqa: PLC0415

        is_known = request.where in self._approved
        return Approval("approve", message=SESSION_TEXT, by="person") if is_known else None

    async def approve(self, request: ApprovalRequest, *, patient: bool = False) -> Approval | None:
        """Return the decision of the person at a viewer; `None` if nobody looks at one.

        A `patient` question stays while nobody looks, because it is answered elsewhere then.
        """
        from plait.client.calls.approval import Approval  # noqa: PLC0415

        if (remembered := self.remembered(request)) is not None:
            return remembered
        shown = cast("dict[str, Any]", self._cleaner.clean(dict(request.arguments)))
        question = {
            "kind": "approval",
            "server": request.server,
            "tool": request.tool,
            "message": self._cleaner.clean(request.reason),
            "arguments": shown,
        }
        answer = await self._ask(question, patient=patient)
        match answer:
            case {"decision": "approve"}:
                if answer.get("scope") == "session":
                    self._approved.add(request.where)
                return Approval("approve", by="person")
            case {"decision": "edit", "args": dict()}:
                args = with_originals(answer["args"], shown, request.arguments)
                return Approval("edit", args, by="person")
            case {"decision": "reject"}:
                why = answer.get("message") or "the user rejected the call in the viewer"
                return Approval("reject", message=str(why), by="person")
            case _:
                return None

    async def elicit(
        self, server: str, params: ElicitRequestParams, *, patient: bool = False
    ) -> ElicitResult | None:
        """Return the answer to a question of a server; `None` if nobody looks at a viewer."""
        from mcp_types import ElicitResult  # noqa: PLC0415

        question = {
            "kind": "question",
            "server": server,
            "message": self._cleaner.clean(params.message),
            "schema": getattr(params, "requested_schema", None),
            "url": getattr(params, "url", None),
        }
        match await self._ask(question, patient=patient):
            case {"action": "accept" | "decline" | "cancel" as action, **rest}:
                return ElicitResult(action=action, content=rest.get("content"))
            case _:
                return None

    def elicitation_callback(self, server: str) -> OnElicitation:
        """Return a callback for a toolbox that declines where nobody looks at a viewer."""

        async def elicit(_context: object, params: ElicitRequestParams) -> ElicitResult:
            from mcp_types import ElicitResult  # noqa: PLC0415

            return await self.elicit(server, params) or ElicitResult(action="decline")

        return elicit

    async def _ask(self, question: Mapping[str, Any], *, patient: bool) -> Mapping[str, Any] | None:
        about = {"source": self._redact(self.source), "patient": patient}
        line = json.dumps({**question, **about}, default=str)
        for path in await in_thread(viewer_sockets):
            with suppress(OSError, ValueError, TimeoutError):
                answer = await _exchange(path, line)
                if answer is not None:
                    return answer
        return None


async def _exchange(path: Path, line: str) -> Mapping[str, Any] | None:
    """Send a question to one viewer; `None` if it ended, or nobody looks at it."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
    except ConnectionRefusedError:  # its viewer was killed
        await in_thread(path.unlink, missing_ok=True)
        return None
    try:
        writer.write(line.encode() + b"\n")
        await writer.drain()
        answer: object = json.loads(await reader.readline() or b"null")
        return cast("Mapping[str, Any]", answer) if isinstance(answer, dict) else None
    finally:
        writer.close()


def with_originals(edited: Any, shown: Any, original: Any) -> Any:
    """Return edited arguments with the secrets that the person could not see, where unchanged."""
    if edited == shown:
        return original
    match edited, shown, original:
        case dict(), dict(), Mapping():
            keys = cast("dict[str, Any]", edited)
            return {
                key: with_originals(value, shown[key], original[key])
                if key in shown and key in original
                else value
                for key, value in keys.items()
            }
        case list(), list(), list():
            lists = cast("tuple[list[Any], list[Any], list[Any]]", (edited, shown, original))
            if len({len(one) for one in lists}) == 1:  # else it is not known which one is which
                return [with_originals(*values) for values in zip(*lists, strict=True)]
            return cast("Any", edited)
        case _:
            return edited
